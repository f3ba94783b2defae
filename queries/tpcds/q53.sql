-- Manufacturers whose store sales of selected product lines in some quarter of a twelve-month window
-- were more than 10 % off their own quarterly average.
WITH quarterly AS (
    SELECT
        i.i_manufact_id,
        SUM(ss.ss_sales_price) AS sum_sales,
        AVG(SUM(ss.ss_sales_price)) OVER (PARTITION BY i.i_manufact_id) AS avg_quarterly_sales
    FROM item i
    JOIN store_sales ss ON ss.ss_item_sk = i.i_item_sk
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    JOIN store s ON ss.ss_store_sk = s.s_store_sk
    WHERE d.d_month_seq IN (1200, 1201, 1202, 1203, 1204, 1205, 1206, 1207, 1208, 1209, 1210, 1211)
        AND (
            (
                i.i_category IN ('Books', 'Children', 'Electronics')
                AND i.i_class IN ('personal', 'portable', 'reference', 'self-help')
                AND i.i_brand IN (
                    'scholaramalgamalg #14',
                    'scholaramalgamalg #7',
                    'exportiunivamalg #9',
                    'scholaramalgamalg #9'
                )
            )
            OR (
                i.i_category IN ('Women', 'Music', 'Men')
                AND i.i_class IN ('accessories', 'classical', 'fragrances', 'pants')
                AND i.i_brand IN (
                    'amalgimporto #1',
                    'edu packscholar #1',
                    'exportiimporto #1',
                    'importoamalg #1'
                )
            )
        )
    GROUP BY i.i_manufact_id, d.d_qoy
)
SELECT i_manufact_id, sum_sales, avg_quarterly_sales
FROM quarterly
WHERE CASE
        WHEN avg_quarterly_sales > 0 THEN ABS(sum_sales - avg_quarterly_sales) / avg_quarterly_sales
    END > 0.1
ORDER BY avg_quarterly_sales, sum_sales, i_manufact_id
LIMIT 100;
