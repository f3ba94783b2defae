-- Store revenue by item category in November 2000, for the items of one manager, best category first.
SELECT
    d.d_year,
    i.i_category_id,
    i.i_category,
    SUM(ss_ext_sales_price)
FROM date_dim d
JOIN store_sales ss ON d.d_date_sk = ss.ss_sold_date_sk
JOIN item i ON ss.ss_item_sk = i.i_item_sk
WHERE d.d_year = 2000
    AND d.d_moy = 11
    AND i.i_manager_id = 1
GROUP BY d.d_year, i.i_category_id, i.i_category
ORDER BY SUM(ss_ext_sales_price) DESC, d.d_year, i.i_category_id, i.i_category
LIMIT 100;
