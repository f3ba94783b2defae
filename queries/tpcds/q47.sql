-- Brands whose sales in a store in some month of 1999 were more than 10 % off the monthly average of that year,
-- together with the sales of the month before and the month after.
WITH monthly AS (
    SELECT
        i.i_category,
        i.i_brand,
        s.s_store_name,
        s.s_company_name,
        d.d_year,
        d.d_moy,
        SUM(ss.ss_sales_price) AS sum_sales,
        AVG(SUM(ss.ss_sales_price)) OVER (
            PARTITION BY i.i_category, i.i_brand, s.s_store_name, s.s_company_name, d.d_year
        ) AS avg_monthly_sales,
        RANK() OVER (
            PARTITION BY i.i_category, i.i_brand, s.s_store_name, s.s_company_name
            ORDER BY d.d_year, d.d_moy
        ) AS rn
    FROM item i
    JOIN store_sales ss ON ss.ss_item_sk = i.i_item_sk
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    JOIN store s ON ss.ss_store_sk = s.s_store_sk
    WHERE d.d_year = 1999
        OR (d.d_year = 1998 AND d.d_moy = 12)
        OR (d.d_year = 2000 AND d.d_moy = 1)
    GROUP BY i.i_category, i.i_brand, s.s_store_name, s.s_company_name, d.d_year, d.d_moy
),
with_neighbours AS (
    SELECT
        cur.i_category,
        cur.i_brand,
        cur.s_store_name,
        cur.s_company_name,
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
        AND cur.s_store_name = prev.s_store_name
        AND cur.s_company_name = prev.s_company_name
        AND cur.rn = prev.rn + 1
    JOIN monthly next
        ON cur.i_category = next.i_category
        AND cur.i_brand = next.i_brand
        AND cur.s_store_name = next.s_store_name
        AND cur.s_company_name = next.s_company_name
        AND cur.rn = next.rn - 1
)
SELECT
    i_category,
    i_brand,
    s_store_name,
    s_company_name,
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
    sum_sales - avg_monthly_sales,
    i_category,
    i_brand,
    s_store_name,
    s_company_name,
    d_year,
    d_moy,
    avg_monthly_sales,
    sum_sales,
    psum,
    nsum
LIMIT 100;
