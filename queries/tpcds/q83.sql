-- For items returned in all three channels in the weeks of three given dates: how is the number
-- of returned units split between the channels?
WITH sr_items AS (
    SELECT
        i.i_item_id AS item_id,
        sum(sr.sr_return_quantity) AS sr_item_qty
    FROM store_returns sr
    JOIN item i ON i.i_item_sk = sr.sr_item_sk
    JOIN date_dim d ON d.d_date_sk = sr.sr_returned_date_sk
    WHERE d.d_date IN (
            SELECT d_date
            FROM date_dim
            WHERE d_week_seq IN (
                    SELECT d_week_seq
                    FROM date_dim
                    WHERE d_date IN (DATE '2000-06-30', DATE '2000-09-27', DATE '2000-11-17')
                )
        )
    GROUP BY i.i_item_id
),
cr_items AS (
    SELECT
        i.i_item_id AS item_id,
        sum(cr.cr_return_quantity) AS cr_item_qty
    FROM catalog_returns cr
    JOIN item i ON i.i_item_sk = cr.cr_item_sk
    JOIN date_dim d ON d.d_date_sk = cr.cr_returned_date_sk
    WHERE d.d_date IN (
            SELECT d_date
            FROM date_dim
            WHERE d_week_seq IN (
                    SELECT d_week_seq
                    FROM date_dim
                    WHERE d_date IN (DATE '2000-06-30', DATE '2000-09-27', DATE '2000-11-17')
                )
        )
    GROUP BY i.i_item_id
),
wr_items AS (
    SELECT
        i.i_item_id AS item_id,
        sum(wr.wr_return_quantity) AS wr_item_qty
    FROM web_returns wr
    JOIN item i ON i.i_item_sk = wr.wr_item_sk
    JOIN date_dim d ON d.d_date_sk = wr.wr_returned_date_sk
    WHERE d.d_date IN (
            SELECT d_date
            FROM date_dim
            WHERE d_week_seq IN (
                    SELECT d_week_seq
                    FROM date_dim
                    WHERE d_date IN (DATE '2000-06-30', DATE '2000-09-27', DATE '2000-11-17')
                )
        )
    GROUP BY i.i_item_id
)
SELECT
    sr.item_id,
    sr.sr_item_qty,
    CAST(sr.sr_item_qty AS DOUBLE)
        / CAST(sr.sr_item_qty + cr.cr_item_qty + wr.wr_item_qty AS DOUBLE)
        / CAST(3 AS DOUBLE) * 100 AS sr_dev,
    cr.cr_item_qty,
    CAST(cr.cr_item_qty AS DOUBLE)
        / CAST(sr.sr_item_qty + cr.cr_item_qty + wr.wr_item_qty AS DOUBLE)
        / CAST(3 AS DOUBLE) * 100 AS cr_dev,
    wr.wr_item_qty,
    CAST(wr.wr_item_qty AS DOUBLE)
        / CAST(sr.sr_item_qty + cr.cr_item_qty + wr.wr_item_qty AS DOUBLE)
        / CAST(3 AS DOUBLE) * 100 AS wr_dev,
    CAST(sr.sr_item_qty + cr.cr_item_qty + wr.wr_item_qty AS DOUBLE)
        / CAST(3 AS DOUBLE) AS average
FROM sr_items sr
JOIN cr_items cr ON cr.item_id = sr.item_id
JOIN wr_items wr ON wr.item_id = sr.item_id
ORDER BY
    sr.item_id NULLS FIRST,
    sr.sr_item_qty NULLS FIRST
LIMIT 100;
