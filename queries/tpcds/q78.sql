-- Of items never returned: how many units did a customer buy in stores in one year compared
-- with the same item bought on the web and from the catalog?
WITH ws AS (
    SELECT
        d.d_year AS ws_sold_year,
        f.ws_item_sk,
        f.ws_bill_customer_sk AS ws_customer_sk,
        sum(f.ws_quantity) AS ws_qty,
        sum(f.ws_wholesale_cost) AS ws_wc,
        sum(f.ws_sales_price) AS ws_sp
    FROM web_sales f
    LEFT JOIN web_returns r
        ON r.wr_order_number = f.ws_order_number
        AND r.wr_item_sk = f.ws_item_sk
    JOIN date_dim d ON d.d_date_sk = f.ws_sold_date_sk
    WHERE r.wr_order_number IS NULL
    GROUP BY
        d.d_year,
        f.ws_item_sk,
        f.ws_bill_customer_sk
),
cs AS (
    SELECT
        d.d_year AS cs_sold_year,
        f.cs_item_sk,
        f.cs_bill_customer_sk AS cs_customer_sk,
        sum(f.cs_quantity) AS cs_qty,
        sum(f.cs_wholesale_cost) AS cs_wc,
        sum(f.cs_sales_price) AS cs_sp
    FROM catalog_sales f
    LEFT JOIN catalog_returns r
        ON r.cr_order_number = f.cs_order_number
        AND r.cr_item_sk = f.cs_item_sk
    JOIN date_dim d ON d.d_date_sk = f.cs_sold_date_sk
    WHERE r.cr_order_number IS NULL
    GROUP BY
        d.d_year,
        f.cs_item_sk,
        f.cs_bill_customer_sk
),
ss AS (
    SELECT
        d.d_year AS ss_sold_year,
        f.ss_item_sk,
        f.ss_customer_sk,
        sum(f.ss_quantity) AS ss_qty,
        sum(f.ss_wholesale_cost) AS ss_wc,
        sum(f.ss_sales_price) AS ss_sp
    FROM store_sales f
    LEFT JOIN store_returns r
        ON r.sr_ticket_number = f.ss_ticket_number
        AND r.sr_item_sk = f.ss_item_sk
    JOIN date_dim d ON d.d_date_sk = f.ss_sold_date_sk
    WHERE r.sr_ticket_number IS NULL
    GROUP BY
        d.d_year,
        f.ss_item_sk,
        f.ss_customer_sk
)
SELECT
    ss.ss_sold_year,
    ss.ss_item_sk,
    ss.ss_customer_sk,
    round(
        CAST(ss.ss_qty AS DOUBLE)
            / CAST(COALESCE(ws.ws_qty, 0) + COALESCE(cs.cs_qty, 0) AS DOUBLE),
        2
    ) AS ratio,
    ss.ss_qty AS store_qty,
    ss.ss_wc AS store_wholesale_cost,
    ss.ss_sp AS store_sales_price,
    COALESCE(ws.ws_qty, 0) + COALESCE(cs.cs_qty, 0) AS other_chan_qty,
    COALESCE(ws.ws_wc, 0) + COALESCE(cs.cs_wc, 0) AS other_chan_wholesale_cost,
    COALESCE(ws.ws_sp, 0) + COALESCE(cs.cs_sp, 0) AS other_chan_sales_price
FROM ss
LEFT JOIN ws
    ON ws.ws_sold_year = ss.ss_sold_year
    AND ws.ws_item_sk = ss.ss_item_sk
    AND ws.ws_customer_sk = ss.ss_customer_sk
LEFT JOIN cs
    ON cs.cs_sold_year = ss.ss_sold_year
    AND cs.cs_item_sk = ss.ss_item_sk
    AND cs.cs_customer_sk = ss.ss_customer_sk
WHERE (COALESCE(ws.ws_qty, 0) > 0 OR COALESCE(cs.cs_qty, 0) > 0)
    AND ss.ss_sold_year = 2000
ORDER BY
    ss.ss_sold_year,
    ss.ss_item_sk,
    ss.ss_customer_sk,
    store_qty DESC,
    store_wholesale_cost DESC,
    store_sales_price DESC,
    other_chan_qty,
    other_chan_wholesale_cost,
    other_chan_sales_price,
    ratio
LIMIT 100;
