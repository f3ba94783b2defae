-- Which items of four manufacturers in a price band were in stock in quantities of 100 to 500
-- at some time within sixty days and are sold in stores?
SELECT
    i.i_item_id,
    i.i_item_desc,
    i.i_current_price
FROM item i
JOIN inventory inv ON inv.inv_item_sk = i.i_item_sk
JOIN date_dim d ON d.d_date_sk = inv.inv_date_sk
JOIN store_sales ss ON ss.ss_item_sk = i.i_item_sk
WHERE i.i_current_price BETWEEN 62 AND 92
    AND d.d_date BETWEEN DATE '2000-05-25' AND DATE '2000-07-24'
    AND i.i_manufact_id IN (129, 270, 821, 423)
    AND inv.inv_quantity_on_hand BETWEEN 100 AND 500
GROUP BY
    i.i_item_id,
    i.i_item_desc,
    i.i_current_price
ORDER BY i.i_item_id
LIMIT 100;
