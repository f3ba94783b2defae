-- Demographic profile of the people of five counties who bought in a store and also on the web or
-- from the catalog in the first four months of 2002.
SELECT
    cd.cd_gender,
    cd.cd_marital_status,
    cd.cd_education_status,
    count(*) AS cnt1,
    cd.cd_purchase_estimate,
    count(*) AS cnt2,
    cd.cd_credit_rating,
    count(*) AS cnt3,
    cd.cd_dep_count,
    count(*) AS cnt4,
    cd.cd_dep_employed_count,
    count(*) AS cnt5,
    cd.cd_dep_college_count,
    count(*) AS cnt6
FROM customer c
JOIN customer_address ca ON c.c_current_addr_sk = ca.ca_address_sk
JOIN customer_demographics cd ON cd.cd_demo_sk = c.c_current_cdemo_sk
WHERE ca.ca_county IN (
        'Dona Ana County', 'Jefferson County', 'La Porte County', 'Rush County', 'Toole County'
    )
    AND EXISTS (
        SELECT 1
        FROM store_sales ss
        JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
        WHERE ss.ss_customer_sk = c.c_customer_sk
            AND d.d_year = 2002
            AND d.d_moy BETWEEN 1 AND 4
    )
    AND (
        EXISTS (
            SELECT 1
            FROM web_sales ws
            JOIN date_dim d ON ws.ws_sold_date_sk = d.d_date_sk
            WHERE ws.ws_bill_customer_sk = c.c_customer_sk
                AND d.d_year = 2002
                AND d.d_moy BETWEEN 1 AND 4
        )
        OR EXISTS (
            SELECT 1
            FROM catalog_sales cs
            JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
            WHERE cs.cs_ship_customer_sk = c.c_customer_sk
                AND d.d_year = 2002
                AND d.d_moy BETWEEN 1 AND 4
        )
    )
GROUP BY
    cd.cd_gender,
    cd.cd_marital_status,
    cd.cd_education_status,
    cd.cd_purchase_estimate,
    cd.cd_credit_rating,
    cd.cd_dep_count,
    cd.cd_dep_employed_count,
    cd.cd_dep_college_count
ORDER BY
    cd.cd_gender,
    cd.cd_marital_status,
    cd.cd_education_status,
    cd.cd_purchase_estimate,
    cd.cd_credit_rating,
    cd.cd_dep_count,
    cd.cd_dep_employed_count,
    cd.cd_dep_college_count
LIMIT 100;
