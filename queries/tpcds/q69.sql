-- Demographic profile of the customers of three states who bought in stores in one quarter
-- and neither on the web nor from the catalog.
SELECT
    cd.cd_gender,
    cd.cd_marital_status,
    cd.cd_education_status,
    count(*) AS cnt1,
    cd.cd_purchase_estimate,
    count(*) AS cnt2,
    cd.cd_credit_rating,
    count(*) AS cnt3
FROM customer c
JOIN customer_address ca ON ca.ca_address_sk = c.c_current_addr_sk
JOIN customer_demographics cd ON cd.cd_demo_sk = c.c_current_cdemo_sk
WHERE ca.ca_state IN ('KY', 'GA', 'NM')
    AND EXISTS (
        SELECT 1
        FROM store_sales ss
        JOIN date_dim d ON d.d_date_sk = ss.ss_sold_date_sk
        WHERE ss.ss_customer_sk = c.c_customer_sk
            AND d.d_year = 2001
            AND d.d_moy BETWEEN 4 AND 6
    )
    AND NOT EXISTS (
        SELECT 1
        FROM web_sales ws
        JOIN date_dim d ON d.d_date_sk = ws.ws_sold_date_sk
        WHERE ws.ws_bill_customer_sk = c.c_customer_sk
            AND d.d_year = 2001
            AND d.d_moy BETWEEN 4 AND 6
    )
    AND NOT EXISTS (
        SELECT 1
        FROM catalog_sales cs
        JOIN date_dim d ON d.d_date_sk = cs.cs_sold_date_sk
        WHERE cs.cs_ship_customer_sk = c.c_customer_sk
            AND d.d_year = 2001
            AND d.d_moy BETWEEN 4 AND 6
    )
GROUP BY
    cd.cd_gender,
    cd.cd_marital_status,
    cd.cd_education_status,
    cd.cd_purchase_estimate,
    cd.cd_credit_rating
ORDER BY
    cd.cd_gender,
    cd.cd_marital_status,
    cd.cd_education_status,
    cd.cd_purchase_estimate,
    cd.cd_credit_rating
LIMIT 100;
