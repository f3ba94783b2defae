-- For which items, warehouses and weeks was the stock below the quantity ordered from the
-- catalog and shipped more than five days later, and how often with a promotion and without?
SELECT
    i.i_item_desc,
    w.w_warehouse_name,
    d1.d_week_seq,
    sum(CASE WHEN p.p_promo_sk IS NULL THEN 1 ELSE 0 END) AS no_promo,
    sum(CASE WHEN p.p_promo_sk IS NOT NULL THEN 1 ELSE 0 END) AS promo,
    count(*) AS total_cnt
FROM catalog_sales cs
JOIN inventory inv ON inv.inv_item_sk = cs.cs_item_sk
JOIN warehouse w ON w.w_warehouse_sk = inv.inv_warehouse_sk
JOIN item i ON i.i_item_sk = cs.cs_item_sk
JOIN customer_demographics cd ON cd.cd_demo_sk = cs.cs_bill_cdemo_sk
JOIN household_demographics hd ON hd.hd_demo_sk = cs.cs_bill_hdemo_sk
JOIN date_dim d1 ON d1.d_date_sk = cs.cs_sold_date_sk
JOIN date_dim d2 ON d2.d_date_sk = inv.inv_date_sk
JOIN date_dim d3 ON d3.d_date_sk = cs.cs_ship_date_sk
LEFT JOIN promotion p ON p.p_promo_sk = cs.cs_promo_sk
LEFT JOIN catalog_returns cr
    ON cr.cr_item_sk = cs.cs_item_sk
    AND cr.cr_order_number = cs.cs_order_number
WHERE d1.d_week_seq = d2.d_week_seq
    AND inv.inv_quantity_on_hand < cs.cs_quantity
    AND d3.d_date > d1.d_date + INTERVAL '5' DAY
    AND hd.hd_buy_potential = '>10000'
    AND d1.d_year = 1999
    AND cd.cd_marital_status = 'D'
GROUP BY
    i.i_item_desc,
    w.w_warehouse_name,
    d1.d_week_seq
ORDER BY
    total_cnt DESC NULLS FIRST,
    i.i_item_desc NULLS FIRST,
    w.w_warehouse_name NULLS FIRST,
    d1.d_week_seq NULLS FIRST
LIMIT 100;
