-- How long do web orders wait for shipment, by warehouse, way of shipping and web site:
-- counts in bands of thirty days, for shipments of one twelve-month window.
SELECT
    SUBSTRING(w.w_warehouse_name, 1, 20) AS w_substr,
    sm.sm_type,
    site.web_name,
    SUM(CASE WHEN ws.ws_ship_date_sk - ws.ws_sold_date_sk <= 30 THEN 1 ELSE 0 END) AS "30 days",
    SUM(
        CASE
            WHEN ws.ws_ship_date_sk - ws.ws_sold_date_sk > 30
                AND ws.ws_ship_date_sk - ws.ws_sold_date_sk <= 60 THEN 1
            ELSE 0
        END
    ) AS "31-60 days",
    SUM(
        CASE
            WHEN ws.ws_ship_date_sk - ws.ws_sold_date_sk > 60
                AND ws.ws_ship_date_sk - ws.ws_sold_date_sk <= 90 THEN 1
            ELSE 0
        END
    ) AS "61-90 days",
    SUM(
        CASE
            WHEN ws.ws_ship_date_sk - ws.ws_sold_date_sk > 90
                AND ws.ws_ship_date_sk - ws.ws_sold_date_sk <= 120 THEN 1
            ELSE 0
        END
    ) AS "91-120 days",
    SUM(CASE WHEN ws.ws_ship_date_sk - ws.ws_sold_date_sk > 120 THEN 1 ELSE 0 END) AS ">120 days"
FROM web_sales ws
JOIN warehouse w ON ws.ws_warehouse_sk = w.w_warehouse_sk
JOIN ship_mode sm ON ws.ws_ship_mode_sk = sm.sm_ship_mode_sk
JOIN web_site site ON ws.ws_web_site_sk = site.web_site_sk
JOIN date_dim d ON ws.ws_ship_date_sk = d.d_date_sk
WHERE d.d_month_seq BETWEEN 1200 AND 1211
GROUP BY SUBSTRING(w.w_warehouse_name, 1, 20), sm.sm_type, site.web_name
ORDER BY w_substr NULLS FIRST, sm.sm_type NULLS FIRST, site.web_name NULLS FIRST
LIMIT 100;
