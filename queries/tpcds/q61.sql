-- Which share of the jewelry revenue of November 1998, in stores and to buyers of one time zone,
-- came with a promotion by mail, e-mail or television?
SELECT
    promotions,
    total,
    CAST(promotions AS DECIMAL(15, 4)) / CAST(total AS DECIMAL(15, 4)) * 100
FROM (
    SELECT SUM(ss.ss_ext_sales_price) AS promotions
    FROM store_sales ss
    JOIN store s ON ss.ss_store_sk = s.s_store_sk
    JOIN promotion p ON ss.ss_promo_sk = p.p_promo_sk
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    JOIN customer c ON ss.ss_customer_sk = c.c_customer_sk
    JOIN customer_address ca ON c.c_current_addr_sk = ca.ca_address_sk
    JOIN item i ON ss.ss_item_sk = i.i_item_sk
    WHERE ca.ca_gmt_offset = -5
        AND s.s_gmt_offset = -5
        AND i.i_category = 'Jewelry'
        AND (p.p_channel_dmail = 'Y' OR p.p_channel_email = 'Y' OR p.p_channel_tv = 'Y')
        AND d.d_year = 1998
        AND d.d_moy = 11
) promotional_sales
CROSS JOIN (
    SELECT SUM(ss.ss_ext_sales_price) AS total
    FROM store_sales ss
    JOIN store s ON ss.ss_store_sk = s.s_store_sk
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    JOIN customer c ON ss.ss_customer_sk = c.c_customer_sk
    JOIN customer_address ca ON c.c_current_addr_sk = ca.ca_address_sk
    JOIN item i ON ss.ss_item_sk = i.i_item_sk
    WHERE ca.ca_gmt_offset = -5
        AND s.s_gmt_offset = -5
        AND i.i_category = 'Jewelry'
        AND d.d_year = 1998
        AND d.d_moy = 11
) all_sales
ORDER BY promotions, total
LIMIT 100;
