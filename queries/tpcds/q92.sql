-- Total of the web discounts on the items of one manufacturer that were 30 % above the item's
-- own average discount within ninety days.
SELECT sum(ws.ws_ext_discount_amt) AS "Excess Discount Amount"
FROM web_sales ws
JOIN item i ON i.i_item_sk = ws.ws_item_sk
JOIN date_dim d ON d.d_date_sk = ws.ws_sold_date_sk
WHERE i.i_manufact_id = 350
    AND d.d_date BETWEEN DATE '2000-01-27' AND DATE '2000-04-26'
    AND ws.ws_ext_discount_amt > (
        SELECT 1.3 * avg(ws2.ws_ext_discount_amt)
        FROM web_sales ws2
        JOIN date_dim d2 ON d2.d_date_sk = ws2.ws_sold_date_sk
        WHERE ws2.ws_item_sk = i.i_item_sk
            AND d2.d_date BETWEEN DATE '2000-01-27' AND DATE '2000-04-26'
    )
ORDER BY sum(ws.ws_ext_discount_amt)
LIMIT 100;
