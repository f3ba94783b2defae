-- Catalog and web takings of February 2000 from the best store customers (more than half of the
-- largest total) on items that the stores sold more than four times on some day.
WITH frequent AS (
    SELECT
        named.short_desc,
        named.item_sk,
        d.d_date AS sold_date,
        count(*) AS times
    FROM store_sales ss
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    JOIN (
        SELECT i_item_sk AS item_sk, substring(i_item_desc, 1, 30) AS short_desc
        FROM item
    ) named ON ss.ss_item_sk = named.item_sk
    WHERE d.d_year IN (2000, 2001, 2002, 2003)
    GROUP BY named.short_desc, named.item_sk, d.d_date
    HAVING count(*) > 4
),
largest AS (
    SELECT max(spent.amount) AS amount
    FROM (
        SELECT c.c_customer_sk, sum(ss.ss_quantity * ss.ss_sales_price) AS amount
        FROM store_sales ss
        JOIN customer c ON ss.ss_customer_sk = c.c_customer_sk
        JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
        WHERE d.d_year IN (2000, 2001, 2002, 2003)
        GROUP BY c.c_customer_sk
    ) spent
),
best AS (
    SELECT c.c_customer_sk AS customer_sk, sum(ss.ss_quantity * ss.ss_sales_price) AS amount
    FROM store_sales ss
    JOIN customer c ON ss.ss_customer_sk = c.c_customer_sk
    CROSS JOIN largest
    GROUP BY c.c_customer_sk
    HAVING sum(ss.ss_quantity * ss.ss_sales_price) > 0.5 * max(largest.amount)
)
SELECT sum(taken.sales) AS "sum(sales)"
FROM (
    SELECT cs.cs_quantity * cs.cs_list_price AS sales
    FROM catalog_sales cs
    JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
    WHERE d.d_year = 2000
        AND d.d_moy = 2
        AND cs.cs_item_sk IN (SELECT item_sk FROM frequent)
        AND cs.cs_bill_customer_sk IN (SELECT customer_sk FROM best)
    UNION ALL
    SELECT ws.ws_quantity * ws.ws_list_price AS sales
    FROM web_sales ws
    JOIN date_dim d ON ws.ws_sold_date_sk = d.d_date_sk
    WHERE d.d_year = 2000
        AND d.d_moy = 2
        AND ws.ws_item_sk IN (SELECT item_sk FROM frequent)
        AND ws.ws_bill_customer_sk IN (SELECT customer_sk FROM best)
) taken
LIMIT 100;
