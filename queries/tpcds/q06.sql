-- In which states did at least ten purchases of January 2001 concern items priced a fifth or
-- more above the average of their category?
SELECT
    ca.ca_state AS state,
    count(*) AS cnt
FROM customer_address ca
JOIN customer c ON ca.ca_address_sk = c.c_current_addr_sk
JOIN store_sales ss ON c.c_customer_sk = ss.ss_customer_sk
JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
JOIN item i ON ss.ss_item_sk = i.i_item_sk
WHERE d.d_month_seq = (
        SELECT DISTINCT january.d_month_seq
        FROM date_dim january
        WHERE january.d_year = 2001 AND january.d_moy = 1
    )
    AND i.i_current_price > 1.2 * (
        SELECT avg(peer.i_current_price)
        FROM item peer
        WHERE peer.i_category = i.i_category
    )
GROUP BY ca.ca_state
HAVING count(*) >= 10
ORDER BY cnt NULLS FIRST, ca.ca_state NULLS FIRST
LIMIT 100;
