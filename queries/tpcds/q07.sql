-- For each item bought in a store in 2000 by single men with a college education, under a
-- promotion without e-mail or without an event: mean quantity, list price, coupon and price paid.
SELECT
    i.i_item_id,
    avg(ss.ss_quantity) AS agg1,
    avg(ss.ss_list_price) AS agg2,
    avg(ss.ss_coupon_amt) AS agg3,
    avg(ss.ss_sales_price) AS agg4
FROM store_sales ss
JOIN customer_demographics cd ON ss.ss_cdemo_sk = cd.cd_demo_sk
JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
JOIN item i ON ss.ss_item_sk = i.i_item_sk
JOIN promotion p ON ss.ss_promo_sk = p.p_promo_sk
WHERE cd.cd_gender = 'M'
    AND cd.cd_marital_status = 'S'
    AND cd.cd_education_status = 'College'
    AND (p.p_channel_email = 'N' OR p.p_channel_event = 'N')
    AND d.d_year = 2000
GROUP BY i.i_item_id
ORDER BY i.i_item_id
LIMIT 100;
