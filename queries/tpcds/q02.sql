-- How did each weekday's takings of the web and the catalog in a week of 2001 compare with the
-- same weekday 53 weeks later?
WITH sold AS (
    SELECT ws_sold_date_sk AS date_sk, ws_ext_sales_price AS price
    FROM web_sales
    UNION ALL
    SELECT cs_sold_date_sk AS date_sk, cs_ext_sales_price AS price
    FROM catalog_sales
),
weekly AS (
    SELECT
        d.d_week_seq AS week_seq,
        sum(CASE WHEN d.d_day_name = 'Sunday' THEN sold.price END) AS sun,
        sum(CASE WHEN d.d_day_name = 'Monday' THEN sold.price END) AS mon,
        sum(CASE WHEN d.d_day_name = 'Tuesday' THEN sold.price END) AS tue,
        sum(CASE WHEN d.d_day_name = 'Wednesday' THEN sold.price END) AS wed,
        sum(CASE WHEN d.d_day_name = 'Thursday' THEN sold.price END) AS thu,
        sum(CASE WHEN d.d_day_name = 'Friday' THEN sold.price END) AS fri,
        sum(CASE WHEN d.d_day_name = 'Saturday' THEN sold.price END) AS sat
    FROM sold
    JOIN date_dim d ON sold.date_sk = d.d_date_sk
    GROUP BY d.d_week_seq
)
SELECT
    y.week_seq AS d_week_seq1,
    round(CAST(y.sun AS DOUBLE) / CAST(z.sun AS DOUBLE), 2) AS r1,
    round(CAST(y.mon AS DOUBLE) / CAST(z.mon AS DOUBLE), 2) AS r2,
    round(CAST(y.tue AS DOUBLE) / CAST(z.tue AS DOUBLE), 2) AS r3,
    round(CAST(y.wed AS DOUBLE) / CAST(z.wed AS DOUBLE), 2) AS r4,
    round(CAST(y.thu AS DOUBLE) / CAST(z.thu AS DOUBLE), 2) AS r5,
    round(CAST(y.fri AS DOUBLE) / CAST(z.fri AS DOUBLE), 2) AS r6,
    round(CAST(y.sat AS DOUBLE) / CAST(z.sat AS DOUBLE), 2) AS "round((sat_sales1 / sat_sales2), 2)"
FROM (
    SELECT w.*
    FROM weekly w
    JOIN date_dim d ON w.week_seq = d.d_week_seq
    WHERE d.d_year = 2001
) y
JOIN (
    SELECT w.*
    FROM weekly w
    JOIN date_dim d ON w.week_seq = d.d_week_seq
    WHERE d.d_year = 2002
) z ON y.week_seq = z.week_seq - 53
ORDER BY d_week_seq1 NULLS FIRST;
