-- How many times in twelve months did a customer buy in a store on a day on which they bought
-- neither from the catalog nor on the web?
SELECT count(*)
FROM (
    (
        SELECT DISTINCT c.c_last_name, c.c_first_name, d.d_date
        FROM store_sales ss
        JOIN date_dim d ON d.d_date_sk = ss.ss_sold_date_sk
        JOIN customer c ON c.c_customer_sk = ss.ss_customer_sk
        WHERE d.d_month_seq BETWEEN 1200 AND 1211
    )
    EXCEPT
    (
        SELECT DISTINCT c.c_last_name, c.c_first_name, d.d_date
        FROM catalog_sales cs
        JOIN date_dim d ON d.d_date_sk = cs.cs_sold_date_sk
        JOIN customer c ON c.c_customer_sk = cs.cs_bill_customer_sk
        WHERE d.d_month_seq BETWEEN 1200 AND 1211
    )
    EXCEPT
    (
        SELECT DISTINCT c.c_last_name, c.c_first_name, d.d_date
        FROM web_sales ws
        JOIN date_dim d ON d.d_date_sk = ws.ws_sold_date_sk
        JOIN customer c ON c.c_customer_sk = ws.ws_bill_customer_sk
        WHERE d.d_month_seq BETWEEN 1200 AND 1211
    )
) AS store_only;
