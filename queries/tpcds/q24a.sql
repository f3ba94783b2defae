-- Customers born outside the country of their address who, in stores of market 8 with the postcode
-- of that address, paid for peach items they later returned more than 5 % of the average.
WITH paid_items AS (
    SELECT
        c.c_last_name,
        c.c_first_name,
        s.s_store_name,
        ca.ca_state,
        s.s_state,
        i.i_color,
        i.i_current_price,
        i.i_manager_id,
        i.i_units,
        i.i_size,
        sum(ss.ss_net_paid) AS net_paid
    FROM store_sales ss
    JOIN store_returns sr
        ON ss.ss_ticket_number = sr.sr_ticket_number
        AND ss.ss_item_sk = sr.sr_item_sk
    JOIN store s ON ss.ss_store_sk = s.s_store_sk
    JOIN item i ON ss.ss_item_sk = i.i_item_sk
    JOIN customer c ON ss.ss_customer_sk = c.c_customer_sk
    JOIN customer_address ca
        ON c.c_current_addr_sk = ca.ca_address_sk
        AND s.s_zip = ca.ca_zip
    WHERE s.s_market_id = 8
        AND c.c_birth_country <> upper(ca.ca_country)
    GROUP BY
        c.c_last_name,
        c.c_first_name,
        s.s_store_name,
        ca.ca_state,
        s.s_state,
        i.i_color,
        i.i_current_price,
        i.i_manager_id,
        i.i_units,
        i.i_size
)
SELECT
    c_last_name,
    c_first_name,
    s_store_name,
    sum(net_paid) AS paid
FROM paid_items
WHERE i_color = 'peach'
GROUP BY c_last_name, c_first_name, s_store_name
HAVING sum(net_paid) > (SELECT 0.05 * avg(net_paid) FROM paid_items)
ORDER BY c_last_name, c_first_name, s_store_name;
