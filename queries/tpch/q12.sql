-- Do cheaper ship modes delay urgent orders? Line items of one year received too late though
-- shipped in time, by ship mode and urgency.
SELECT
    l.l_shipmode,
    sum(
        CASE
            WHEN o.o_orderpriority = '1-URGENT' OR o.o_orderpriority = '2-HIGH' THEN 1
            ELSE 0
        END
    ) AS high_line_count,
    sum(
        CASE
            WHEN o.o_orderpriority <> '1-URGENT' AND o.o_orderpriority <> '2-HIGH' THEN 1
            ELSE 0
        END
    ) AS low_line_count
FROM orders o
JOIN lineitem l ON l.l_orderkey = o.o_orderkey
WHERE l.l_shipmode IN ('MAIL', 'SHIP')
    AND l.l_commitdate < l.l_receiptdate
    AND l.l_shipdate < l.l_commitdate
    AND l.l_receiptdate >= DATE '1994-01-01'
    AND l.l_receiptdate < DATE '1994-01-01' + INTERVAL '1' YEAR
GROUP BY l.l_shipmode
ORDER BY l.l_shipmode;
