-- Catalog takings of the second quarter of 2001 by postcode, for chosen postcodes and states or for
-- expensive purchases from anywhere.
SELECT
    ca.ca_zip,
    sum(cs.cs_sales_price) AS "sum(cs_sales_price)"
FROM catalog_sales cs
JOIN customer c ON cs.cs_bill_customer_sk = c.c_customer_sk
JOIN customer_address ca ON c.c_current_addr_sk = ca.ca_address_sk
JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
WHERE (
        substring(ca.ca_zip, 1, 5) IN (
            '80348', '81792', '83405', '85392', '85460', '85669', '86197', '86475', '88274'
        )
        OR ca.ca_state IN ('CA', 'GA', 'WA')
        OR cs.cs_sales_price > 500
    )
    AND d.d_qoy = 2
    AND d.d_year = 2001
GROUP BY ca.ca_zip
ORDER BY ca.ca_zip NULLS FIRST
LIMIT 100;
