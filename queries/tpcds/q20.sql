-- Catalog revenue of sports, book and home items over thirty days of early 1999, and the share (in
-- percent) that each item has of the revenue of its class.
SELECT
    i.i_item_id,
    i.i_item_desc,
    i.i_category,
    i.i_class,
    i.i_current_price,
    sum(cs.cs_ext_sales_price) AS itemrevenue,
    CAST(sum(cs.cs_ext_sales_price) AS DOUBLE) * 100
        / CAST(sum(sum(cs.cs_ext_sales_price)) OVER (PARTITION BY i.i_class) AS DOUBLE) AS revenueratio
FROM catalog_sales cs
JOIN item i ON cs.cs_item_sk = i.i_item_sk
JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
WHERE i.i_category IN ('Books', 'Home', 'Sports')
    AND d.d_date BETWEEN DATE '1999-02-22' AND DATE '1999-03-24'
GROUP BY i.i_item_id, i.i_item_desc, i.i_category, i.i_class, i.i_current_price
ORDER BY
    i.i_category NULLS FIRST,
    i.i_class NULLS FIRST,
    i.i_item_id NULLS FIRST,
    i.i_item_desc NULLS FIRST,
    revenueratio NULLS FIRST
LIMIT 100;
