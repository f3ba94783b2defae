-- Number, shipping cost and profit of the web orders to one state, from the sites of one company
-- within sixty days, that were shipped from several warehouses and not returned.
SELECT
    count(DISTINCT ws.ws_order_number) AS "order count",
    sum(ws.ws_ext_ship_cost) AS "total shipping cost",
    sum(ws.ws_net_profit) AS "total net profit"
FROM web_sales ws
JOIN date_dim d ON d.d_date_sk = ws.ws_ship_date_sk
JOIN customer_address ca ON ca.ca_address_sk = ws.ws_ship_addr_sk
JOIN web_site site ON site.web_site_sk = ws.ws_web_site_sk
WHERE d.d_date BETWEEN DATE '1999-02-01' AND DATE '1999-04-02'
    AND ca.ca_state = 'IL'
    AND site.web_company_name = 'pri'
    AND EXISTS (
        SELECT 1
        FROM web_sales other
        WHERE other.ws_order_number = ws.ws_order_number
            AND other.ws_warehouse_sk <> ws.ws_warehouse_sk
    )
    AND NOT EXISTS (
        SELECT 1
        FROM web_returns wr
        WHERE wr.wr_order_number = ws.ws_order_number
    )
ORDER BY count(DISTINCT ws.ws_order_number)
LIMIT 100;
