-- Ratio of morning to evening web purchases by large households on pages of a given size.
SELECT
    CASE
        WHEN evening.pmc = 0 THEN NULL
        ELSE CAST(morning.amc AS DOUBLE) / CAST(evening.pmc AS DOUBLE)
    END AS am_pm_ratio
FROM
    (
        SELECT count(*) AS amc
        FROM web_sales ws
        JOIN household_demographics hd ON hd.hd_demo_sk = ws.ws_ship_hdemo_sk
        JOIN time_dim t ON t.t_time_sk = ws.ws_sold_time_sk
        JOIN web_page wp ON wp.wp_web_page_sk = ws.ws_web_page_sk
        WHERE t.t_hour BETWEEN 8 AND 9
            AND hd.hd_dep_count = 6
            AND wp.wp_char_count BETWEEN 5000 AND 5200
    ) AS morning,
    (
        SELECT count(*) AS pmc
        FROM web_sales ws
        JOIN household_demographics hd ON hd.hd_demo_sk = ws.ws_ship_hdemo_sk
        JOIN time_dim t ON t.t_time_sk = ws.ws_sold_time_sk
        JOIN web_page wp ON wp.wp_web_page_sk = ws.ws_web_page_sk
        WHERE t.t_hour BETWEEN 19 AND 20
            AND hd.hd_dep_count = 6
            AND wp.wp_char_count BETWEEN 5000 AND 5200
    ) AS evening
ORDER BY am_pm_ratio
LIMIT 100;
