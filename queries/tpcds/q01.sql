-- Customers of the stores in Tennessee who brought back, over the year 2000, goods worth at
-- least a fifth more than the average customer returned to the same store.
WITH returned AS (
    SELECT
        sr.sr_customer_sk AS customer_sk,
        sr.sr_store_sk AS store_sk,
        sum(sr.sr_return_amt) AS amount
    FROM store_returns sr
    JOIN date_dim d ON sr.sr_returned_date_sk = d.d_date_sk
    WHERE d.d_year = 2000
    GROUP BY sr.sr_customer_sk, sr.sr_store_sk
)
SELECT c.c_customer_id
FROM returned r
JOIN store s ON s.s_store_sk = r.store_sk
JOIN customer c ON r.customer_sk = c.c_customer_sk
WHERE s.s_state = 'TN'
    AND r.amount > (
        SELECT avg(same_store.amount) * 1.2
        FROM returned same_store
        WHERE same_store.store_sk = r.store_sk
    )
ORDER BY c.c_customer_id
LIMIT 100;
