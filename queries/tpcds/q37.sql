-- Catalog items of four manufacturers, priced between 68 and 98, that had a moderate stock
-- (100 to 500 pieces) on some day within sixty days from 1 February 2000.
SELECT
    i.i_item_id,
    i.i_item_desc,
    i.i_current_price
FROM item i
JOIN inventory inv ON inv.inv_item_sk = i.i_item_sk
JOIN date_dim d ON inv.inv_date_sk = d.d_date_sk
JOIN catalog_sales cs ON cs.cs_item_sk = i.i_item_sk
WHERE i.i_current_price BETWEEN 68 AND 98
    AND i.i_manufact_id IN (677, 940, 694, 808)
    AND inv.inv_quantity_on_hand BETWEEN 100 AND 500
    AND d.d_date BETWEEN DATE '2000-02-01' AND DATE '2000-04-01'
GROUP BY i.i_item_id, i.i_item_desc, i.i_current_price
ORDER BY i.i_item_id
LIMIT 100;
