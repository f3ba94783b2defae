-- Which purchases, made in two cities in the first two days of a month by households with many
-- dependants or cars, were made by customers who have moved to another city since?
SELECT
    c.c_last_name,
    c.c_first_name,
    home.ca_city,
    purchase.bought_city,
    purchase.ss_ticket_number,
    purchase.extended_price,
    purchase.extended_tax,
    purchase.list_price
FROM (
    SELECT
        ss.ss_ticket_number,
        ss.ss_customer_sk,
        ca.ca_city AS bought_city,
        sum(ss.ss_ext_sales_price) AS extended_price,
        sum(ss.ss_ext_list_price) AS list_price,
        sum(ss.ss_ext_tax) AS extended_tax
    FROM store_sales ss
    JOIN date_dim d ON d.d_date_sk = ss.ss_sold_date_sk
    JOIN store s ON s.s_store_sk = ss.ss_store_sk
    JOIN household_demographics hd ON hd.hd_demo_sk = ss.ss_hdemo_sk
    JOIN customer_address ca ON ca.ca_address_sk = ss.ss_addr_sk
    WHERE d.d_dom BETWEEN 1 AND 2
        AND (hd.hd_dep_count = 4 OR hd.hd_vehicle_count = 3)
        AND d.d_year IN (1999, 2000, 2001)
        AND s.s_city IN ('Fairview', 'Midway')
    GROUP BY
        ss.ss_ticket_number,
        ss.ss_customer_sk,
        ss.ss_addr_sk,
        ca.ca_city
) AS purchase
JOIN customer c ON c.c_customer_sk = purchase.ss_customer_sk
JOIN customer_address home ON home.ca_address_sk = c.c_current_addr_sk
WHERE home.ca_city <> purchase.bought_city
ORDER BY
    c.c_last_name NULLS FIRST,
    purchase.ss_ticket_number NULLS FIRST
LIMIT 100;
