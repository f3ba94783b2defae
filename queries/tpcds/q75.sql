-- For which kinds of books did the number of copies sold over all channels, net of returns, fall
-- below nine tenths of the year before, and how did the amount change?
WITH all_sales AS (
    SELECT
        d_year,
        i_brand_id,
        i_class_id,
        i_category_id,
        i_manufact_id,
        sum(sales_cnt) AS sales_cnt,
        sum(sales_amt) AS sales_amt
    FROM (
        SELECT
            d.d_year,
            i.i_brand_id,
            i.i_class_id,
            i.i_category_id,
            i.i_manufact_id,
            cs.cs_quantity - COALESCE(cr.cr_return_quantity, 0) AS sales_cnt,
            cs.cs_ext_sales_price - COALESCE(cr.cr_return_amount, 0) AS sales_amt
        FROM catalog_sales cs
        JOIN item i ON i.i_item_sk = cs.cs_item_sk
        JOIN date_dim d ON d.d_date_sk = cs.cs_sold_date_sk
        LEFT JOIN catalog_returns cr
            ON cr.cr_order_number = cs.cs_order_number
            AND cr.cr_item_sk = cs.cs_item_sk
        WHERE i.i_category = 'Books'
        UNION
        SELECT
            d.d_year,
            i.i_brand_id,
            i.i_class_id,
            i.i_category_id,
            i.i_manufact_id,
            ss.ss_quantity - COALESCE(sr.sr_return_quantity, 0) AS sales_cnt,
            ss.ss_ext_sales_price - COALESCE(sr.sr_return_amt, 0) AS sales_amt
        FROM store_sales ss
        JOIN item i ON i.i_item_sk = ss.ss_item_sk
        JOIN date_dim d ON d.d_date_sk = ss.ss_sold_date_sk
        LEFT JOIN store_returns sr
            ON sr.sr_ticket_number = ss.ss_ticket_number
            AND sr.sr_item_sk = ss.ss_item_sk
        WHERE i.i_category = 'Books'
        UNION
        SELECT
            d.d_year,
            i.i_brand_id,
            i.i_class_id,
            i.i_category_id,
            i.i_manufact_id,
            ws.ws_quantity - COALESCE(wr.wr_return_quantity, 0) AS sales_cnt,
            ws.ws_ext_sales_price - COALESCE(wr.wr_return_amt, 0) AS sales_amt
        FROM web_sales ws
        JOIN item i ON i.i_item_sk = ws.ws_item_sk
        JOIN date_dim d ON d.d_date_sk = ws.ws_sold_date_sk
        LEFT JOIN web_returns wr
            ON wr.wr_order_number = ws.ws_order_number
            AND wr.wr_item_sk = ws.ws_item_sk
        WHERE i.i_category = 'Books'
    ) AS sales_detail
    GROUP BY
        d_year,
        i_brand_id,
        i_class_id,
        i_category_id,
        i_manufact_id
)
SELECT
    prev.d_year AS prev_year,
    curr.d_year AS year_,
    curr.i_brand_id,
    curr.i_class_id,
    curr.i_category_id,
    curr.i_manufact_id,
    prev.sales_cnt AS prev_yr_cnt,
    curr.sales_cnt AS curr_yr_cnt,
    curr.sales_cnt - prev.sales_cnt AS sales_cnt_diff,
    curr.sales_amt - prev.sales_amt AS sales_amt_diff
FROM all_sales curr
JOIN all_sales prev
    ON prev.i_brand_id = curr.i_brand_id
    AND prev.i_class_id = curr.i_class_id
    AND prev.i_category_id = curr.i_category_id
    AND prev.i_manufact_id = curr.i_manufact_id
WHERE curr.d_year = 2002
    AND prev.d_year = 2001
    AND CAST(curr.sales_cnt AS DOUBLE) / CAST(prev.sales_cnt AS DOUBLE) < 0.9
ORDER BY
    sales_cnt_diff,
    sales_amt_diff
LIMIT 100;
