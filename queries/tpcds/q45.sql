-- Web sales of the second quarter of 2001 by the buyer's zip code and city, for buyers in nine zip areas
-- or purchases of any of ten chosen items.
SELECT
    ca.ca_zip,
    ca.ca_city,
    SUM(ws_sales_price)
FROM web_sales ws
JOIN customer c ON ws.ws_bill_customer_sk = c.c_customer_sk
JOIN customer_address ca ON c.c_current_addr_sk = ca.ca_address_sk
JOIN date_dim d ON ws.ws_sold_date_sk = d.d_date_sk
JOIN item i ON ws.ws_item_sk = i.i_item_sk
WHERE d.d_year = 2001
    AND d.d_qoy = 2
    AND (
        SUBSTRING(ca.ca_zip, 1, 5) IN (
            '85669', '86197', '88274', '83405', '86475', '85392', '85460', '80348', '81792'
        )
        OR i.i_item_id IN (
            SELECT pick.i_item_id
            FROM item pick
            WHERE pick.i_item_sk IN (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)
        )
    )
GROUP BY ca.ca_zip, ca.ca_city
ORDER BY ca.ca_zip, ca.ca_city
LIMIT 100;
