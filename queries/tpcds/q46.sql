-- Weekend shoppers of stores in two cities whose address at the time of the purchase is in another city than
-- their present one, with coupon amount and profit of each ticket.
WITH weekend_tickets AS (
    SELECT
        ss.ss_ticket_number,
        ss.ss_customer_sk,
        ca.ca_city AS bought_city,
        SUM(ss.ss_coupon_amt) AS amt,
        SUM(ss.ss_net_profit) AS profit
    FROM store_sales ss
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    JOIN store s ON ss.ss_store_sk = s.s_store_sk
    JOIN household_demographics hd ON ss.ss_hdemo_sk = hd.hd_demo_sk
    JOIN customer_address ca ON ss.ss_addr_sk = ca.ca_address_sk
    WHERE d.d_dow IN (6, 0)
        AND d.d_year IN (1999, 2000, 2001)
        AND s.s_city IN ('Fairview', 'Midway')
        AND (hd.hd_dep_count = 4 OR hd.hd_vehicle_count = 3)
    GROUP BY ss.ss_ticket_number, ss.ss_customer_sk, ss.ss_addr_sk, ca.ca_city
)
SELECT
    c.c_last_name,
    c.c_first_name,
    home.ca_city,
    t.bought_city,
    t.ss_ticket_number,
    t.amt,
    t.profit
FROM weekend_tickets t
JOIN customer c ON t.ss_customer_sk = c.c_customer_sk
JOIN customer_address home ON c.c_current_addr_sk = home.ca_address_sk
WHERE home.ca_city <> t.bought_city
ORDER BY
    c.c_last_name NULLS FIRST,
    c.c_first_name NULLS FIRST,
    home.ca_city NULLS FIRST,
    t.bought_city NULLS FIRST,
    t.ss_ticket_number NULLS FIRST
LIMIT 100;
