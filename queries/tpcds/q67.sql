-- Within each item category, rank every level of the hierarchy from category down to single
-- store and month by twelve months of store revenue; list the hundred best of each category.
SELECT
    i_category,
    i_class,
    i_brand,
    i_product_name,
    d_year,
    d_qoy,
    d_moy,
    s_store_id,
    sumsales,
    rk
FROM (
    SELECT
        i_category,
        i_class,
        i_brand,
        i_product_name,
        d_year,
        d_qoy,
        d_moy,
        s_store_id,
        sumsales,
        rank() OVER (PARTITION BY i_category ORDER BY sumsales DESC) AS rk
    FROM (
        SELECT
            i.i_category,
            i.i_class,
            i.i_brand,
            i.i_product_name,
            d.d_year,
            d.d_qoy,
            d.d_moy,
            s.s_store_id,
            sum(COALESCE(ss.ss_sales_price * ss.ss_quantity, 0)) AS sumsales
        FROM store_sales ss
        JOIN date_dim d ON d.d_date_sk = ss.ss_sold_date_sk
        JOIN store s ON s.s_store_sk = ss.ss_store_sk
        JOIN item i ON i.i_item_sk = ss.ss_item_sk
        WHERE d.d_month_seq BETWEEN 1200 AND 1211
        GROUP BY ROLLUP (
            i.i_category,
            i.i_class,
            i.i_brand,
            i.i_product_name,
            d.d_year,
            d.d_qoy,
            d.d_moy,
            s.s_store_id
        )
    ) AS revenue
) AS ranked
WHERE rk <= 100
ORDER BY
    i_category NULLS FIRST,
    i_class NULLS FIRST,
    i_brand NULLS FIRST,
    i_product_name NULLS FIRST,
    d_year NULLS FIRST,
    d_qoy NULLS FIRST,
    d_moy NULLS FIRST,
    s_store_id NULLS FIRST,
    sumsales NULLS FIRST,
    rk NULLS FIRST
LIMIT 100;
