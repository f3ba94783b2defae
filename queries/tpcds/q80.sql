-- Thirty days of sales, returns and profit on costly items sold without television promotion,
-- by store, catalog page and web site, with totals for each channel and over all.
WITH ssr AS (
    SELECT
        s.s_store_id AS store_id,
        sum(ss.ss_ext_sales_price) AS sales,
        sum(COALESCE(sr.sr_return_amt, 0)) AS returns_,
        sum(ss.ss_net_profit - COALESCE(sr.sr_net_loss, 0)) AS profit
    FROM store_sales ss
    LEFT JOIN store_returns sr
        ON sr.sr_item_sk = ss.ss_item_sk
        AND sr.sr_ticket_number = ss.ss_ticket_number
    JOIN date_dim d ON d.d_date_sk = ss.ss_sold_date_sk
    JOIN store s ON s.s_store_sk = ss.ss_store_sk
    JOIN item i ON i.i_item_sk = ss.ss_item_sk
    JOIN promotion p ON p.p_promo_sk = ss.ss_promo_sk
    WHERE d.d_date BETWEEN DATE '2000-08-23' AND DATE '2000-09-22'
        AND i.i_current_price > 50
        AND p.p_channel_tv = 'N'
    GROUP BY s.s_store_id
),
csr AS (
    SELECT
        cp.cp_catalog_page_id AS catalog_page_id,
        sum(cs.cs_ext_sales_price) AS sales,
        sum(COALESCE(cr.cr_return_amount, 0)) AS returns_,
        sum(cs.cs_net_profit - COALESCE(cr.cr_net_loss, 0)) AS profit
    FROM catalog_sales cs
    LEFT JOIN catalog_returns cr
        ON cr.cr_item_sk = cs.cs_item_sk
        AND cr.cr_order_number = cs.cs_order_number
    JOIN date_dim d ON d.d_date_sk = cs.cs_sold_date_sk
    JOIN catalog_page cp ON cp.cp_catalog_page_sk = cs.cs_catalog_page_sk
    JOIN item i ON i.i_item_sk = cs.cs_item_sk
    JOIN promotion p ON p.p_promo_sk = cs.cs_promo_sk
    WHERE d.d_date BETWEEN DATE '2000-08-23' AND DATE '2000-09-22'
        AND i.i_current_price > 50
        AND p.p_channel_tv = 'N'
    GROUP BY cp.cp_catalog_page_id
),
wsr AS (
    SELECT
        site.web_site_id,
        sum(ws.ws_ext_sales_price) AS sales,
        sum(COALESCE(wr.wr_return_amt, 0)) AS returns_,
        sum(ws.ws_net_profit - COALESCE(wr.wr_net_loss, 0)) AS profit
    FROM web_sales ws
    LEFT JOIN web_returns wr
        ON wr.wr_item_sk = ws.ws_item_sk
        AND wr.wr_order_number = ws.ws_order_number
    JOIN date_dim d ON d.d_date_sk = ws.ws_sold_date_sk
    JOIN web_site site ON site.web_site_sk = ws.ws_web_site_sk
    JOIN item i ON i.i_item_sk = ws.ws_item_sk
    JOIN promotion p ON p.p_promo_sk = ws.ws_promo_sk
    WHERE d.d_date BETWEEN DATE '2000-08-23' AND DATE '2000-09-22'
        AND i.i_current_price > 50
        AND p.p_channel_tv = 'N'
    GROUP BY site.web_site_id
)
SELECT
    channel,
    id,
    sum(sales) AS sales,
    sum(returns_) AS returns_,
    sum(profit) AS profit
FROM (
    SELECT
        'store channel' AS channel,
        'store' || store_id AS id,
        sales,
        returns_,
        profit
    FROM ssr
    UNION ALL
    SELECT
        'catalog channel' AS channel,
        'catalog_page' || catalog_page_id AS id,
        sales,
        returns_,
        profit
    FROM csr
    UNION ALL
    SELECT
        'web channel' AS channel,
        'web_site' || web_site_id AS id,
        sales,
        returns_,
        profit
    FROM wsr
) AS outlet
GROUP BY ROLLUP (channel, id)
ORDER BY
    channel NULLS FIRST,
    id NULLS FIRST
LIMIT 100;
