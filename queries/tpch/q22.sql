-- How many customers of seven countries have an account balance above average but no orders, and
-- how much do they hold?
SELECT
    cntrycode,
    count(*) AS numcust,
    sum(c_acctbal) AS totacctbal
FROM (
    SELECT
        SUBSTRING(c.c_phone FROM 1 FOR 2) AS cntrycode,
        c.c_acctbal
    FROM customer c
    WHERE SUBSTRING(c.c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17')
        AND c.c_acctbal > (
            SELECT avg(c2.c_acctbal)
            FROM customer c2
            WHERE c2.c_acctbal > 0
                AND SUBSTRING(c2.c_phone FROM 1 FOR 2)
                    IN ('13', '31', '23', '29', '30', '18', '17')
        )
        AND NOT EXISTS (
            SELECT 1
            FROM orders o
            WHERE o.o_custkey = c.c_custkey
        )
) AS custsale
GROUP BY cntrycode
ORDER BY cntrycode;
