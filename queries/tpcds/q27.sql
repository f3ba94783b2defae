-- Average quantity, list price, coupon and price paid of what single men with a college education
-- bought in the stores of Tennessee in 2002: by item and state, by item, and over all.
WITH bought AS (
    SELECT
        i.i_item_id AS item_id,
        s.s_state AS state,
        ss.ss_quantity AS quantity,
        ss.ss_list_price AS list_price,
        ss.ss_coupon_amt AS coupon,
        ss.ss_sales_price AS price
    FROM store_sales ss
    JOIN customer_demographics cd ON ss.ss_cdemo_sk = cd.cd_demo_sk
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    JOIN store s ON ss.ss_store_sk = s.s_store_sk
    JOIN item i ON ss.ss_item_sk = i.i_item_sk
    WHERE cd.cd_gender = 'M'
        AND cd.cd_marital_status = 'S'
        AND cd.cd_education_status = 'College'
        AND d.d_year = 2002
        AND s.s_state = 'TN'
)
SELECT i_item_id, s_state, g_state, agg1, agg2, agg3, agg4
FROM (
    SELECT
        item_id AS i_item_id,
        state AS s_state,
        0 AS g_state,
        avg(quantity) AS agg1,
        avg(list_price) AS agg2,
        avg(coupon) AS agg3,
        avg(price) AS agg4
    FROM bought
    GROUP BY item_id, state
    UNION ALL
    SELECT
        item_id AS i_item_id,
        NULL AS s_state,
        1 AS g_state,
        avg(quantity) AS agg1,
        avg(list_price) AS agg2,
        avg(coupon) AS agg3,
        avg(price) AS agg4
    FROM bought
    GROUP BY item_id
    UNION ALL
    SELECT
        NULL AS i_item_id,
        NULL AS s_state,
        1 AS g_state,
        avg(quantity) AS agg1,
        avg(list_price) AS agg2,
        avg(coupon) AS agg3,
        avg(price) AS agg4
    FROM bought
) levels
ORDER BY i_item_id NULLS FIRST, s_state NULLS FIRST
LIMIT 100;
