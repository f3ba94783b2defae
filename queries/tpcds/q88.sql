-- How many items do households of three kinds buy in the stores of one name in each half hour
-- between half past eight and half past twelve?
SELECT
    s1.h8_30_to_9,
    s2.h9_to_9_30,
    s3.h9_30_to_10,
    s4.h10_to_10_30,
    s5.h10_30_to_11,
    s6.h11_to_11_30,
    s7.h11_30_to_12,
    s8.h12_to_12_30
FROM
    (
        SELECT count(*) AS h8_30_to_9
        FROM store_sales ss
        JOIN household_demographics hd ON hd.hd_demo_sk = ss.ss_hdemo_sk
        JOIN time_dim t ON t.t_time_sk = ss.ss_sold_time_sk
        JOIN store s ON s.s_store_sk = ss.ss_store_sk
        WHERE t.t_hour = 8
            AND t.t_minute >= 30
            AND (
                (hd.hd_dep_count = 4 AND hd.hd_vehicle_count <= 6)
                OR (hd.hd_dep_count = 2 AND hd.hd_vehicle_count <= 4)
                OR (hd.hd_dep_count = 0 AND hd.hd_vehicle_count <= 2)
            )
            AND s.s_store_name = 'ese'
    ) AS s1,
    (
        SELECT count(*) AS h9_to_9_30
        FROM store_sales ss
        JOIN household_demographics hd ON hd.hd_demo_sk = ss.ss_hdemo_sk
        JOIN time_dim t ON t.t_time_sk = ss.ss_sold_time_sk
        JOIN store s ON s.s_store_sk = ss.ss_store_sk
        WHERE t.t_hour = 9
            AND t.t_minute < 30
            AND (
                (hd.hd_dep_count = 4 AND hd.hd_vehicle_count <= 6)
                OR (hd.hd_dep_count = 2 AND hd.hd_vehicle_count <= 4)
                OR (hd.hd_dep_count = 0 AND hd.hd_vehicle_count <= 2)
            )
            AND s.s_store_name = 'ese'
    ) AS s2,
    (
        SELECT count(*) AS h9_30_to_10
        FROM store_sales ss
        JOIN household_demographics hd ON hd.hd_demo_sk = ss.ss_hdemo_sk
        JOIN time_dim t ON t.t_time_sk = ss.ss_sold_time_sk
        JOIN store s ON s.s_store_sk = ss.ss_store_sk
        WHERE t.t_hour = 9
            AND t.t_minute >= 30
            AND (
                (hd.hd_dep_count = 4 AND hd.hd_vehicle_count <= 6)
                OR (hd.hd_dep_count = 2 AND hd.hd_vehicle_count <= 4)
                OR (hd.hd_dep_count = 0 AND hd.hd_vehicle_count <= 2)
            )
            AND s.s_store_name = 'ese'
    ) AS s3,
    (
        SELECT count(*) AS h10_to_10_30
        FROM store_sales ss
        JOIN household_demographics hd ON hd.hd_demo_sk = ss.ss_hdemo_sk
        JOIN time_dim t ON t.t_time_sk = ss.ss_sold_time_sk
        JOIN store s ON s.s_store_sk = ss.ss_store_sk
        WHERE t.t_hour = 10
            AND t.t_minute < 30
            AND (
                (hd.hd_dep_count = 4 AND hd.hd_vehicle_count <= 6)
                OR (hd.hd_dep_count = 2 AND hd.hd_vehicle_count <= 4)
                OR (hd.hd_dep_count = 0 AND hd.hd_vehicle_count <= 2)
            )
            AND s.s_store_name = 'ese'
    ) AS s4,
    (
        SELECT count(*) AS h10_30_to_11
        FROM store_sales ss
        JOIN household_demographics hd ON hd.hd_demo_sk = ss.ss_hdemo_sk
        JOIN time_dim t ON t.t_time_sk = ss.ss_sold_time_sk
        JOIN store s ON s.s_store_sk = ss.ss_store_sk
        WHERE t.t_hour = 10
            AND t.t_minute >= 30
            AND (
                (hd.hd_dep_count = 4 AND hd.hd_vehicle_count <= 6)
                OR (hd.hd_dep_count = 2 AND hd.hd_vehicle_count <= 4)
                OR (hd.hd_dep_count = 0 AND hd.hd_vehicle_count <= 2)
            )
            AND s.s_store_name = 'ese'
    ) AS s5,
    (
        SELECT count(*) AS h11_to_11_30
        FROM store_sales ss
        JOIN household_demographics hd ON hd.hd_demo_sk = ss.ss_hdemo_sk
        JOIN time_dim t ON t.t_time_sk = ss.ss_sold_time_sk
        JOIN store s ON s.s_store_sk = ss.ss_store_sk
        WHERE t.t_hour = 11
            AND t.t_minute < 30
            AND (
                (hd.hd_dep_count = 4 AND hd.hd_vehicle_count <= 6)
                OR (hd.hd_dep_count = 2 AND hd.hd_vehicle_count <= 4)
                OR (hd.hd_dep_count = 0 AND hd.hd_vehicle_count <= 2)
            )
            AND s.s_store_name = 'ese'
    ) AS s6,
    (
        SELECT count(*) AS h11_30_to_12
        FROM store_sales ss
        JOIN household_demographics hd ON hd.hd_demo_sk = ss.ss_hdemo_sk
        JOIN time_dim t ON t.t_time_sk = ss.ss_sold_time_sk
        JOIN store s ON s.s_store_sk = ss.ss_store_sk
        WHERE t.t_hour = 11
            AND t.t_minute >= 30
            AND (
                (hd.hd_dep_count = 4 AND hd.hd_vehicle_count <= 6)
                OR (hd.hd_dep_count = 2 AND hd.hd_vehicle_count <= 4)
                OR (hd.hd_dep_count = 0 AND hd.hd_vehicle_count <= 2)
            )
            AND s.s_store_name = 'ese'
    ) AS s7,
    (
        SELECT count(*) AS h12_to_12_30
        FROM store_sales ss
        JOIN household_demographics hd ON hd.hd_demo_sk = ss.ss_hdemo_sk
        JOIN time_dim t ON t.t_time_sk = ss.ss_sold_time_sk
        JOIN store s ON s.s_store_sk = ss.ss_store_sk
        WHERE t.t_hour = 12
            AND t.t_minute < 30
            AND (
                (hd.hd_dep_count = 4 AND hd.hd_vehicle_count <= 6)
                OR (hd.hd_dep_count = 2 AND hd.hd_vehicle_count <= 4)
                OR (hd.hd_dep_count = 0 AND hd.hd_vehicle_count <= 2)
            )
            AND s.s_store_name = 'ese'
    ) AS s8;
