-- What did the brands of manufacturer 128 take in the stores in the Novembers of every year?
SELECT
    d.d_year,
    i.i_brand_id AS brand_id,
    i.i_brand AS brand,
    sum(ss.ss_ext_sales_price) AS sum_agg
FROM date_dim d
JOIN store_sales ss ON d.d_date_sk = ss.ss_sold_date_sk
JOIN item i ON ss.ss_item_sk = i.i_item_sk
WHERE i.i_manufact_id = 128
    AND d.d_moy = 11
GROUP BY d.d_year, i.i_brand, i.i_brand_id
ORDER BY d.d_year, sum_agg DESC, brand_id
LIMIT 100;
