-- On which days of a twelve-month window had the running web sales of an item overtaken
-- its running store sales?
WITH web_running AS (
    SELECT
        ws.ws_item_sk AS item_sk,
        d.d_date,
        SUM(SUM(ws.ws_sales_price)) OVER (
            PARTITION BY ws.ws_item_sk
            ORDER BY d.d_date
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS cume_sales
    FROM web_sales ws
    JOIN date_dim d ON ws.ws_sold_date_sk = d.d_date_sk
    WHERE d.d_month_seq BETWEEN 1200 AND 1211
        AND ws.ws_item_sk IS NOT NULL
    GROUP BY ws.ws_item_sk, d.d_date
),
store_running AS (
    SELECT
        ss.ss_item_sk AS item_sk,
        d.d_date,
        SUM(SUM(ss.ss_sales_price)) OVER (
            PARTITION BY ss.ss_item_sk
            ORDER BY d.d_date
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS cume_sales
    FROM store_sales ss
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    WHERE d.d_month_seq BETWEEN 1200 AND 1211
        AND ss.ss_item_sk IS NOT NULL
    GROUP BY ss.ss_item_sk, d.d_date
),
side_by_side AS (
    SELECT
        COALESCE(w.item_sk, s.item_sk) AS item_sk,
        COALESCE(w.d_date, s.d_date) AS d_date,
        w.cume_sales AS web_sales,
        s.cume_sales AS store_sales
    FROM web_running w
    FULL JOIN store_running s ON w.item_sk = s.item_sk AND w.d_date = s.d_date
),
carried AS (
    SELECT
        item_sk,
        d_date,
        web_sales,
        store_sales,
        MAX(web_sales) OVER (
            PARTITION BY item_sk
            ORDER BY d_date
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS web_cumulative,
        MAX(store_sales) OVER (
            PARTITION BY item_sk
            ORDER BY d_date
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS store_cumulative
    FROM side_by_side
)
SELECT item_sk, d_date, web_sales, store_sales, web_cumulative, store_cumulative
FROM carried
WHERE web_cumulative > store_cumulative
ORDER BY item_sk NULLS FIRST, d_date NULLS FIRST
LIMIT 100;
