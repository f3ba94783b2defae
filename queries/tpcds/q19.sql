-- Which brands of manager 8 took most in November 1998 from customers who live in another postcode
-- than the store's?
SELECT
    i.i_brand_id AS brand_id,
    i.i_brand AS brand,
    i.i_manufact_id,
    i.i_manufact,
    sum(ss.ss_ext_sales_price) AS ext_price
FROM date_dim d
JOIN store_sales ss ON d.d_date_sk = ss.ss_sold_date_sk
JOIN item i ON ss.ss_item_sk = i.i_item_sk
JOIN customer c ON ss.ss_customer_sk = c.c_customer_sk
JOIN customer_address ca ON c.c_current_addr_sk = ca.ca_address_sk
JOIN store s ON ss.ss_store_sk = s.s_store_sk
WHERE i.i_manager_id = 8
    AND d.d_moy = 11
    AND d.d_year = 1998
    AND substring(ca.ca_zip, 1, 5) <> substring(s.s_zip, 1, 5)
GROUP BY i.i_brand, i.i_brand_id, i.i_manufact_id, i.i_manufact
ORDER BY ext_price DESC, i.i_brand, i.i_brand_id, i.i_manufact_id, i.i_manufact
LIMIT 100;
