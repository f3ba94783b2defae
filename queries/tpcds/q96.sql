-- How many items do households with seven dependants buy in the stores of one name between half
-- past eight and nine in the evening?
SELECT count(*)
FROM store_sales ss
JOIN household_demographics hd ON hd.hd_demo_sk = ss.ss_hdemo_sk
JOIN time_dim t ON t.t_time_sk = ss.ss_sold_time_sk
JOIN store s ON s.s_store_sk = ss.ss_store_sk
WHERE t.t_hour = 20
    AND t.t_minute >= 30
    AND hd.hd_dep_count = 7
    AND s.s_store_name = 'ese'
ORDER BY count(*)
LIMIT 100;
