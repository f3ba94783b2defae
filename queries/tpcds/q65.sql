-- Items that brought a store, over a twelve-month window, at most a tenth of
-- what an item brings it on average.
WITH item_revenue AS (
    SELECT
        ss.ss_store_sk,
        ss.ss_item_sk,
        SUM(ss.ss_sales_price) AS revenue
    FROM store_sales ss
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    WHERE d.d_month_seq BETWEEN 1176 AND 1187
    GROUP BY ss.ss_store_sk, ss.ss_item_sk
),
store_average AS (
    SELECT ss_store_sk, AVG(revenue) AS ave
    FROM item_revenue
    GROUP BY ss_store_sk
)
SELECT
    s.s_store_name,
    i.i_item_desc,
    r.revenue,
    i.i_current_price,
    i.i_wholesale_cost,
    i.i_brand
FROM
    store s,
    item i,
    store_average a,
    item_revenue r
WHERE a.ss_store_sk = r.ss_store_sk
    AND s.s_store_sk = r.ss_store_sk
    AND i.i_item_sk = r.ss_item_sk
    AND r.revenue <= 0.1 * a.ave
ORDER BY s.s_store_name NULLS FIRST, i.i_item_desc NULLS FIRST
LIMIT 100;
