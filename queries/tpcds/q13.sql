-- Averages of quantity, price and cost of the store sales of 2001 that fit one of three household
-- profiles (with a range of price) and one of three regions (with a range of profit).
SELECT
    avg(ss.ss_quantity) AS avg1,
    avg(ss.ss_ext_sales_price) AS avg2,
    avg(ss.ss_ext_wholesale_cost) AS avg3,
    sum(ss.ss_ext_wholesale_cost) AS "sum(ss_ext_wholesale_cost)"
FROM store_sales ss
JOIN store s ON s.s_store_sk = ss.ss_store_sk
JOIN customer_demographics cd ON cd.cd_demo_sk = ss.ss_cdemo_sk
JOIN household_demographics hd ON ss.ss_hdemo_sk = hd.hd_demo_sk
JOIN customer_address ca ON ss.ss_addr_sk = ca.ca_address_sk
JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
WHERE d.d_year = 2001
    AND ca.ca_country = 'United States'
    AND (
        (
            cd.cd_marital_status = 'M'
            AND cd.cd_education_status = 'Advanced Degree'
            AND ss.ss_sales_price BETWEEN 100.00 AND 150.00
            AND hd.hd_dep_count = 3
        )
        OR (
            cd.cd_marital_status = 'S'
            AND cd.cd_education_status = 'College'
            AND ss.ss_sales_price BETWEEN 50.00 AND 100.00
            AND hd.hd_dep_count = 1
        )
        OR (
            cd.cd_marital_status = 'W'
            AND cd.cd_education_status = '2 yr Degree'
            AND ss.ss_sales_price BETWEEN 150.00 AND 200.00
            AND hd.hd_dep_count = 1
        )
    )
    AND (
        (ca.ca_state IN ('OH', 'TX') AND ss.ss_net_profit BETWEEN 100 AND 200)
        OR (ca.ca_state IN ('KY', 'NM', 'OR') AND ss.ss_net_profit BETWEEN 150 AND 300)
        OR (ca.ca_state IN ('MS', 'TX', 'VA') AND ss.ss_net_profit BETWEEN 50 AND 250)
    );
