-- Items bought in a store in September 1999, returned there by December and bought from the catalog
-- by the same customer in 1999 to 2001: the quantities of each, by item and store.
SELECT
    i.i_item_id,
    i.i_item_desc,
    s.s_store_id,
    s.s_store_name,
    sum(ss.ss_quantity) AS store_sales_quantity,
    sum(sr.sr_return_quantity) AS store_returns_quantity,
    sum(cs.cs_quantity) AS catalog_sales_quantity
FROM store_sales ss
JOIN store_returns sr
    ON ss.ss_customer_sk = sr.sr_customer_sk
    AND ss.ss_item_sk = sr.sr_item_sk
    AND ss.ss_ticket_number = sr.sr_ticket_number
JOIN catalog_sales cs
    ON sr.sr_customer_sk = cs.cs_bill_customer_sk
    AND sr.sr_item_sk = cs.cs_item_sk
JOIN date_dim bought ON bought.d_date_sk = ss.ss_sold_date_sk
JOIN date_dim returned ON returned.d_date_sk = sr.sr_returned_date_sk
JOIN date_dim ordered ON ordered.d_date_sk = cs.cs_sold_date_sk
JOIN store s ON s.s_store_sk = ss.ss_store_sk
JOIN item i ON i.i_item_sk = ss.ss_item_sk
WHERE bought.d_moy = 9
    AND bought.d_year = 1999
    AND returned.d_moy BETWEEN 9 AND 12
    AND returned.d_year = 1999
    AND ordered.d_year IN (1999, 2000, 2001)
GROUP BY i.i_item_id, i.i_item_desc, s.s_store_id, s.s_store_name
ORDER BY i.i_item_id, i.i_item_desc, s.s_store_id, s.s_store_name
LIMIT 100;
