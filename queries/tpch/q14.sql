-- Which percentage of one month's revenue came from promoted parts?
SELECT
    100 * CAST(
        sum(
            CASE
                WHEN p.p_type LIKE 'PROMO%' THEN l.l_extendedprice * (1 - l.l_discount)
                ELSE 0
            END
        ) AS DOUBLE
    ) / CAST(sum(l.l_extendedprice * (1 - l.l_discount)) AS DOUBLE) AS promo_revenue
FROM lineitem l
JOIN part p ON p.p_partkey = l.l_partkey
WHERE l.l_shipdate >= DATE '1995-09-01'
    AND l.l_shipdate < DATE '1995-09-01' + INTERVAL '1' MONTH;
