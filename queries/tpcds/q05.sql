-- Sales, returns and profit of two weeks of 2000 for every store, catalog page and web site,
-- with subtotals for each channel and a grand total.
WITH by_store AS (
    SELECT
        s.s_store_id AS id,
        sum(m.sold) AS sales,
        sum(m.gain) AS gain,
        sum(m.returned) AS returned,
        sum(m.loss) AS loss
    FROM (
        SELECT
            ss_store_sk AS place_sk,
            ss_sold_date_sk AS date_sk,
            ss_ext_sales_price AS sold,
            ss_net_profit AS gain,
            CAST(0 AS DECIMAL(7, 2)) AS returned,
            CAST(0 AS DECIMAL(7, 2)) AS loss
        FROM store_sales
        UNION ALL
        SELECT
            sr_store_sk AS place_sk,
            sr_returned_date_sk AS date_sk,
            CAST(0 AS DECIMAL(7, 2)) AS sold,
            CAST(0 AS DECIMAL(7, 2)) AS gain,
            sr_return_amt AS returned,
            sr_net_loss AS loss
        FROM store_returns
    ) m
    JOIN date_dim d ON m.date_sk = d.d_date_sk
    JOIN store s ON m.place_sk = s.s_store_sk
    WHERE d.d_date BETWEEN DATE '2000-08-23' AND DATE '2000-09-06'
    GROUP BY s.s_store_id
),
by_page AS (
    SELECT
        cp.cp_catalog_page_id AS id,
        sum(m.sold) AS sales,
        sum(m.gain) AS gain,
        sum(m.returned) AS returned,
        sum(m.loss) AS loss
    FROM (
        SELECT
            cs_catalog_page_sk AS place_sk,
            cs_sold_date_sk AS date_sk,
            cs_ext_sales_price AS sold,
            cs_net_profit AS gain,
            CAST(0 AS DECIMAL(7, 2)) AS returned,
            CAST(0 AS DECIMAL(7, 2)) AS loss
        FROM catalog_sales
        UNION ALL
        SELECT
            cr_catalog_page_sk AS place_sk,
            cr_returned_date_sk AS date_sk,
            CAST(0 AS DECIMAL(7, 2)) AS sold,
            CAST(0 AS DECIMAL(7, 2)) AS gain,
            cr_return_amount AS returned,
            cr_net_loss AS loss
        FROM catalog_returns
    ) m
    JOIN date_dim d ON m.date_sk = d.d_date_sk
    JOIN catalog_page cp ON m.place_sk = cp.cp_catalog_page_sk
    WHERE d.d_date BETWEEN DATE '2000-08-23' AND DATE '2000-09-06'
    GROUP BY cp.cp_catalog_page_id
),
by_site AS (
    SELECT
        w.web_site_id AS id,
        sum(m.sold) AS sales,
        sum(m.gain) AS gain,
        sum(m.returned) AS returned,
        sum(m.loss) AS loss
    FROM (
        SELECT
            ws_web_site_sk AS place_sk,
            ws_sold_date_sk AS date_sk,
            ws_ext_sales_price AS sold,
            ws_net_profit AS gain,
            CAST(0 AS DECIMAL(7, 2)) AS returned,
            CAST(0 AS DECIMAL(7, 2)) AS loss
        FROM web_sales
        UNION ALL
        SELECT
            ws.ws_web_site_sk AS place_sk,
            wr.wr_returned_date_sk AS date_sk,
            CAST(0 AS DECIMAL(7, 2)) AS sold,
            CAST(0 AS DECIMAL(7, 2)) AS gain,
            wr.wr_return_amt AS returned,
            wr.wr_net_loss AS loss
        FROM web_returns wr
        LEFT JOIN web_sales ws
            ON wr.wr_item_sk = ws.ws_item_sk
            AND wr.wr_order_number = ws.ws_order_number
    ) m
    JOIN date_dim d ON m.date_sk = d.d_date_sk
    JOIN web_site w ON m.place_sk = w.web_site_sk
    WHERE d.d_date BETWEEN DATE '2000-08-23' AND DATE '2000-09-06'
    GROUP BY w.web_site_id
)
SELECT
    channel,
    id,
    sum(sales) AS sales,
    sum(returned) AS returns_,
    sum(net) AS profit
FROM (
    SELECT
        'store channel' AS channel,
        concat('store', id) AS id,
        sales,
        returned,
        gain - loss AS net
    FROM by_store
    UNION ALL
    SELECT
        'catalog channel' AS channel,
        concat('catalog_page', id) AS id,
        sales,
        returned,
        gain - loss AS net
    FROM by_page
    UNION ALL
    SELECT
        'web channel' AS channel,
        concat('web_site', id) AS id,
        sales,
        returned,
        gain - loss AS net
    FROM by_site
) every_channel
GROUP BY ROLLUP (channel, id)
ORDER BY channel NULLS FIRST, id NULLS FIRST
LIMIT 100;
