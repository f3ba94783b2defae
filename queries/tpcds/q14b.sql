-- Brands, classes and categories sold through all three channels: store sales in the week of
-- 11 December 2000 beside the same week of the year before, where both are above the average line.
WITH cross_items AS (
    SELECT i.i_item_sk AS item_sk
    FROM item i
    JOIN (
        SELECT k.i_brand_id AS brand_id, k.i_class_id AS class_id, k.i_category_id AS category_id
        FROM store_sales ss
        JOIN item k ON ss.ss_item_sk = k.i_item_sk
        JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
        WHERE d.d_year BETWEEN 1999 AND 2001
        INTERSECT
        SELECT k.i_brand_id, k.i_class_id, k.i_category_id
        FROM catalog_sales cs
        JOIN item k ON cs.cs_item_sk = k.i_item_sk
        JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
        WHERE d.d_year BETWEEN 1999 AND 2001
        INTERSECT
        SELECT k.i_brand_id, k.i_class_id, k.i_category_id
        FROM web_sales ws
        JOIN item k ON ws.ws_item_sk = k.i_item_sk
        JOIN date_dim d ON ws.ws_sold_date_sk = d.d_date_sk
        WHERE d.d_year BETWEEN 1999 AND 2001
    ) everywhere
        ON i.i_brand_id = everywhere.brand_id
        AND i.i_class_id = everywhere.class_id
        AND i.i_category_id = everywhere.category_id
),
average AS (
    SELECT avg(line.quantity * line.list_price) AS amount
    FROM (
        SELECT ss.ss_quantity AS quantity, ss.ss_list_price AS list_price
        FROM store_sales ss
        JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
        WHERE d.d_year BETWEEN 1999 AND 2001
        UNION ALL
        SELECT cs.cs_quantity AS quantity, cs.cs_list_price AS list_price
        FROM catalog_sales cs
        JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
        WHERE d.d_year BETWEEN 1999 AND 2001
        UNION ALL
        SELECT ws.ws_quantity AS quantity, ws.ws_list_price AS list_price
        FROM web_sales ws
        JOIN date_dim d ON ws.ws_sold_date_sk = d.d_date_sk
        WHERE d.d_year BETWEEN 1999 AND 2001
    ) line
)
SELECT
    this_year.channel AS ty_channel,
    this_year.i_brand_id AS ty_brand,
    this_year.i_class_id AS ty_class,
    this_year.i_category_id AS ty_category,
    this_year.sales AS ty_sales,
    this_year.number_sales AS ty_number_sales,
    last_year.channel AS ly_channel,
    last_year.i_brand_id AS ly_brand,
    last_year.i_class_id AS ly_class,
    last_year.i_category_id AS ly_category,
    last_year.sales AS ly_sales,
    last_year.number_sales AS ly_number_sales
FROM (
    SELECT
        'store' AS channel,
        i.i_brand_id,
        i.i_class_id,
        i.i_category_id,
        sum(ss.ss_quantity * ss.ss_list_price) AS sales,
        count(*) AS number_sales
    FROM store_sales ss
    JOIN item i ON ss.ss_item_sk = i.i_item_sk
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    WHERE ss.ss_item_sk IN (SELECT item_sk FROM cross_items)
        AND d.d_week_seq = (
            SELECT day.d_week_seq
            FROM date_dim day
            WHERE day.d_year = 2000 AND day.d_moy = 12 AND day.d_dom = 11
        )
    GROUP BY i.i_brand_id, i.i_class_id, i.i_category_id
    HAVING sum(ss.ss_quantity * ss.ss_list_price) > (SELECT amount FROM average)
) this_year
JOIN (
    SELECT
        'store' AS channel,
        i.i_brand_id,
        i.i_class_id,
        i.i_category_id,
        sum(ss.ss_quantity * ss.ss_list_price) AS sales,
        count(*) AS number_sales
    FROM store_sales ss
    JOIN item i ON ss.ss_item_sk = i.i_item_sk
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    WHERE ss.ss_item_sk IN (SELECT item_sk FROM cross_items)
        AND d.d_week_seq = (
            SELECT day.d_week_seq
            FROM date_dim day
            WHERE day.d_year = 1999 AND day.d_moy = 12 AND day.d_dom = 11
        )
    GROUP BY i.i_brand_id, i.i_class_id, i.i_category_id
    HAVING sum(ss.ss_quantity * ss.ss_list_price) > (SELECT amount FROM average)
) last_year
    ON this_year.i_brand_id = last_year.i_brand_id
    AND this_year.i_class_id = last_year.i_class_id
    AND this_year.i_category_id = last_year.i_category_id
ORDER BY this_year.channel, this_year.i_brand_id, this_year.i_class_id, this_year.i_category_id
LIMIT 100;
