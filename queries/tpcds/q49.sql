-- Items with the worst return ratios in December 2001 in each channel: the ten highest-ranked by returned quantity
-- or by returned money, counting only lines with a large refund that had been sold at a profit.
WITH web_ratios AS (
    SELECT
        ws.ws_item_sk AS item,
        CAST(SUM(COALESCE(wr.wr_return_quantity, 0)) AS DOUBLE)
            / CAST(SUM(COALESCE(ws.ws_quantity, 0)) AS DOUBLE) AS return_ratio,
        CAST(SUM(COALESCE(wr.wr_return_amt, 0)) AS DOUBLE)
            / CAST(SUM(COALESCE(ws.ws_net_paid, 0)) AS DOUBLE) AS currency_ratio
    FROM web_sales ws
    LEFT JOIN web_returns wr
        ON ws.ws_order_number = wr.wr_order_number AND ws.ws_item_sk = wr.wr_item_sk
    JOIN date_dim d ON ws.ws_sold_date_sk = d.d_date_sk
    WHERE wr.wr_return_amt > 10000
        AND ws.ws_net_profit > 1
        AND ws.ws_net_paid > 0
        AND ws.ws_quantity > 0
        AND d.d_year = 2001
        AND d.d_moy = 12
    GROUP BY ws.ws_item_sk
),
web_ranks AS (
    SELECT
        item,
        return_ratio,
        RANK() OVER (ORDER BY return_ratio) AS return_rank,
        RANK() OVER (ORDER BY currency_ratio) AS currency_rank
    FROM web_ratios
),
catalog_ratios AS (
    SELECT
        cs.cs_item_sk AS item,
        CAST(SUM(COALESCE(cr.cr_return_quantity, 0)) AS DOUBLE)
            / CAST(SUM(COALESCE(cs.cs_quantity, 0)) AS DOUBLE) AS return_ratio,
        CAST(SUM(COALESCE(cr.cr_return_amount, 0)) AS DOUBLE)
            / CAST(SUM(COALESCE(cs.cs_net_paid, 0)) AS DOUBLE) AS currency_ratio
    FROM catalog_sales cs
    LEFT JOIN catalog_returns cr
        ON cs.cs_order_number = cr.cr_order_number AND cs.cs_item_sk = cr.cr_item_sk
    JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
    WHERE cr.cr_return_amount > 10000
        AND cs.cs_net_profit > 1
        AND cs.cs_net_paid > 0
        AND cs.cs_quantity > 0
        AND d.d_year = 2001
        AND d.d_moy = 12
    GROUP BY cs.cs_item_sk
),
catalog_ranks AS (
    SELECT
        item,
        return_ratio,
        RANK() OVER (ORDER BY return_ratio) AS return_rank,
        RANK() OVER (ORDER BY currency_ratio) AS currency_rank
    FROM catalog_ratios
),
store_ratios AS (
    SELECT
        ss.ss_item_sk AS item,
        CAST(SUM(COALESCE(sr.sr_return_quantity, 0)) AS DOUBLE)
            / CAST(SUM(COALESCE(ss.ss_quantity, 0)) AS DOUBLE) AS return_ratio,
        CAST(SUM(COALESCE(sr.sr_return_amt, 0)) AS DOUBLE)
            / CAST(SUM(COALESCE(ss.ss_net_paid, 0)) AS DOUBLE) AS currency_ratio
    FROM store_sales ss
    LEFT JOIN store_returns sr
        ON ss.ss_ticket_number = sr.sr_ticket_number AND ss.ss_item_sk = sr.sr_item_sk
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    WHERE sr.sr_return_amt > 10000
        AND ss.ss_net_profit > 1
        AND ss.ss_net_paid > 0
        AND ss.ss_quantity > 0
        AND d.d_year = 2001
        AND d.d_moy = 12
    GROUP BY ss.ss_item_sk
),
store_ranks AS (
    SELECT
        item,
        return_ratio,
        RANK() OVER (ORDER BY return_ratio) AS return_rank,
        RANK() OVER (ORDER BY currency_ratio) AS currency_rank
    FROM store_ratios
)
SELECT channel, item, return_ratio, return_rank, currency_rank
FROM (
    SELECT 'web' AS channel, item, return_ratio, return_rank, currency_rank
    FROM web_ranks
    WHERE return_rank <= 10 OR currency_rank <= 10
    UNION
    SELECT 'catalog' AS channel, item, return_ratio, return_rank, currency_rank
    FROM catalog_ranks
    WHERE return_rank <= 10 OR currency_rank <= 10
    UNION
    SELECT 'store' AS channel, item, return_ratio, return_rank, currency_rank
    FROM store_ranks
    WHERE return_rank <= 10 OR currency_rank <= 10
) worst
ORDER BY
    channel NULLS FIRST,
    return_rank NULLS FIRST,
    currency_rank NULLS FIRST,
    item NULLS FIRST
LIMIT 100;
