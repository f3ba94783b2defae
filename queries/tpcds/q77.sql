-- Thirty days of sales, returns and profit by store, call center and web page, with totals for
-- each channel and over all.
WITH ss AS (
    SELECT
        s.s_store_sk,
        sum(f.ss_ext_sales_price) AS sales,
        sum(f.ss_net_profit) AS profit
    FROM store_sales f
    JOIN date_dim d ON d.d_date_sk = f.ss_sold_date_sk
    JOIN store s ON s.s_store_sk = f.ss_store_sk
    WHERE d.d_date BETWEEN DATE '2000-08-23' AND DATE '2000-09-22'
    GROUP BY s.s_store_sk
),
sr AS (
    SELECT
        s.s_store_sk,
        sum(f.sr_return_amt) AS returns_,
        sum(f.sr_net_loss) AS profit_loss
    FROM store_returns f
    JOIN date_dim d ON d.d_date_sk = f.sr_returned_date_sk
    JOIN store s ON s.s_store_sk = f.sr_store_sk
    WHERE d.d_date BETWEEN DATE '2000-08-23' AND DATE '2000-09-22'
    GROUP BY s.s_store_sk
),
cs AS (
    SELECT
        f.cs_call_center_sk,
        sum(f.cs_ext_sales_price) AS sales,
        sum(f.cs_net_profit) AS profit
    FROM catalog_sales f
    JOIN date_dim d ON d.d_date_sk = f.cs_sold_date_sk
    WHERE d.d_date BETWEEN DATE '2000-08-23' AND DATE '2000-09-22'
    GROUP BY f.cs_call_center_sk
),
cr AS (
    SELECT
        f.cr_call_center_sk,
        sum(f.cr_return_amount) AS returns_,
        sum(f.cr_net_loss) AS profit_loss
    FROM catalog_returns f
    JOIN date_dim d ON d.d_date_sk = f.cr_returned_date_sk
    WHERE d.d_date BETWEEN DATE '2000-08-23' AND DATE '2000-09-22'
    GROUP BY f.cr_call_center_sk
),
ws AS (
    SELECT
        wp.wp_web_page_sk,
        sum(f.ws_ext_sales_price) AS sales,
        sum(f.ws_net_profit) AS profit
    FROM web_sales f
    JOIN date_dim d ON d.d_date_sk = f.ws_sold_date_sk
    JOIN web_page wp ON wp.wp_web_page_sk = f.ws_web_page_sk
    WHERE d.d_date BETWEEN DATE '2000-08-23' AND DATE '2000-09-22'
    GROUP BY wp.wp_web_page_sk
),
wr AS (
    SELECT
        wp.wp_web_page_sk,
        sum(f.wr_return_amt) AS returns_,
        sum(f.wr_net_loss) AS profit_loss
    FROM web_returns f
    JOIN date_dim d ON d.d_date_sk = f.wr_returned_date_sk
    JOIN web_page wp ON wp.wp_web_page_sk = f.wr_web_page_sk
    WHERE d.d_date BETWEEN DATE '2000-08-23' AND DATE '2000-09-22'
    GROUP BY wp.wp_web_page_sk
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
        ss.s_store_sk AS id,
        ss.sales,
        COALESCE(sr.returns_, 0) AS returns_,
        ss.profit - COALESCE(sr.profit_loss, 0) AS profit
    FROM ss
    LEFT JOIN sr ON sr.s_store_sk = ss.s_store_sk
    UNION ALL
    SELECT
        'catalog channel' AS channel,
        cs.cs_call_center_sk AS id,
        cs.sales,
        cr.returns_,
        cs.profit - cr.profit_loss AS profit
    FROM cs, cr
    UNION ALL
    SELECT
        'web channel' AS channel,
        ws.wp_web_page_sk AS id,
        ws.sales,
        COALESCE(wr.returns_, 0) AS returns_,
        ws.profit - COALESCE(wr.profit_loss, 0) AS profit
    FROM ws
    LEFT JOIN wr ON wr.wp_web_page_sk = ws.wp_web_page_sk
) AS outlet
GROUP BY ROLLUP (channel, id)
ORDER BY
    channel NULLS FIRST,
    id NULLS FIRST,
    returns_ DESC
LIMIT 100;
