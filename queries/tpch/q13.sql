-- How many customers have how many orders, not counting orders with a special request?
SELECT
    c_count,
    count(*) AS custdist
FROM (
    SELECT
        c.c_custkey,
        count(o.o_orderkey) AS c_count
    FROM customer c
    LEFT JOIN orders o
        ON o.o_custkey = c.c_custkey
        AND o.o_comment NOT LIKE '%special%requests%'
    GROUP BY c.c_custkey
) AS c_orders
GROUP BY c_count
ORDER BY
    custdist DESC,
    c_count DESC;
