-- How many sales, and of what amount, lack their store, web customer or catalog address, by
-- channel, quarter and item category?
SELECT
    channel,
    col_name,
    d_year,
    d_qoy,
    i_category,
    count(*) AS sales_cnt,
    sum(price) AS sales_amt
FROM (
    SELECT
        'store' AS channel,
        'ss_store_sk' AS col_name,
        d.d_year,
        d.d_qoy,
        i.i_category,
        ss.ss_ext_sales_price AS price
    FROM store_sales ss
    JOIN item i ON i.i_item_sk = ss.ss_item_sk
    JOIN date_dim d ON d.d_date_sk = ss.ss_sold_date_sk
    WHERE ss.ss_store_sk IS NULL
    UNION ALL
    SELECT
        'web' AS channel,
        'ws_ship_customer_sk' AS col_name,
        d.d_year,
        d.d_qoy,
        i.i_category,
        ws.ws_ext_sales_price AS price
    FROM web_sales ws
    JOIN item i ON i.i_item_sk = ws.ws_item_sk
    JOIN date_dim d ON d.d_date_sk = ws.ws_sold_date_sk
    WHERE ws.ws_ship_customer_sk IS NULL
    UNION ALL
    SELECT
        'catalog' AS channel,
        'cs_ship_addr_sk' AS col_name,
        d.d_year,
        d.d_qoy,
        i.i_category,
        cs.cs_ext_sales_price AS price
    FROM catalog_sales cs
    JOIN item i ON i.i_item_sk = cs.cs_item_sk
    JOIN date_dim d ON d.d_date_sk = cs.cs_sold_date_sk
    WHERE cs.cs_ship_addr_sk IS NULL
) AS incomplete
GROUP BY
    channel,
    col_name,
    d_year,
    d_qoy,
    i_category
ORDER BY
    channel NULLS FIRST,
    col_name NULLS FIRST,
    d_year NULLS FIRST,
    d_qoy NULLS FIRST,
    i_category NULLS FIRST
LIMIT 100;
