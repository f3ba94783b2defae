-- What did each maker of electronics take through all three channels in May 1998, from buyers five
-- hours behind Greenwich?
WITH in_store AS (
    SELECT i.i_manufact_id, sum(ss.ss_ext_sales_price) AS amount
    FROM store_sales ss
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    JOIN customer_address ca ON ss.ss_addr_sk = ca.ca_address_sk
    JOIN item i ON ss.ss_item_sk = i.i_item_sk
    WHERE i.i_manufact_id IN (
            SELECT maker.i_manufact_id
            FROM item maker
            WHERE maker.i_category = 'Electronics'
        )
        AND d.d_year = 1998
        AND d.d_moy = 5
        AND ca.ca_gmt_offset = -5
    GROUP BY i.i_manufact_id
),
by_catalog AS (
    SELECT i.i_manufact_id, sum(cs.cs_ext_sales_price) AS amount
    FROM catalog_sales cs
    JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
    JOIN customer_address ca ON cs.cs_bill_addr_sk = ca.ca_address_sk
    JOIN item i ON cs.cs_item_sk = i.i_item_sk
    WHERE i.i_manufact_id IN (
            SELECT maker.i_manufact_id
            FROM item maker
            WHERE maker.i_category = 'Electronics'
        )
        AND d.d_year = 1998
        AND d.d_moy = 5
        AND ca.ca_gmt_offset = -5
    GROUP BY i.i_manufact_id
),
on_web AS (
    SELECT i.i_manufact_id, sum(ws.ws_ext_sales_price) AS amount
    FROM web_sales ws
    JOIN date_dim d ON ws.ws_sold_date_sk = d.d_date_sk
    JOIN customer_address ca ON ws.ws_bill_addr_sk = ca.ca_address_sk
    JOIN item i ON ws.ws_item_sk = i.i_item_sk
    WHERE i.i_manufact_id IN (
            SELECT maker.i_manufact_id
            FROM item maker
            WHERE maker.i_category = 'Electronics'
        )
        AND d.d_year = 1998
        AND d.d_moy = 5
        AND ca.ca_gmt_offset = -5
    GROUP BY i.i_manufact_id
)
SELECT i_manufact_id, sum(amount) AS total_sales
FROM (
    SELECT i_manufact_id, amount FROM in_store
    UNION ALL
    SELECT i_manufact_id, amount FROM by_catalog
    UNION ALL
    SELECT i_manufact_id, amount FROM on_web
) every_channel
GROUP BY i_manufact_id
ORDER BY total_sales
LIMIT 100;
