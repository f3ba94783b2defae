-- Total quantity sold in stores in 2000 over three pairings of buyer profile with price band
-- and three groups of states with profit bands.
SELECT SUM(ss_quantity)
FROM store_sales ss
JOIN store s ON ss.ss_store_sk = s.s_store_sk
JOIN customer_demographics cd ON ss.ss_cdemo_sk = cd.cd_demo_sk
JOIN customer_address ca ON ss.ss_addr_sk = ca.ca_address_sk
JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
WHERE d.d_year = 2000
    AND (
        (
            cd.cd_marital_status = 'M'
            AND cd.cd_education_status = '4 yr Degree'
            AND ss.ss_sales_price BETWEEN 100.00 AND 150.00
        )
        OR (
            cd.cd_marital_status = 'D'
            AND cd.cd_education_status = '2 yr Degree'
            AND ss.ss_sales_price BETWEEN 50.00 AND 100.00
        )
        OR (
            cd.cd_marital_status = 'S'
            AND cd.cd_education_status = 'College'
            AND ss.ss_sales_price BETWEEN 150.00 AND 200.00
        )
    )
    AND ca.ca_country = 'United States'
    AND (
        (ca.ca_state IN ('CO', 'OH', 'TX') AND ss.ss_net_profit BETWEEN 0 AND 2000)
        OR (ca.ca_state IN ('OR', 'MN', 'KY') AND ss.ss_net_profit BETWEEN 150 AND 3000)
        OR (ca.ca_state IN ('VA', 'CA', 'MS') AND ss.ss_net_profit BETWEEN 50 AND 25000)
    );
