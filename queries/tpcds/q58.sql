-- Items that sold about equally well (within 10 %) in the store, catalog and web channels
-- in the week of 3 January 2000, and how far each channel is from the average.
WITH store_week AS (
    SELECT
        i.i_item_id AS item_id,
        SUM(ss.ss_ext_sales_price) AS ss_item_rev
    FROM store_sales ss
    JOIN item i ON ss.ss_item_sk = i.i_item_sk
    JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk
    WHERE d.d_date IN (
            SELECT week.d_date
            FROM date_dim week
            WHERE week.d_week_seq = (
                SELECT day.d_week_seq
                FROM date_dim day
                WHERE day.d_date = DATE '2000-01-03'
            )
        )
    GROUP BY i.i_item_id
),
catalog_week AS (
    SELECT
        i.i_item_id AS item_id,
        SUM(cs.cs_ext_sales_price) AS cs_item_rev
    FROM catalog_sales cs
    JOIN item i ON cs.cs_item_sk = i.i_item_sk
    JOIN date_dim d ON cs.cs_sold_date_sk = d.d_date_sk
    WHERE d.d_date IN (
            SELECT week.d_date
            FROM date_dim week
            WHERE week.d_week_seq = (
                SELECT day.d_week_seq
                FROM date_dim day
                WHERE day.d_date = DATE '2000-01-03'
            )
        )
    GROUP BY i.i_item_id
),
web_week AS (
    SELECT
        i.i_item_id AS item_id,
        SUM(ws.ws_ext_sales_price) AS ws_item_rev
    FROM web_sales ws
    JOIN item i ON ws.ws_item_sk = i.i_item_sk
    JOIN date_dim d ON ws.ws_sold_date_sk = d.d_date_sk
    WHERE d.d_date IN (
            SELECT week.d_date
            FROM date_dim week
            WHERE week.d_week_seq = (
                SELECT day.d_week_seq
                FROM date_dim day
                WHERE day.d_date = DATE '2000-01-03'
            )
        )
    GROUP BY i.i_item_id
)
SELECT
    s.item_id,
    s.ss_item_rev,
    CAST(s.ss_item_rev AS DOUBLE) / (CAST(s.ss_item_rev + c.cs_item_rev + w.ws_item_rev AS DOUBLE) / 3) * 100 AS ss_dev,
    c.cs_item_rev,
    CAST(c.cs_item_rev AS DOUBLE) / (CAST(s.ss_item_rev + c.cs_item_rev + w.ws_item_rev AS DOUBLE) / 3) * 100 AS cs_dev,
    w.ws_item_rev,
    CAST(w.ws_item_rev AS DOUBLE) / (CAST(s.ss_item_rev + c.cs_item_rev + w.ws_item_rev AS DOUBLE) / 3) * 100 AS ws_dev,
    CAST(s.ss_item_rev + c.cs_item_rev + w.ws_item_rev AS DOUBLE) / 3 AS average
FROM store_week s
JOIN catalog_week c ON s.item_id = c.item_id
JOIN web_week w ON s.item_id = w.item_id
WHERE s.ss_item_rev BETWEEN 0.9 * c.cs_item_rev AND 1.1 * c.cs_item_rev
    AND s.ss_item_rev BETWEEN 0.9 * w.ws_item_rev AND 1.1 * w.ws_item_rev
    AND c.cs_item_rev BETWEEN 0.9 * s.ss_item_rev AND 1.1 * s.ss_item_rev
    AND c.cs_item_rev BETWEEN 0.9 * w.ws_item_rev AND 1.1 * w.ws_item_rev
    AND w.ws_item_rev BETWEEN 0.9 * s.ss_item_rev AND 1.1 * s.ss_item_rev
    AND w.ws_item_rev BETWEEN 0.9 * c.cs_item_rev AND 1.1 * c.cs_item_rev
ORDER BY s.item_id NULLS FIRST, s.ss_item_rev NULLS FIRST
LIMIT 100;
