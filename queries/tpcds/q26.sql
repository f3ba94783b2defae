-- For each item ordered from the catalog in 2000 by single men with a college education, under a
-- promotion without e-mail or without an event: mean quantity, list price, coupon and price paid.
SELECT
    i.i_item_id,
    avg(cs.cs_quantity) AS agg1,
    avg(cs.cs_list_price) AS agg2,
    avg(cs.cs_coupon_amt) AS agg3,
    avg(cs.cs_sales_price) AS agg4
FROM catalog_sales cs
JOIN customer_demographics cd ON cs.cs_bill_cdemo_sk = cd.cd_demo_sk
JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
JOIN item i ON cs.cs_item_sk = i.i_item_sk
JOIN promotion p ON cs.cs_promo_sk = p.p_promo_sk
WHERE cd.cd_gender = 'M'
    AND cd.cd_marital_status = 'S'
    AND cd.cd_education_status = 'College'
    AND (p.p_channel_email = 'N' OR p.p_channel_event = 'N')
    AND d.d_year = 2000
GROUP BY i.i_item_id
ORDER BY i.i_item_id
LIMIT 100;
