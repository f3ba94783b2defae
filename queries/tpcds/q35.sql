-- Profile, by state and demographic group, the customers who bought in a store and also by web or catalog
-- during the first three quarters of 2002: head count and spread of their dependant counts.
SELECT
    ca.ca_state,
    cd.cd_gender,
    cd.cd_marital_status,
    cd.cd_dep_count,
    COUNT(*) AS cnt1,
    MIN(cd.cd_dep_count) AS min1,
    MAX(cd.cd_dep_count) AS max1,
    AVG(cd.cd_dep_count) AS avg1,
    cd.cd_dep_employed_count,
    COUNT(*) AS cnt2,
    MIN(cd.cd_dep_employed_count) AS min2,
    MAX(cd.cd_dep_employed_count) AS max2,
    AVG(cd.cd_dep_employed_count) AS avg2,
    cd.cd_dep_college_count,
    COUNT(*) AS cnt3,
    MIN(cd_dep_college_count),
    MAX(cd_dep_college_count),
    AVG(cd_dep_college_count)
FROM customer c
JOIN customer_address ca ON c.c_current_addr_sk = ca.ca_address_sk
JOIN customer_demographics cd ON c.c_current_cdemo_sk = cd.cd_demo_sk
WHERE EXISTS (
        SELECT 1
        FROM store_sales ss
        JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
        WHERE ss.ss_customer_sk = c.c_customer_sk
            AND d.d_year = 2002
            AND d.d_qoy < 4
    )
    AND (
        EXISTS (
            SELECT 1
            FROM web_sales ws
            JOIN date_dim d ON ws.ws_sold_date_sk = d.d_date_sk
            WHERE ws.ws_bill_customer_sk = c.c_customer_sk
                AND d.d_year = 2002
                AND d.d_qoy < 4
        )
        OR EXISTS (
            SELECT 1
            FROM catalog_sales cs
            JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
            WHERE cs.cs_ship_customer_sk = c.c_customer_sk
                AND d.d_year = 2002
                AND d.d_qoy < 4
        )
    )
GROUP BY
    ca.ca_state,
    cd.cd_gender,
    cd.cd_marital_status,
    cd.cd_dep_count,
    cd.cd_dep_employed_count,
    cd.cd_dep_college_count
ORDER BY
    ca.ca_state NULLS FIRST,
    cd.cd_gender NULLS FIRST,
    cd.cd_marital_status NULLS FIRST,
    cd.cd_dep_count NULLS FIRST,
    cd.cd_dep_employed_count NULLS FIRST,
    cd.cd_dep_college_count NULLS FIRST
LIMIT 100;
