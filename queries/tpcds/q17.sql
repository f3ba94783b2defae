-- Items bought in a store in the first quarter of 2001, returned there and bought again from the
-- catalog by the same customer by September: count, mean, deviation and variation of the quantities.
SELECT
    i.i_item_id,
    i.i_item_desc,
    s.s_state,
    count(ss.ss_quantity) AS store_sales_quantitycount,
    avg(ss.ss_quantity) AS store_sales_quantityave,
    stddev_samp(ss.ss_quantity) AS store_sales_quantitystdev,
    stddev_samp(ss.ss_quantity) / avg(ss.ss_quantity) AS store_sales_quantitycov,
    count(sr.sr_return_quantity) AS store_returns_quantitycount,
    avg(sr.sr_return_quantity) AS store_returns_quantityave,
    stddev_samp(sr.sr_return_quantity) AS store_returns_quantitystdev,
    stddev_samp(sr.sr_return_quantity) / avg(sr.sr_return_quantity) AS store_returns_quantitycov,
    count(cs.cs_quantity) AS catalog_sales_quantitycount,
    avg(cs.cs_quantity) AS catalog_sales_quantityave,
    stddev_samp(cs.cs_quantity) AS catalog_sales_quantitystdev,
    stddev_samp(cs.cs_quantity) / avg(cs.cs_quantity) AS catalog_sales_quantitycov
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
WHERE bought.d_quarter_name = '2001Q1'
    AND returned.d_quarter_name IN ('2001Q1', '2001Q2', '2001Q3')
    AND ordered.d_quarter_name IN ('2001Q1', '2001Q2', '2001Q3')
GROUP BY i.i_item_id, i.i_item_desc, s.s_state
ORDER BY i.i_item_id NULLS FIRST, i.i_item_desc NULLS FIRST, s.s_state NULLS FIRST
LIMIT 100;
