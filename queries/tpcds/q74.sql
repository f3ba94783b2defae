-- For which customers did web spending grow faster from one year to the next than their
-- spending in stores?
WITH year_total AS (
    SELECT
        c.c_customer_id AS customer_id,
        c.c_first_name AS customer_first_name,
        c.c_last_name AS customer_last_name,
        d.d_year AS sale_year,
        sum(ss.ss_net_paid) AS total_paid,
        's' AS sale_type
    FROM customer c
    JOIN store_sales ss ON ss.ss_customer_sk = c.c_customer_sk
    JOIN date_dim d ON d.d_date_sk = ss.ss_sold_date_sk
    WHERE d.d_year IN (2001, 2002)
    GROUP BY
        c.c_customer_id,
        c.c_first_name,
        c.c_last_name,
        d.d_year
    UNION ALL
    SELECT
        c.c_customer_id AS customer_id,
        c.c_first_name AS customer_first_name,
        c.c_last_name AS customer_last_name,
        d.d_year AS sale_year,
        sum(ws.ws_net_paid) AS total_paid,
        'w' AS sale_type
    FROM customer c
    JOIN web_sales ws ON ws.ws_bill_customer_sk = c.c_customer_sk
    JOIN date_dim d ON d.d_date_sk = ws.ws_sold_date_sk
    WHERE d.d_year IN (2001, 2002)
    GROUP BY
        c.c_customer_id,
        c.c_first_name,
        c.c_last_name,
        d.d_year
)
SELECT
    store_second.customer_id,
    store_second.customer_first_name,
    store_second.customer_last_name
FROM year_total store_first
JOIN year_total store_second ON store_second.customer_id = store_first.customer_id
JOIN year_total web_first ON web_first.customer_id = store_first.customer_id
JOIN year_total web_second ON web_second.customer_id = store_first.customer_id
WHERE store_first.sale_type = 's'
    AND web_first.sale_type = 'w'
    AND store_second.sale_type = 's'
    AND web_second.sale_type = 'w'
    AND store_first.sale_year = 2001
    AND store_second.sale_year = 2002
    AND web_first.sale_year = 2001
    AND web_second.sale_year = 2002
    AND store_first.total_paid > 0
    AND web_first.total_paid > 0
    AND CASE
        WHEN web_first.total_paid > 0
            THEN CAST(web_second.total_paid AS DOUBLE) / CAST(web_first.total_paid AS DOUBLE)
        ELSE NULL
    END > CASE
        WHEN store_first.total_paid > 0
            THEN CAST(store_second.total_paid AS DOUBLE) / CAST(store_first.total_paid AS DOUBLE)
        ELSE NULL
    END
ORDER BY 1 NULLS FIRST
LIMIT 100;
