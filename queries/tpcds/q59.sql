-- Day-of-week sales of each store, week by week over one year, as a ratio to the same week one year later.
WITH weekly AS (
    SELECT
        d.d_week_seq,
        ss.ss_store_sk,
        SUM(CASE WHEN d.d_day_name = 'Sunday' THEN ss.ss_sales_price END) AS sun_sales,
        SUM(CASE WHEN d.d_day_name = 'Monday' THEN ss.ss_sales_price END) AS mon_sales,
        SUM(CASE WHEN d.d_day_name = 'Tuesday' THEN ss.ss_sales_price END) AS tue_sales,
        SUM(CASE WHEN d.d_day_name = 'Wednesday' THEN ss.ss_sales_price END) AS wed_sales,
        SUM(CASE WHEN d.d_day_name = 'Thursday' THEN ss.ss_sales_price END) AS thu_sales,
        SUM(CASE WHEN d.d_day_name = 'Friday' THEN ss.ss_sales_price END) AS fri_sales,
        SUM(CASE WHEN d.d_day_name = 'Saturday' THEN ss.ss_sales_price END) AS sat_sales
    FROM store_sales ss
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    GROUP BY d.d_week_seq, ss.ss_store_sk
),
first_year AS (
    SELECT
        s.s_store_name,
        s.s_store_id,
        wk.d_week_seq,
        wk.sun_sales,
        wk.mon_sales,
        wk.tue_sales,
        wk.wed_sales,
        wk.thu_sales,
        wk.fri_sales,
        wk.sat_sales
    FROM weekly wk
    JOIN store s ON wk.ss_store_sk = s.s_store_sk
    JOIN date_dim d ON wk.d_week_seq = d.d_week_seq
    WHERE d.d_month_seq BETWEEN 1212 AND 1223
),
next_year AS (
    SELECT
        s.s_store_id,
        wk.d_week_seq,
        wk.sun_sales,
        wk.mon_sales,
        wk.tue_sales,
        wk.wed_sales,
        wk.thu_sales,
        wk.fri_sales,
        wk.sat_sales
    FROM weekly wk
    JOIN store s ON wk.ss_store_sk = s.s_store_sk
    JOIN date_dim d ON wk.d_week_seq = d.d_week_seq
    WHERE d.d_month_seq BETWEEN 1224 AND 1235
)
SELECT
    y.s_store_name AS s_store_name1,
    y.s_store_id AS s_store_id1,
    y.d_week_seq AS d_week_seq1,
    CAST(y.sun_sales AS DOUBLE) / CAST(x.sun_sales AS DOUBLE) AS sun_sales_ratio,
    CAST(y.mon_sales AS DOUBLE) / CAST(x.mon_sales AS DOUBLE) AS mon_sales_ratio,
    CAST(y.tue_sales AS DOUBLE) / CAST(x.tue_sales AS DOUBLE) AS tue_sales_ratio,
    CAST(y.wed_sales AS DOUBLE) / CAST(x.wed_sales AS DOUBLE) AS wed_sales_ratio,
    CAST(y.thu_sales AS DOUBLE) / CAST(x.thu_sales AS DOUBLE) AS thu_sales_ratio,
    CAST(y.fri_sales AS DOUBLE) / CAST(x.fri_sales AS DOUBLE) AS fri_sales_ratio,
    CAST(y.sat_sales AS DOUBLE) / CAST(x.sat_sales AS DOUBLE) AS sat_sales_ratio
FROM first_year y
JOIN next_year x ON y.s_store_id = x.s_store_id AND y.d_week_seq = x.d_week_seq - 52
ORDER BY
    s_store_name1 NULLS FIRST,
    s_store_id1 NULLS FIRST,
    d_week_seq1 NULLS FIRST
LIMIT 100;
