-- November 2001, brands, classes and categories that all three channels sold in 1999 to 2001: what
-- each channel took for those above the average sale line, with subtotals.
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
    channel,
    i_brand_id,
    i_class_id,
    i_category_id,
    sum(sales) AS sum_sales,
    sum(number_sales) AS sum_number_sales
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
        AND d.d_year = 2001
        AND d.d_moy = 11
    GROUP BY i.i_brand_id, i.i_class_id, i.i_category_id
    HAVING sum(ss.ss_quantity * ss.ss_list_price) > (SELECT amount FROM average)
    UNION ALL
    SELECT
        'catalog' AS channel,
        i.i_brand_id,
        i.i_class_id,
        i.i_category_id,
        sum(cs.cs_quantity * cs.cs_list_price) AS sales,
        count(*) AS number_sales
    FROM catalog_sales cs
    JOIN item i ON cs.cs_item_sk = i.i_item_sk
    JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
    WHERE cs.cs_item_sk IN (SELECT item_sk FROM cross_items)
        AND d.d_year = 2001
        AND d.d_moy = 11
    GROUP BY i.i_brand_id, i.i_class_id, i.i_category_id
    HAVING sum(cs.cs_quantity * cs.cs_list_price) > (SELECT amount FROM average)
    UNION ALL
    SELECT
        'web' AS channel,
        i.i_brand_id,
        i.i_class_id,
        i.i_category_id,
        sum(ws.ws_quantity * ws.ws_list_price) AS sales,
        count(*) AS number_sales
    FROM web_sales ws
    JOIN item i ON ws.ws_item_sk = i.i_item_sk
    JOIN date_dim d ON ws.ws_sold_date_sk = d.d_date_sk
    WHERE ws.ws_item_sk IN (SELECT item_sk FROM cross_items)
        AND d.d_year = 2001
        AND d.d_moy = 11
    GROUP BY i.i_brand_id, i.i_class_id, i.i_category_id
    HAVING sum(ws.ws_quantity * ws.ws_list_price) > (SELECT amount FROM average)
) every_channel
GROUP BY ROLLUP (channel, i_brand_id, i_class_id, i_category_id)
ORDER BY
    channel NULLS FIRST,
    i_brand_id NULLS FIRST,
    i_class_id NULLS FIRST,
    i_category_id NULLS FIRST
LIMIT 100;
