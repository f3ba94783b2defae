-- How long do catalog orders wait until they are shipped, in steps of thirty days, by warehouse,
-- kind of shipment and call center?
SELECT
    SUBSTRING(w.w_warehouse_name, 1, 20) AS w_substr,
    sm.sm_type,
    lower(cc.cc_name) AS cc_name_lower,
    sum(
        CASE WHEN cs.cs_ship_date_sk - cs.cs_sold_date_sk <= 30 THEN 1 ELSE 0 END
    ) AS "30 days",
    sum(
        CASE
            WHEN cs.cs_ship_date_sk - cs.cs_sold_date_sk > 30
                AND cs.cs_ship_date_sk - cs.cs_sold_date_sk <= 60 THEN 1
            ELSE 0
        END
    ) AS "31-60 days",
    sum(
        CASE
            WHEN cs.cs_ship_date_sk - cs.cs_sold_date_sk > 60
                AND cs.cs_ship_date_sk - cs.cs_sold_date_sk <= 90 THEN 1
            ELSE 0
        END
    ) AS "61-90 days",
    sum(
        CASE
            WHEN cs.cs_ship_date_sk - cs.cs_sold_date_sk > 90
                AND cs.cs_ship_date_sk - cs.cs_sold_date_sk <= 120 THEN 1
            ELSE 0
        END
    ) AS "91-120 days",
    sum(
        CASE WHEN cs.cs_ship_date_sk - cs.cs_sold_date_sk > 120 THEN 1 ELSE 0 END
    ) AS ">120 days"
FROM catalog_sales cs
JOIN warehouse w ON w.w_warehouse_sk = cs.cs_warehouse_sk
JOIN ship_mode sm ON sm.sm_ship_mode_sk = cs.cs_ship_mode_sk
JOIN call_center cc ON cc.cc_call_center_sk = cs.cs_call_center_sk
JOIN date_dim d ON d.d_date_sk = cs.cs_ship_date_sk
WHERE d.d_month_seq BETWEEN 1200 AND 1211
GROUP BY
    SUBSTRING(w.w_warehouse_name, 1, 20),
    sm.sm_type,
    cc.cc_name
ORDER BY
    w_substr NULLS FIRST,
    sm.sm_type NULLS FIRST,
    cc_name_lower NULLS FIRST
LIMIT 100;
