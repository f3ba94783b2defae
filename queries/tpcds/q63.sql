-- Managers whose store sales of selected product lines in some month of a twelve-month window
-- were more than 10 % off their own monthly average.
WITH monthly AS (
    SELECT
        i.i_manager_id,
        SUM(ss.ss_sales_price) AS sum_sales,
        AVG(SUM(ss.ss_sales_price)) OVER (PARTITION BY i.i_manager_id) AS avg_monthly_sales
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
    GROUP BY i.i_manager_id, d.d_moy
)
SELECT i_manager_id, sum_sales, avg_monthly_sales
FROM monthly
WHERE CASE
        WHEN avg_monthly_sales > 0 THEN ABS(sum_sales - avg_monthly_sales) / avg_monthly_sales
    END > 0.1
ORDER BY i_manager_id, avg_monthly_sales, sum_sales
LIMIT 100;
