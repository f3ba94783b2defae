-- Gross margin of the Tennessee stores in 2001, for each item class, each category and overall,
-- ranked from the lowest margin up among the members of the same parent.
WITH margins AS (
    SELECT
        i.i_category,
        i.i_class,
        GROUPING(i.i_category) + GROUPING(i.i_class) AS lochierarchy,
        CAST(SUM(ss.ss_net_profit) AS DOUBLE) / CAST(SUM(ss.ss_ext_sales_price) AS DOUBLE) AS gross_margin
    FROM store_sales ss
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    JOIN item i ON ss.ss_item_sk = i.i_item_sk
    JOIN store s ON ss.ss_store_sk = s.s_store_sk
    WHERE d.d_year = 2001
        AND s.s_state = 'TN'
    GROUP BY ROLLUP (i.i_category, i.i_class)
)
SELECT
    gross_margin,
    i_category,
    i_class,
    lochierarchy,
    RANK() OVER (
        PARTITION BY lochierarchy, CASE WHEN lochierarchy = 0 THEN i_category END
        ORDER BY gross_margin ASC
    ) AS rank_within_parent
FROM margins
ORDER BY
    lochierarchy DESC NULLS FIRST,
    CASE WHEN lochierarchy = 0 THEN i_category END NULLS FIRST,
    rank_within_parent NULLS FIRST
LIMIT 100;
