-- Rank item classes within their category, and categories among each other, by twelve months of
-- web sales.
SELECT
    sum(ws.ws_net_paid) AS total_sum,
    i.i_category,
    i.i_class,
    GROUPING(i.i_category) + GROUPING(i.i_class) AS lochierarchy,
    rank() OVER (
        PARTITION BY
            GROUPING(i.i_category) + GROUPING(i.i_class),
            CASE WHEN GROUPING(i.i_class) = 0 THEN i.i_category END
        ORDER BY sum(ws.ws_net_paid) DESC
    ) AS rank_within_parent
FROM web_sales ws
JOIN date_dim d ON d.d_date_sk = ws.ws_sold_date_sk
JOIN item i ON i.i_item_sk = ws.ws_item_sk
WHERE d.d_month_seq BETWEEN 1200 AND 1211
GROUP BY ROLLUP (i.i_category, i.i_class)
ORDER BY
    lochierarchy DESC NULLS FIRST,
    CASE WHEN GROUPING(i.i_category) + GROUPING(i.i_class) = 0 THEN i.i_category END NULLS FIRST,
    rank_within_parent NULLS FIRST
LIMIT 100;
