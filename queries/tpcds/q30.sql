-- Customers now in Georgia who sent back, over 2002, web purchases worth at least a fifth more than
-- the average customer of the state they were returned from.
WITH returned AS (
    SELECT
        wr.wr_returning_customer_sk AS customer_sk,
        ca.ca_state AS state,
        sum(wr.wr_return_amt) AS ctr_total_return
    FROM web_returns wr
    JOIN date_dim d ON wr.wr_returned_date_sk = d.d_date_sk
    JOIN customer_address ca ON wr.wr_returning_addr_sk = ca.ca_address_sk
    WHERE d.d_year = 2002
    GROUP BY wr.wr_returning_customer_sk, ca.ca_state
)
SELECT
    c.c_customer_id,
    c.c_salutation,
    c.c_first_name,
    c.c_last_name,
    c.c_preferred_cust_flag,
    c.c_birth_day,
    c.c_birth_month,
    c.c_birth_year,
    c.c_birth_country,
    c.c_login,
    c.c_email_address,
    c.c_last_review_date_sk,
    r.ctr_total_return
FROM returned r,
    customer_address ca
JOIN customer c ON ca.ca_address_sk = c.c_current_addr_sk
WHERE r.customer_sk = c.c_customer_sk
    AND ca.ca_state = 'GA'
    AND r.ctr_total_return > (
        SELECT avg(same_state.ctr_total_return) * 1.2
        FROM returned same_state
        WHERE same_state.state = r.state
    )
ORDER BY
    c.c_customer_id NULLS FIRST,
    c.c_salutation NULLS FIRST,
    c.c_first_name NULLS FIRST,
    c.c_last_name NULLS FIRST,
    c.c_preferred_cust_flag NULLS FIRST,
    c.c_birth_day NULLS FIRST,
    c.c_birth_month NULLS FIRST,
    c.c_birth_year NULLS FIRST,
    c.c_birth_country NULLS FIRST,
    c.c_login NULLS FIRST,
    c.c_email_address NULLS FIRST,
    c.c_last_review_date_sk NULLS FIRST,
    r.ctr_total_return NULLS FIRST
LIMIT 100;
