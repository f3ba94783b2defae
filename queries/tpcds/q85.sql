-- By reason of return: average quantity, refund and fee of the web sales of one year whose
-- refunded and returning customer agree in marital status and education, for given
-- combinations of these with the price, and of home state with the profit.
SELECT
    SUBSTRING(r.r_reason_desc, 1, 20),
    avg(ws.ws_quantity) AS avg1,
    avg(wr.wr_refunded_cash) AS avg2,
    avg(wr.wr_fee)
FROM web_sales ws
JOIN web_returns wr
    ON wr.wr_item_sk = ws.ws_item_sk
    AND wr.wr_order_number = ws.ws_order_number
JOIN web_page wp ON wp.wp_web_page_sk = ws.ws_web_page_sk
JOIN customer_demographics cd1 ON cd1.cd_demo_sk = wr.wr_refunded_cdemo_sk
JOIN customer_demographics cd2 ON cd2.cd_demo_sk = wr.wr_returning_cdemo_sk
JOIN customer_address ca ON ca.ca_address_sk = wr.wr_refunded_addr_sk
JOIN date_dim d ON d.d_date_sk = ws.ws_sold_date_sk
JOIN reason r ON r.r_reason_sk = wr.wr_reason_sk
WHERE d.d_year = 2000
    AND cd1.cd_marital_status = cd2.cd_marital_status
    AND cd1.cd_education_status = cd2.cd_education_status
    AND (
        (
            cd1.cd_marital_status = 'M'
            AND cd1.cd_education_status = 'Advanced Degree'
            AND ws.ws_sales_price BETWEEN 100 AND 150
        )
        OR (
            cd1.cd_marital_status = 'S'
            AND cd1.cd_education_status = 'College'
            AND ws.ws_sales_price BETWEEN 50 AND 100
        )
        OR (
            cd1.cd_marital_status = 'W'
            AND cd1.cd_education_status = '2 yr Degree'
            AND ws.ws_sales_price BETWEEN 150 AND 200
        )
    )
    AND ca.ca_country = 'United States'
    AND (
        (ca.ca_state IN ('IN', 'OH', 'NJ') AND ws.ws_net_profit BETWEEN 100 AND 200)
        OR (ca.ca_state IN ('WI', 'CT', 'KY') AND ws.ws_net_profit BETWEEN 150 AND 300)
        OR (ca.ca_state IN ('LA', 'IA', 'AR') AND ws.ws_net_profit BETWEEN 50 AND 250)
    )
GROUP BY r.r_reason_desc
ORDER BY
    SUBSTRING(r.r_reason_desc, 1, 20),
    avg(ws.ws_quantity),
    avg(wr.wr_refunded_cash),
    avg(wr.wr_fee)
LIMIT 100;
