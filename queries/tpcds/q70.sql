-- Rank counties within their state, and states among each other, by twelve months of store
-- profit; only states that are among the five best of their ranking count.
SELECT
    sum(ss.ss_net_profit) AS total_sum,
    s.s_state,
    s.s_county,
    GROUPING(s.s_state) + GROUPING(s.s_county) AS lochierarchy,
    rank() OVER (
        PARTITION BY
            GROUPING(s.s_state) + GROUPING(s.s_county),
            CASE WHEN GROUPING(s.s_county) = 0 THEN s.s_state END
        ORDER BY sum(ss.ss_net_profit) DESC
    ) AS rank_within_parent
FROM store_sales ss
JOIN date_dim d ON d.d_date_sk = ss.ss_sold_date_sk
JOIN store s ON s.s_store_sk = ss.ss_store_sk
WHERE d.d_month_seq BETWEEN 1200 AND 1211
    AND s.s_state IN (
        SELECT ranked.s_state
        FROM (
            SELECT
                s2.s_state,
                rank() OVER (
                    PARTITION BY s2.s_state
                    ORDER BY sum(ss2.ss_net_profit) DESC
                ) AS ranking
            FROM store_sales ss2
            JOIN store s2 ON s2.s_store_sk = ss2.ss_store_sk
            JOIN date_dim d2 ON d2.d_date_sk = ss2.ss_sold_date_sk
            WHERE d2.d_month_seq BETWEEN 1200 AND 1211
            GROUP BY s2.s_state
        ) AS ranked
        WHERE ranked.ranking <= 5
    )
GROUP BY ROLLUP (s.s_state, s.s_county)
ORDER BY
    lochierarchy DESC,
    CASE WHEN GROUPING(s.s_state) + GROUPING(s.s_county) = 0 THEN s.s_state END,
    rank_within_parent
LIMIT 100;
