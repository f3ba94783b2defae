-- Which customers spent, from 2001 to 2002, by a larger factor more through the catalog than
-- they did in the stores and on the web?
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
        sum(
            (
                ss.ss_ext_list_price - ss.ss_ext_wholesale_cost - ss.ss_ext_discount_amt
                + ss.ss_ext_sales_price
            ) / 2
        ) AS total,
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
        sum(
            (
                cs.cs_ext_list_price - cs.cs_ext_wholesale_cost - cs.cs_ext_discount_amt
                + cs.cs_ext_sales_price
            ) / 2
        ) AS total,
        'c' AS channel
    FROM customer c
    JOIN catalog_sales cs ON c.c_customer_sk = cs.cs_bill_customer_sk
    JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
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
        sum(
            (
                ws.ws_ext_list_price - ws.ws_ext_wholesale_cost - ws.ws_ext_discount_amt
                + ws.ws_ext_sales_price
            ) / 2
        ) AS total,
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
JOIN yearly c1 ON s1.customer_id = c1.customer_id
JOIN yearly c2 ON s1.customer_id = c2.customer_id
JOIN yearly w1 ON s1.customer_id = w1.customer_id
JOIN yearly w2 ON s1.customer_id = w2.customer_id
WHERE s1.channel = 's' AND s1.sold_year = 2001 AND s1.total > 0
    AND s2.channel = 's' AND s2.sold_year = 2002
    AND c1.channel = 'c' AND c1.sold_year = 2001 AND c1.total > 0
    AND c2.channel = 'c' AND c2.sold_year = 2002
    AND w1.channel = 'w' AND w1.sold_year = 2001 AND w1.total > 0
    AND w2.channel = 'w' AND w2.sold_year = 2002
    AND CASE WHEN c1.total > 0 THEN c2.total / c1.total END
        > CASE WHEN s1.total > 0 THEN s2.total / s1.total END
    AND CASE WHEN c1.total > 0 THEN c2.total / c1.total END
        > CASE WHEN w1.total > 0 THEN w2.total / w1.total END
ORDER BY
    s2.customer_id NULLS FIRST,
    customer_first_name NULLS FIRST,
    customer_last_name NULLS FIRST,
    customer_preferred_cust_flag NULLS FIRST
LIMIT 100;
