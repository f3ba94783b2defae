-- Which customers of one city, from households within an income range, have the demographics of
-- someone who returned goods to a store?
SELECT
    c.c_customer_id AS customer_id,
    COALESCE(c.c_last_name, '') || ', ' || COALESCE(c.c_first_name, '') AS customername
FROM customer c
JOIN customer_address ca ON ca.ca_address_sk = c.c_current_addr_sk
JOIN customer_demographics cd ON cd.cd_demo_sk = c.c_current_cdemo_sk
JOIN household_demographics hd ON hd.hd_demo_sk = c.c_current_hdemo_sk
JOIN income_band ib ON ib.ib_income_band_sk = hd.hd_income_band_sk
JOIN store_returns sr ON sr.sr_cdemo_sk = cd.cd_demo_sk
WHERE ca.ca_city = 'Edgewood'
    AND ib.ib_lower_bound >= 38128
    AND ib.ib_upper_bound <= 88128
ORDER BY c.c_customer_id NULLS FIRST
LIMIT 100;
