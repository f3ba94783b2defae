-- What did customers spend in stores once the goods they returned for one given reason are taken
-- off?
SELECT
    ss_customer_sk,
    sum(act_sales) AS sumsales
FROM (
    SELECT
        ss.ss_item_sk,
        ss.ss_ticket_number,
        ss.ss_customer_sk,
        CASE
            WHEN sr.sr_return_quantity IS NOT NULL
                THEN (ss.ss_quantity - sr.sr_return_quantity) * ss.ss_sales_price
            ELSE ss.ss_quantity * ss.ss_sales_price
        END AS act_sales
    FROM store_sales ss
    LEFT JOIN store_returns sr
        ON sr.sr_item_sk = ss.ss_item_sk
        AND sr.sr_ticket_number = ss.ss_ticket_number
    JOIN reason r ON r.r_reason_sk = sr.sr_reason_sk
    WHERE r.r_reason_desc = 'reason 28'
) AS kept
GROUP BY ss_customer_sk
ORDER BY
    sumsales NULLS FIRST,
    ss_customer_sk NULLS FIRST
LIMIT 100;
