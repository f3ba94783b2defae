-- Items of six colours in a price band, returned in stores and rarely refunded in the catalog channel: customers whose
-- marital status has changed since the purchase, with each store's sales of 1999 beside those of 2000.
WITH rarely_refunded AS (
    SELECT
        cs.cs_item_sk,
        SUM(cs.cs_ext_list_price) AS sale,
        SUM(cr.cr_refunded_cash + cr.cr_reversed_charge + cr.cr_store_credit) AS refund
    FROM catalog_sales cs
    JOIN catalog_returns cr ON cs.cs_item_sk = cr.cr_item_sk AND cs.cs_order_number = cr.cr_order_number
    GROUP BY cs.cs_item_sk
    HAVING SUM(cs.cs_ext_list_price)
        > 2 * SUM(cr.cr_refunded_cash + cr.cr_reversed_charge + cr.cr_store_credit)
),
kept_sales AS (
    SELECT
        i.i_product_name AS product_name,
        i.i_item_sk AS item_sk,
        s.s_store_name AS store_name,
        s.s_zip AS store_zip,
        ad1.ca_street_number AS b_street_number,
        ad1.ca_street_name AS b_street_name,
        ad1.ca_city AS b_city,
        ad1.ca_zip AS b_zip,
        ad2.ca_street_number AS c_street_number,
        ad2.ca_street_name AS c_street_name,
        ad2.ca_city AS c_city,
        ad2.ca_zip AS c_zip,
        d1.d_year AS syear,
        d2.d_year AS fsyear,
        d3.d_year AS s2year,
        COUNT(*) AS cnt,
        SUM(ss.ss_wholesale_cost) AS s1,
        SUM(ss.ss_list_price) AS s2,
        SUM(ss.ss_coupon_amt) AS s3
    FROM store_sales ss
    JOIN store_returns sr ON ss.ss_item_sk = sr.sr_item_sk AND ss.ss_ticket_number = sr.sr_ticket_number
    JOIN rarely_refunded rr ON ss.ss_item_sk = rr.cs_item_sk
    JOIN date_dim d1 ON ss.ss_sold_date_sk = d1.d_date_sk
    CROSS JOIN date_dim d2
    CROSS JOIN date_dim d3
    JOIN store s ON ss.ss_store_sk = s.s_store_sk
    JOIN customer c
        ON ss.ss_customer_sk = c.c_customer_sk
        AND c.c_first_sales_date_sk = d2.d_date_sk
        AND c.c_first_shipto_date_sk = d3.d_date_sk
    JOIN customer_demographics cd1 ON ss.ss_cdemo_sk = cd1.cd_demo_sk
    JOIN customer_demographics cd2 ON c.c_current_cdemo_sk = cd2.cd_demo_sk
    JOIN promotion p ON ss.ss_promo_sk = p.p_promo_sk
    JOIN household_demographics hd1 ON ss.ss_hdemo_sk = hd1.hd_demo_sk
    JOIN household_demographics hd2 ON c.c_current_hdemo_sk = hd2.hd_demo_sk
    JOIN customer_address ad1 ON ss.ss_addr_sk = ad1.ca_address_sk
    JOIN customer_address ad2 ON c.c_current_addr_sk = ad2.ca_address_sk
    JOIN income_band ib1 ON hd1.hd_income_band_sk = ib1.ib_income_band_sk
    JOIN income_band ib2 ON hd2.hd_income_band_sk = ib2.ib_income_band_sk
    JOIN item i ON ss.ss_item_sk = i.i_item_sk
    WHERE cd1.cd_marital_status <> cd2.cd_marital_status
        AND i.i_color IN ('purple', 'burlywood', 'indian', 'spring', 'floral', 'medium')
        AND i.i_current_price BETWEEN 64 AND 74
        AND i.i_current_price BETWEEN 65 AND 79
    GROUP BY
        i.i_product_name,
        i.i_item_sk,
        s.s_store_name,
        s.s_zip,
        ad1.ca_street_number,
        ad1.ca_street_name,
        ad1.ca_city,
        ad1.ca_zip,
        ad2.ca_street_number,
        ad2.ca_street_name,
        ad2.ca_city,
        ad2.ca_zip,
        d1.d_year,
        d2.d_year,
        d3.d_year
)
SELECT
    y1.product_name,
    y1.store_name,
    y1.store_zip,
    y1.b_street_number,
    y1.b_street_name,
    y1.b_city,
    y1.b_zip,
    y1.c_street_number,
    y1.c_street_name,
    y1.c_city,
    y1.c_zip,
    y1.syear AS cs1syear,
    y1.cnt AS cs1cnt,
    y1.s1 AS s11,
    y1.s2 AS s21,
    y1.s3 AS s31,
    y2.s1 AS s12,
    y2.s2 AS s22,
    y2.s3 AS s32,
    y2.syear,
    y2.cnt
FROM kept_sales y1
JOIN kept_sales y2
    ON y1.item_sk = y2.item_sk
    AND y1.store_name = y2.store_name
    AND y1.store_zip = y2.store_zip
WHERE y1.syear = 1999
    AND y2.syear = 2000
    AND y2.cnt <= y1.cnt
ORDER BY
    y1.product_name,
    y1.store_name,
    y2.cnt,
    y1.s1,
    y2.s1;
