-- How many pairs of a customer name and a day appear in all three channels
-- (store, catalog and web) within one twelve-month window?
SELECT COUNT(*)
FROM (
    SELECT DISTINCT c.c_last_name, c.c_first_name, d.d_date
    FROM store_sales ss
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    JOIN customer c ON ss.ss_customer_sk = c.c_customer_sk
    WHERE d.d_month_seq BETWEEN 1200 AND 1211
    INTERSECT
    SELECT DISTINCT c.c_last_name, c.c_first_name, d.d_date
    FROM catalog_sales cs
    JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
    JOIN customer c ON cs.cs_bill_customer_sk = c.c_customer_sk
    WHERE d.d_month_seq BETWEEN 1200 AND 1211
    INTERSECT
    SELECT DISTINCT c.c_last_name, c.c_first_name, d.d_date
    FROM web_sales ws
    JOIN date_dim d ON ws.ws_sold_date_sk = d.d_date_sk
    JOIN customer c ON ws.ws_bill_customer_sk = c.c_customer_sk
    WHERE d.d_month_seq BETWEEN 1200 AND 1211
) everywhere
LIMIT 100;
