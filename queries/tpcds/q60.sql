-- Sales of music items over all channels in September 1998, to buyers in one time zone, item by item.
WITH store_totals AS (
    SELECT
        i.i_item_id,
        SUM(ss.ss_ext_sales_price) AS total_sales
    FROM store_sales ss
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    JOIN customer_address ca ON ss.ss_addr_sk = ca.ca_address_sk
    JOIN item i ON ss.ss_item_sk = i.i_item_sk
    WHERE i.i_item_id IN (
            SELECT pick.i_item_id
            FROM item pick
            WHERE pick.i_category = 'Music'
        )
        AND d.d_year = 1998
        AND d.d_moy = 9
        AND ca.ca_gmt_offset = -5
    GROUP BY i.i_item_id
),
catalog_totals AS (
    SELECT
        i.i_item_id,
        SUM(cs.cs_ext_sales_price) AS total_sales
    FROM catalog_sales cs
    JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
    JOIN customer_address ca ON cs.cs_bill_addr_sk = ca.ca_address_sk
    JOIN item i ON cs.cs_item_sk = i.i_item_sk
    WHERE i.i_item_id IN (
            SELECT pick.i_item_id
            FROM item pick
            WHERE pick.i_category = 'Music'
        )
        AND d.d_year = 1998
        AND d.d_moy = 9
        AND ca.ca_gmt_offset = -5
    GROUP BY i.i_item_id
),
web_totals AS (
    SELECT
        i.i_item_id,
        SUM(ws.ws_ext_sales_price) AS total_sales
    FROM web_sales ws
    JOIN date_dim d ON ws.ws_sold_date_sk = d.d_date_sk
    JOIN customer_address ca ON ws.ws_bill_addr_sk = ca.ca_address_sk
    JOIN item i ON ws.ws_item_sk = i.i_item_sk
    WHERE i.i_item_id IN (
            SELECT pick.i_item_id
            FROM item pick
            WHERE pick.i_category = 'Music'
        )
        AND d.d_year = 1998
        AND d.d_moy = 9
        AND ca.ca_gmt_offset = -5
    GROUP BY i.i_item_id
)
SELECT
    i_item_id,
    SUM(total_sales) AS total_sales
FROM (
    SELECT i_item_id, total_sales FROM store_totals
    UNION ALL
    SELECT i_item_id, total_sales FROM catalog_totals
    UNION ALL
    SELECT i_item_id, total_sales FROM web_totals
) all_channels
GROUP BY i_item_id
ORDER BY i_item_id, total_sales
LIMIT 100;
