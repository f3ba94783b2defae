-- Total of the catalog discounts on items of manufacturer 977 over ninety days of 2000 that were more
-- than 30 % above the item's average discount of the same days.
SELECT sum(cs.cs_ext_discount_amt) AS "excess discount amount"
FROM catalog_sales cs
JOIN item i ON i.i_item_sk = cs.cs_item_sk
JOIN date_dim d ON d.d_date_sk = cs.cs_sold_date_sk
WHERE i.i_manufact_id = 977
    AND d.d_date BETWEEN DATE '2000-01-27' AND DATE '2000-04-26'
    AND cs.cs_ext_discount_amt > (
        SELECT 1.3 * avg(peer.cs_ext_discount_amt)
        FROM catalog_sales peer
        JOIN date_dim peer_day ON peer_day.d_date_sk = peer.cs_sold_date_sk
        WHERE peer.cs_item_sk = i.i_item_sk
            AND peer_day.d_date BETWEEN DATE '2000-01-27' AND DATE '2000-04-26'
    )
LIMIT 100;
