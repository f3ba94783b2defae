-- Thirty days of store revenue of each item in three categories, and its share of the revenue
-- of its class.
SELECT
    i.i_item_id,
    i.i_item_desc,
    i.i_category,
    i.i_class,
    i.i_current_price,
    sum(ss.ss_ext_sales_price) AS itemrevenue,
    CAST(sum(ss.ss_ext_sales_price) AS DOUBLE) * 100
        / CAST(sum(sum(ss.ss_ext_sales_price)) OVER (PARTITION BY i.i_class) AS DOUBLE)
        AS revenueratio
FROM store_sales ss
JOIN item i ON i.i_item_sk = ss.ss_item_sk
JOIN date_dim d ON d.d_date_sk = ss.ss_sold_date_sk
WHERE i.i_category IN ('Sports', 'Books', 'Home')
    AND d.d_date BETWEEN DATE '1999-02-22' AND DATE '1999-03-24'
GROUP BY
    i.i_item_id,
    i.i_item_desc,
    i.i_category,
    i.i_class,
    i.i_current_price
ORDER BY
    i.i_category NULLS FIRST,
    i.i_class NULLS FIRST,
    i.i_item_id NULLS FIRST,
    i.i_item_desc NULLS FIRST,
    revenueratio NULLS FIRST;
