-- Customers who bought women's maternity goods by catalog or web in December 1998: how are they spread over
-- steps of 50 in what they spent, in the three months after, in stores of their own county?
WITH buyers AS (
    SELECT DISTINCT
        c.c_customer_sk,
        c.c_current_addr_sk
    FROM (
        SELECT
            cs_sold_date_sk AS sold_date_sk,
            cs_bill_customer_sk AS customer_sk,
            cs_item_sk AS item_sk
        FROM catalog_sales
        UNION ALL
        SELECT
            ws_sold_date_sk AS sold_date_sk,
            ws_bill_customer_sk AS customer_sk,
            ws_item_sk AS item_sk
        FROM web_sales
    ) remote
    JOIN item i ON remote.item_sk = i.i_item_sk
    JOIN date_dim d ON remote.sold_date_sk = d.d_date_sk
    JOIN customer c ON remote.customer_sk = c.c_customer_sk
    WHERE i.i_category = 'Women'
        AND i.i_class = 'maternity'
        AND d.d_year = 1998
        AND d.d_moy = 12
),
spending AS (
    SELECT
        b.c_customer_sk,
        SUM(ss.ss_ext_sales_price) AS revenue
    FROM buyers b
    JOIN store_sales ss ON b.c_customer_sk = ss.ss_customer_sk
    JOIN customer_address ca ON b.c_current_addr_sk = ca.ca_address_sk
    JOIN store s ON ca.ca_county = s.s_county AND ca.ca_state = s.s_state
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    WHERE d.d_month_seq BETWEEN (
            SELECT DISTINCT d_month_seq + 1
            FROM date_dim
            WHERE d_year = 1998 AND d_moy = 12
        ) AND (
            SELECT DISTINCT d_month_seq + 3
            FROM date_dim
            WHERE d_year = 1998 AND d_moy = 12
        )
    GROUP BY b.c_customer_sk
),
steps AS (
    SELECT CAST(ROUND(CAST(revenue AS DOUBLE) / 50) AS INT) AS segment
    FROM spending
)
SELECT
    segment,
    COUNT(*) AS num_customers,
    segment * 50 AS segment_base
FROM steps
GROUP BY segment
ORDER BY segment NULLS FIRST, num_customers NULLS FIRST, segment_base
LIMIT 100;
