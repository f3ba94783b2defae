-- Brands whose catalog sales through a call centre in some month of 1999 were more than 10 % off the monthly
-- average of that year, together with the sales of the month before and the month after.
WITH monthly AS (
    SELECT
        i.i_category,
        i.i_brand,
        cc.cc_name,
        d.d_year,
        d.d_moy,
        SUM(cs.cs_sales_price) AS sum_sales,
        AVG(SUM(cs.cs_sales_price)) OVER (
            PARTITION BY i.i_category, i.i_brand, cc.cc_name, d.d_year
        ) AS avg_monthly_sales,
        RANK() OVER (
            PARTITION BY i.i_category, i.i_brand, cc.cc_name
            ORDER BY d.d_year, d.d_moy
        ) AS rn
    FROM item i
    JOIN catalog_sales cs ON cs.cs_item_sk = i.i_item_sk
    JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
    JOIN call_center cc ON cs.cs_call_center_sk = cc.cc_call_center_sk
    WHERE d.d_year = 1999
        OR (d.d_year = 1998 AND d.d_moy = 12)
        OR (d.d_year = 2000 AND d.d_moy = 1)
    GROUP BY i.i_category, i.i_brand, cc.cc_name, d.d_year, d.d_moy
),
with_neighbours AS (
    SELECT
        cur.i_category,
        cur.i_brand,
        cur.cc_name,
        cur.d_year,
        cur.d_moy,
        cur.avg_monthly_sales,
        cur.sum_sales,
        prev.sum_sales AS psum,
        next.sum_sales AS nsum
    FROM monthly cur
    JOIN monthly prev
        ON cur.i_category = prev.i_category
        AND cur.i_brand = prev.i_brand
        AND cur.cc_name = prev.cc_name
        AND cur.rn = prev.rn + 1
    JOIN monthly next
        ON cur.i_category = next.i_category
        AND cur.i_brand = next.i_brand
        AND cur.cc_name = next.cc_name
        AND cur.rn = next.rn - 1
)
SELECT
    i_category,
    i_brand,
    cc_name,
    d_year,
    d_moy,
    avg_monthly_sales,
    sum_sales,
    psum,
    nsum
FROM with_neighbours
WHERE d_year = 1999
    AND avg_monthly_sales > 0
    AND CASE
        WHEN avg_monthly_sales > 0 THEN ABS(sum_sales - avg_monthly_sales) / avg_monthly_sales
    END > 0.1
ORDER BY
    sum_sales - avg_monthly_sales NULLS FIRST,
    i_category,
    i_brand,
    cc_name,
    d_year,
    d_moy,
    avg_monthly_sales,
    sum_sales,
    psum,
    nsum
LIMIT 100;
