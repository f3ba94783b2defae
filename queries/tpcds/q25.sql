-- Items bought in a store in April 2001, returned there and bought again from the catalog by the
-- same customer by October: store profit, loss by the return and catalog profit, by item and store.
SELECT
    i.i_item_id,
    i.i_item_desc,
    s.s_store_id,
    s.s_store_name,
    sum(ss.ss_net_profit) AS store_sales_profit,
    sum(sr.sr_net_loss) AS store_returns_loss,
    sum(cs.cs_net_profit) AS catalog_sales_profit
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
WHERE bought.d_moy = 4
    AND bought.d_year = 2001
    AND returned.d_moy BETWEEN 4 AND 10
    AND returned.d_year = 2001
    AND ordered.d_moy BETWEEN 4 AND 10
    AND ordered.d_year = 2001
GROUP BY i.i_item_id, i.i_item_desc, s.s_store_id, s.s_store_name
ORDER BY i.i_item_id, i.i_item_desc, s.s_store_id, s.s_store_name
LIMIT 100;
