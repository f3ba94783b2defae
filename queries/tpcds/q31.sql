-- Counties in which web sales grew faster than store sales both from the first to the second and from
-- the second to the third quarter of 2000.
WITH store_quarter AS (
    SELECT ca.ca_county, d.d_qoy, d.d_year, sum(ss.ss_ext_sales_price) AS amount
    FROM store_sales ss
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    JOIN customer_address ca ON ss.ss_addr_sk = ca.ca_address_sk
    GROUP BY ca.ca_county, d.d_qoy, d.d_year
),
web_quarter AS (
    SELECT ca.ca_county, d.d_qoy, d.d_year, sum(ws.ws_ext_sales_price) AS amount
    FROM web_sales ws
    JOIN date_dim d ON ws.ws_sold_date_sk = d.d_date_sk
    JOIN customer_address ca ON ws.ws_bill_addr_sk = ca.ca_address_sk
    GROUP BY ca.ca_county, d.d_qoy, d.d_year
)
SELECT
    s1.ca_county,
    s1.d_year,
    CAST(w2.amount AS DOUBLE) / CAST(w1.amount AS DOUBLE) AS web_q1_q2_increase,
    CAST(s2.amount AS DOUBLE) / CAST(s1.amount AS DOUBLE) AS store_q1_q2_increase,
    CAST(w3.amount AS DOUBLE) / CAST(w2.amount AS DOUBLE) AS web_q2_q3_increase,
    CAST(s3.amount AS DOUBLE) / CAST(s2.amount AS DOUBLE) AS store_q2_q3_increase
FROM store_quarter s1
JOIN store_quarter s2 ON s1.ca_county = s2.ca_county
JOIN store_quarter s3 ON s2.ca_county = s3.ca_county
JOIN web_quarter w1 ON s1.ca_county = w1.ca_county
JOIN web_quarter w2 ON w1.ca_county = w2.ca_county
JOIN web_quarter w3 ON w1.ca_county = w3.ca_county
WHERE s1.d_qoy = 1 AND s1.d_year = 2000
    AND s2.d_qoy = 2 AND s2.d_year = 2000
    AND s3.d_qoy = 3 AND s3.d_year = 2000
    AND w1.d_qoy = 1 AND w1.d_year = 2000
    AND w2.d_qoy = 2 AND w2.d_year = 2000
    AND w3.d_qoy = 3 AND w3.d_year = 2000
    AND CASE WHEN w1.amount > 0 THEN CAST(w2.amount AS DOUBLE) / CAST(w1.amount AS DOUBLE) END
        > CASE WHEN s1.amount > 0 THEN CAST(s2.amount AS DOUBLE) / CAST(s1.amount AS DOUBLE) END
    AND CASE WHEN w2.amount > 0 THEN CAST(w3.amount AS DOUBLE) / CAST(w2.amount AS DOUBLE) END
        > CASE WHEN s2.amount > 0 THEN CAST(s3.amount AS DOUBLE) / CAST(s2.amount AS DOUBLE) END
ORDER BY s1.ca_county;
