-- Catalog revenue net of refunds by warehouse state and item, for the thirty days before and the thirty days
-- from a price change on 11 March 2000, on cheap items.
SELECT
    w.w_state,
    i.i_item_id,
    SUM(
        CASE
            WHEN d.d_date < DATE '2000-03-11' THEN cs.cs_sales_price - COALESCE(cr.cr_refunded_cash, 0)
            ELSE 0
        END
    ) AS sales_before,
    SUM(
        CASE
            WHEN d.d_date >= DATE '2000-03-11' THEN cs.cs_sales_price - COALESCE(cr.cr_refunded_cash, 0)
            ELSE 0
        END
    ) AS sales_after
FROM catalog_sales cs
LEFT JOIN catalog_returns cr
    ON cs.cs_order_number = cr.cr_order_number AND cs.cs_item_sk = cr.cr_item_sk
JOIN warehouse w ON cs.cs_warehouse_sk = w.w_warehouse_sk
JOIN item i ON cs.cs_item_sk = i.i_item_sk
JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
WHERE i.i_current_price BETWEEN 0.99 AND 1.49
    AND d.d_date BETWEEN DATE '2000-02-10' AND DATE '2000-04-10'
GROUP BY w.w_state, i.i_item_id
ORDER BY w.w_state, i.i_item_id
LIMIT 100;
