-- Which customers' spending on the web grew by a larger factor from 2001 to 2002 than their
-- spending in the stores?
WITH yearly AS (
    SELECT
        c.c_customer_id AS customer_id,
        c.c_first_name AS first_name,
        c.c_last_name AS last_name,
        c.c_preferred_cust_flag AS preferred,
        c.c_birth_country AS birth_country,
        c.c_login AS login,
        c.c_email_address AS email,
        d.d_year AS sold_year,
        sum(ss.ss_ext_list_price - ss.ss_ext_discount_amt) AS total,
        's' AS channel
    FROM customer c
    JOIN store_sales ss ON c.c_customer_sk = ss.ss_customer_sk
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    GROUP BY
        c.c_customer_id,
        c.c_first_name,
        c.c_last_name,
        c.c_preferred_cust_flag,
        c.c_birth_country,
        c.c_login,
        c.c_email_address,
        d.d_year
    UNION ALL
    SELECT
        c.c_customer_id AS customer_id,
        c.c_first_name AS first_name,
        c.c_last_name AS last_name,
        c.c_preferred_cust_flag AS preferred,
        c.c_birth_country AS birth_country,
        c.c_login AS login,
        c.c_email_address AS email,
        d.d_year AS sold_year,
        sum(ws.ws_ext_list_price - ws.ws_ext_discount_amt) AS total,
        'w' AS channel
    FROM customer c
    JOIN web_sales ws ON c.c_customer_sk = ws.ws_bill_customer_sk
    JOIN date_dim d ON ws.ws_sold_date_sk = d.d_date_sk
    GROUP BY
        c.c_customer_id,
        c.c_first_name,
        c.c_last_name,
        c.c_preferred_cust_flag,
        c.c_birth_country,
        c.c_login,
        c.c_email_address,
        d.d_year
)
SELECT
    s2.customer_id,
    s2.first_name AS customer_first_name,
    s2.last_name AS customer_last_name,
    s2.preferred AS customer_preferred_cust_flag
FROM yearly s1
JOIN yearly s2 ON s2.customer_id = s1.customer_id
JOIN yearly w1 ON s1.customer_id = w1.customer_id
JOIN yearly w2 ON s1.customer_id = w2.customer_id
WHERE s1.channel = 's' AND s1.sold_year = 2001 AND s1.total > 0
    AND s2.channel = 's' AND s2.sold_year = 2002
    AND w1.channel = 'w' AND w1.sold_year = 2001 AND w1.total > 0
    AND w2.channel = 'w' AND w2.sold_year = 2002
    AND CASE WHEN w1.total > 0 THEN CAST(w2.total AS DOUBLE) / CAST(w1.total AS DOUBLE) ELSE 0.0 END
        > CASE WHEN s1.total > 0 THEN CAST(s2.total AS DOUBLE) / CAST(s1.total AS DOUBLE) ELSE 0.0 END
ORDER BY
    s2.customer_id NULLS FIRST,
    customer_first_name NULLS FIRST,
    customer_last_name NULLS FIRST,
    customer_preferred_cust_flag NULLS FIRST
LIMIT 100;
