-- In which months did the sales of an item class and brand in a store differ by more than a
-- tenth from their monthly average of the year?
SELECT
    i_category,
    i_class,
    i_brand,
    s_store_name,
    s_company_name,
    d_moy,
    sum_sales,
    avg_monthly_sales
FROM (
    SELECT
        i.i_category,
        i.i_class,
        i.i_brand,
        s.s_store_name,
        s.s_company_name,
        d.d_moy,
        sum(ss.ss_sales_price) AS sum_sales,
        avg(sum(ss.ss_sales_price)) OVER (
            PARTITION BY i.i_category, i.i_brand, s.s_store_name, s.s_company_name
        ) AS avg_monthly_sales
    FROM item i
    JOIN store_sales ss ON ss.ss_item_sk = i.i_item_sk
    JOIN date_dim d ON d.d_date_sk = ss.ss_sold_date_sk
    JOIN store s ON s.s_store_sk = ss.ss_store_sk
    WHERE d.d_year = 1999
        AND (
            (
                i.i_category IN ('Books', 'Electronics', 'Sports')
                AND i.i_class IN ('computers', 'stereo', 'football')
            )
            OR (
                i.i_category IN ('Men', 'Jewelry', 'Women')
                AND i.i_class IN ('shirts', 'birdal', 'dresses')
            )
        )
    GROUP BY
        i.i_category,
        i.i_class,
        i.i_brand,
        s.s_store_name,
        s.s_company_name,
        d.d_moy
) AS monthly
WHERE CASE
        WHEN avg_monthly_sales <> 0
            THEN CAST(abs(sum_sales - avg_monthly_sales) AS DOUBLE)
                / CAST(avg_monthly_sales AS DOUBLE)
        ELSE NULL
    END > 0.1
ORDER BY
    sum_sales - avg_monthly_sales,
    s_store_name,
    i_category,
    i_class,
    i_brand,
    s_company_name,
    d_moy,
    sum_sales,
    avg_monthly_sales
LIMIT 100;
