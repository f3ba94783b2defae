-- Which customers of stores in one county rang up unusually long tickets (15 to 20 lines) near the start
-- or the end of a month, coming from households with more dependants than vehicles?
WITH big_tickets AS (
    SELECT
        ss.ss_ticket_number,
        ss.ss_customer_sk,
        COUNT(*) AS cnt
    FROM store_sales ss
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    JOIN store s ON ss.ss_store_sk = s.s_store_sk
    JOIN household_demographics hd ON ss.ss_hdemo_sk = hd.hd_demo_sk
    WHERE d.d_year IN (1999, 2000, 2001)
        AND (d.d_dom BETWEEN 1 AND 3 OR d.d_dom BETWEEN 25 AND 28)
        AND s.s_county = 'Williamson County'
        AND hd.hd_buy_potential IN ('>10000', 'Unknown')
        AND hd.hd_vehicle_count > 0
        AND CASE
            WHEN hd.hd_vehicle_count > 0 THEN CAST(hd.hd_dep_count AS DOUBLE) / hd.hd_vehicle_count
        END > 1.2
    GROUP BY ss.ss_ticket_number, ss.ss_customer_sk
)
SELECT
    c.c_last_name,
    c.c_first_name,
    c.c_salutation,
    c.c_preferred_cust_flag,
    t.ss_ticket_number,
    t.cnt
FROM big_tickets t
JOIN customer c ON t.ss_customer_sk = c.c_customer_sk
WHERE t.cnt BETWEEN 15 AND 20
ORDER BY
    c.c_last_name NULLS FIRST,
    c.c_first_name NULLS FIRST,
    c.c_salutation NULLS FIRST,
    c.c_preferred_cust_flag DESC NULLS FIRST,
    t.ss_ticket_number NULLS FIRST;
