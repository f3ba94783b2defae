-- Items of about a dollar whose stock in a warehouse, thirty days before and after 11 March 2000,
-- changed by no more than a factor of one and a half.
SELECT w_warehouse_name, i_item_id, inv_before, inv_after
FROM (
    SELECT
        w.w_warehouse_name,
        i.i_item_id,
        sum(
            CASE WHEN d.d_date < DATE '2000-03-11' THEN inv.inv_quantity_on_hand ELSE 0 END
        ) AS inv_before,
        sum(
            CASE WHEN d.d_date >= DATE '2000-03-11' THEN inv.inv_quantity_on_hand ELSE 0 END
        ) AS inv_after
    FROM inventory inv
    JOIN warehouse w ON inv.inv_warehouse_sk = w.w_warehouse_sk
    JOIN item i ON inv.inv_item_sk = i.i_item_sk
    JOIN date_dim d ON inv.inv_date_sk = d.d_date_sk
    WHERE i.i_current_price BETWEEN 0.99 AND 1.49
        AND d.d_date BETWEEN DATE '2000-02-10' AND DATE '2000-04-10'
    GROUP BY w.w_warehouse_name, i.i_item_id
) stock
WHERE CASE
        WHEN inv_before > 0 THEN CAST(inv_after AS DOUBLE) / CAST(inv_before AS DOUBLE)
    END BETWEEN 2.000 / 3.000 AND 3.000 / 2.000
ORDER BY w_warehouse_name NULLS FIRST, i_item_id NULLS FIRST
LIMIT 100;
