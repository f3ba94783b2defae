-- Items whose stock level in a warehouse swung widely (coefficient of variation above 1)
-- in both January and February 2001, the two months side by side.
WITH monthly_stock AS (
    SELECT
        w.w_warehouse_name,
        w.w_warehouse_sk,
        i.i_item_sk,
        d.d_moy,
        STDDEV_SAMP(inv.inv_quantity_on_hand) AS stdev,
        AVG(inv.inv_quantity_on_hand) AS mean
    FROM inventory inv
    JOIN item i ON inv.inv_item_sk = i.i_item_sk
    JOIN warehouse w ON inv.inv_warehouse_sk = w.w_warehouse_sk
    JOIN date_dim d ON inv.inv_date_sk = d.d_date_sk
    WHERE d.d_year = 2001
    GROUP BY w.w_warehouse_name, w.w_warehouse_sk, i.i_item_sk, d.d_moy
),
erratic AS (
    SELECT
        w_warehouse_sk,
        i_item_sk,
        d_moy,
        mean,
        stdev / NULLIF(mean, 0) AS cov
    FROM monthly_stock
    WHERE stdev / NULLIF(mean, 0) > 1
)
SELECT
    m1.w_warehouse_sk AS wsk1,
    m1.i_item_sk AS isk1,
    m1.d_moy AS dmoy1,
    m1.mean AS mean1,
    m1.cov AS cov1,
    m2.w_warehouse_sk,
    m2.i_item_sk,
    m2.d_moy,
    m2.mean,
    m2.cov
FROM erratic m1
JOIN erratic m2 ON m1.i_item_sk = m2.i_item_sk AND m1.w_warehouse_sk = m2.w_warehouse_sk
WHERE m1.d_moy = 1
    AND m2.d_moy = 2
ORDER BY
    m1.w_warehouse_sk NULLS FIRST,
    m1.i_item_sk NULLS FIRST,
    m1.d_moy NULLS FIRST,
    m1.mean NULLS FIRST,
    m1.cov NULLS FIRST,
    m2.d_moy NULLS FIRST,
    m2.mean NULLS FIRST,
    m2.cov NULLS FIRST;
