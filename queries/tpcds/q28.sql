-- Six bands of quantity sold in the stores, each narrowed by list price, coupon or cost: average
-- list price, number of list prices, number of different list prices, all side by side in one row.
SELECT *
FROM (
    SELECT
        avg(ss_list_price) AS "B1_LP",
        count(ss_list_price) AS "B1_CNT",
        count(DISTINCT ss_list_price) AS "B1_CNTD"
    FROM store_sales
    WHERE ss_quantity BETWEEN 0 AND 5
        AND (
            ss_list_price BETWEEN 8 AND 18
            OR ss_coupon_amt BETWEEN 459 AND 1459
            OR ss_wholesale_cost BETWEEN 57 AND 77
        )
) b1, (
    SELECT
        avg(ss_list_price) AS "B2_LP",
        count(ss_list_price) AS "B2_CNT",
        count(DISTINCT ss_list_price) AS "B2_CNTD"
    FROM store_sales
    WHERE ss_quantity BETWEEN 6 AND 10
        AND (
            ss_list_price BETWEEN 90 AND 100
            OR ss_coupon_amt BETWEEN 2323 AND 3323
            OR ss_wholesale_cost BETWEEN 31 AND 51
        )
) b2, (
    SELECT
        avg(ss_list_price) AS "B3_LP",
        count(ss_list_price) AS "B3_CNT",
        count(DISTINCT ss_list_price) AS "B3_CNTD"
    FROM store_sales
    WHERE ss_quantity BETWEEN 11 AND 15
        AND (
            ss_list_price BETWEEN 142 AND 152
            OR ss_coupon_amt BETWEEN 12214 AND 13214
            OR ss_wholesale_cost BETWEEN 79 AND 99
        )
) b3, (
    SELECT
        avg(ss_list_price) AS "B4_LP",
        count(ss_list_price) AS "B4_CNT",
        count(DISTINCT ss_list_price) AS "B4_CNTD"
    FROM store_sales
    WHERE ss_quantity BETWEEN 16 AND 20
        AND (
            ss_list_price BETWEEN 135 AND 145
            OR ss_coupon_amt BETWEEN 6071 AND 7071
            OR ss_wholesale_cost BETWEEN 38 AND 58
        )
) b4, (
    SELECT
        avg(ss_list_price) AS "B5_LP",
        count(ss_list_price) AS "B5_CNT",
        count(DISTINCT ss_list_price) AS "B5_CNTD"
    FROM store_sales
    WHERE ss_quantity BETWEEN 21 AND 25
        AND (
            ss_list_price BETWEEN 122 AND 132
            OR ss_coupon_amt BETWEEN 836 AND 1836
            OR ss_wholesale_cost BETWEEN 17 AND 37
        )
) b5, (
    SELECT
        avg(ss_list_price) AS "B6_LP",
        count(ss_list_price) AS "B6_CNT",
        count(DISTINCT ss_list_price) AS "B6_CNTD"
    FROM store_sales
    WHERE ss_quantity BETWEEN 26 AND 30
        AND (
            ss_list_price BETWEEN 154 AND 164
            OR ss_coupon_amt BETWEEN 7326 AND 8326
            OR ss_wholesale_cost BETWEEN 7 AND 27
        )
) b6
LIMIT 100;
