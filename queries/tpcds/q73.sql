-- Which customers of four counties, from households with more dependants than cars, bought up to
-- five items in one go in the first two days of a month?
SELECT
    c.c_last_name,
    c.c_first_name,
    c.c_salutation,
    c.c_preferred_cust_flag,
    ticket.ss_ticket_number,
    ticket.cnt
FROM (
    SELECT
        ss.ss_ticket_number,
        ss.ss_customer_sk,
        count(*) AS cnt
    FROM store_sales ss
    JOIN date_dim d ON d.d_date_sk = ss.ss_sold_date_sk
    JOIN store s ON s.s_store_sk = ss.ss_store_sk
    JOIN household_demographics hd ON hd.hd_demo_sk = ss.ss_hdemo_sk
    WHERE d.d_dom BETWEEN 1 AND 2
        AND (hd.hd_buy_potential = 'Unknown' OR hd.hd_buy_potential = '>10000')
        AND hd.hd_vehicle_count > 0
        AND CASE
            WHEN hd.hd_vehicle_count > 0
                THEN CAST(hd.hd_dep_count AS DOUBLE) / CAST(hd.hd_vehicle_count AS DOUBLE)
            ELSE NULL
        END > 1
        AND d.d_year IN (1999, 2000, 2001)
        AND s.s_county IN (
            'Orange County',
            'Bronx County',
            'Franklin Parish',
            'Williamson County'
        )
    GROUP BY
        ss.ss_ticket_number,
        ss.ss_customer_sk
) AS ticket
JOIN customer c ON c.c_customer_sk = ticket.ss_customer_sk
WHERE ticket.cnt BETWEEN 1 AND 5
ORDER BY
    ticket.cnt DESC,
    c.c_last_name ASC;
