-- Average stock over twelve months by product, brand, class and category, with subtotals, the
-- scarcest first.
SELECT
    i.i_product_name,
    i.i_brand,
    i.i_class,
    i.i_category,
    avg(inv.inv_quantity_on_hand) AS qoh
FROM inventory inv
JOIN date_dim d ON inv.inv_date_sk = d.d_date_sk
JOIN item i ON inv.inv_item_sk = i.i_item_sk
WHERE d.d_month_seq BETWEEN 1200 AND 1211
GROUP BY ROLLUP (i.i_product_name, i.i_brand, i.i_class, i.i_category)
ORDER BY
    qoh NULLS FIRST,
    i.i_product_name NULLS FIRST,
    i.i_brand NULLS FIRST,
    i.i_class NULLS FIRST,
    i.i_category NULLS FIRST
LIMIT 100;
