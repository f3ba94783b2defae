-- How many pairs of customer and item were there in twelve months in stores only, from the
-- catalog only, and in both?
WITH store_pair AS (
    SELECT
        ss.ss_customer_sk AS customer_sk,
        ss.ss_item_sk AS item_sk
    FROM store_sales ss
    JOIN date_dim d ON d.d_date_sk = ss.ss_sold_date_sk
    WHERE d.d_month_seq BETWEEN 1200 AND 1211
    GROUP BY
        ss.ss_customer_sk,
        ss.ss_item_sk
),
catalog_pair AS (
    SELECT
        cs.cs_bill_customer_sk AS customer_sk,
        cs.cs_item_sk AS item_sk
    FROM catalog_sales cs
    JOIN date_dim d ON d.d_date_sk = cs.cs_sold_date_sk
    WHERE d.d_month_seq BETWEEN 1200 AND 1211
    GROUP BY
        cs.cs_bill_customer_sk,
        cs.cs_item_sk
)
SELECT
    sum(
        CASE WHEN s.customer_sk IS NOT NULL AND c.customer_sk IS NULL THEN 1 ELSE 0 END
    ) AS store_only,
    sum(
        CASE WHEN s.customer_sk IS NULL AND c.customer_sk IS NOT NULL THEN 1 ELSE 0 END
    ) AS catalog_only,
    sum(
        CASE WHEN s.customer_sk IS NOT NULL AND c.customer_sk IS NOT NULL THEN 1 ELSE 0 END
    ) AS store_and_catalog
FROM store_pair s
FULL JOIN catalog_pair c
    ON c.customer_sk = s.customer_sk
    AND c.item_sk = s.item_sk
LIMIT 100;
