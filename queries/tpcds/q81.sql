-- Which customers living in one state returned catalog goods in one year worth more than 1.2
-- times the average of the state they returned them from, and where do they live?
WITH customer_total_return AS (
    SELECT
        cr.cr_returning_customer_sk AS ctr_customer_sk,
        ca.ca_state AS ctr_state,
        sum(cr.cr_return_amt_inc_tax) AS ctr_total_return
    FROM catalog_returns cr
    JOIN date_dim d ON d.d_date_sk = cr.cr_returned_date_sk
    JOIN customer_address ca ON ca.ca_address_sk = cr.cr_returning_addr_sk
    WHERE d.d_year = 2000
    GROUP BY
        cr.cr_returning_customer_sk,
        ca.ca_state
)
SELECT
    c.c_customer_id,
    c.c_salutation,
    c.c_first_name,
    c.c_last_name,
    ca.ca_street_number,
    ca.ca_street_name,
    ca.ca_street_type,
    ca.ca_suite_number,
    ca.ca_city,
    ca.ca_county,
    ca.ca_state,
    ca.ca_zip,
    ca.ca_country,
    ca.ca_gmt_offset,
    ca.ca_location_type,
    ctr.ctr_total_return
FROM customer_total_return ctr, customer_address ca, customer c
WHERE ctr.ctr_total_return > (
        SELECT avg(peer.ctr_total_return) * 1.2
        FROM customer_total_return peer
        WHERE peer.ctr_state = ctr.ctr_state
    )
    AND ca.ca_address_sk = c.c_current_addr_sk
    AND ca.ca_state = 'GA'
    AND c.c_customer_sk = ctr.ctr_customer_sk
ORDER BY
    c.c_customer_id,
    c.c_salutation,
    c.c_first_name,
    c.c_last_name,
    ca.ca_street_number,
    ca.ca_street_name,
    ca.ca_street_type,
    ca.ca_suite_number,
    ca.ca_city,
    ca.ca_county,
    ca.ca_state,
    ca.ca_zip,
    ca.ca_country,
    ca.ca_gmt_offset,
    ca.ca_location_type,
    ctr.ctr_total_return
LIMIT 100;
