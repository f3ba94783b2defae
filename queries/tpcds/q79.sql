-- Coupon amount and profit of each Monday purchase in a store of medium size by households with
-- many dependants or several cars.
SELECT
    c.c_last_name,
    c.c_first_name,
    SUBSTRING(ticket.s_city, 1, 30),
    ticket.ss_ticket_number,
    ticket.amt,
    ticket.profit
FROM (
    SELECT
        ss.ss_ticket_number,
        ss.ss_customer_sk,
        s.s_city,
        sum(ss.ss_coupon_amt) AS amt,
        sum(ss.ss_net_profit) AS profit
    FROM store_sales ss
    JOIN date_dim d ON d.d_date_sk = ss.ss_sold_date_sk
    JOIN store s ON s.s_store_sk = ss.ss_store_sk
    JOIN household_demographics hd ON hd.hd_demo_sk = ss.ss_hdemo_sk
    WHERE (hd.hd_dep_count = 6 OR hd.hd_vehicle_count > 2)
        AND d.d_dow = 1
        AND d.d_year IN (1999, 2000, 2001)
        AND s.s_number_employees BETWEEN 200 AND 295
    GROUP BY
        ss.ss_ticket_number,
        ss.ss_customer_sk,
        ss.ss_addr_sk,
        s.s_city
) AS ticket
JOIN customer c ON c.c_customer_sk = ticket.ss_customer_sk
ORDER BY
    c.c_last_name NULLS FIRST,
    c.c_first_name NULLS FIRST,
    SUBSTRING(ticket.s_city, 1, 30) NULLS FIRST,
    ticket.profit NULLS FIRST,
    ticket.ss_ticket_number
LIMIT 100;
