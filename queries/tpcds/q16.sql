-- Catalog orders shipped to Georgia over sixty days of 2002 by the call centers of one county, sent
-- from more than one warehouse and never returned: how many, with what shipping cost and profit?
SELECT
    count(DISTINCT cs.cs_order_number) AS "order count",
    sum(cs.cs_ext_ship_cost) AS "total shipping cost",
    sum(cs.cs_net_profit) AS "total net profit"
FROM catalog_sales cs
JOIN date_dim d ON cs.cs_ship_date_sk = d.d_date_sk
JOIN customer_address ca ON cs.cs_ship_addr_sk = ca.ca_address_sk
JOIN call_center cc ON cs.cs_call_center_sk = cc.cc_call_center_sk
WHERE d.d_date BETWEEN DATE '2002-02-01' AND DATE '2002-04-02'
    AND ca.ca_state = 'GA'
    AND cc.cc_county = 'Williamson County'
    AND EXISTS (
        SELECT 1
        FROM catalog_sales other
        WHERE other.cs_order_number = cs.cs_order_number
            AND other.cs_warehouse_sk <> cs.cs_warehouse_sk
    )
    AND NOT EXISTS (
        SELECT 1
        FROM catalog_returns cr
        WHERE cr.cr_order_number = cs.cs_order_number
    )
ORDER BY "order count"
LIMIT 100;
