-- The ten items with the lowest and the ten with the highest average profit in store 4, paired by rank,
-- among the items above 90 % of the average profit of that store's sales without a recorded address.
WITH item_profit AS (
    SELECT
        ss.ss_item_sk AS item_sk,
        AVG(ss.ss_net_profit) AS avg_profit
    FROM store_sales ss
    WHERE ss.ss_store_sk = 4
    GROUP BY ss.ss_item_sk
    HAVING AVG(ss.ss_net_profit) > 0.9 * (
        SELECT AVG(base.ss_net_profit)
        FROM store_sales base
        WHERE base.ss_store_sk = 4
            AND base.ss_addr_sk IS NULL
        GROUP BY base.ss_store_sk
    )
),
lowest AS (
    SELECT item_sk, RANK() OVER (ORDER BY avg_profit ASC) AS rnk
    FROM item_profit
),
highest AS (
    SELECT item_sk, RANK() OVER (ORDER BY avg_profit DESC) AS rnk
    FROM item_profit
)
SELECT
    lo.rnk,
    i1.i_product_name AS best_performing,
    i2.i_product_name AS worst_performing
FROM lowest lo
JOIN highest hi ON lo.rnk = hi.rnk
JOIN item i1 ON lo.item_sk = i1.i_item_sk
JOIN item i2 ON hi.item_sk = i2.i_item_sk
WHERE lo.rnk < 11
    AND hi.rnk < 11
ORDER BY lo.rnk
LIMIT 100;
