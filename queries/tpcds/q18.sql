-- Average figures of the catalog sales of 1998 to women of unknown education, born in certain months
-- and living in certain states: by item, country, state and county, with subtotals.
SELECT
    i.i_item_id,
    ca.ca_country,
    ca.ca_state,
    ca.ca_county,
    avg(CAST(cs.cs_quantity AS DECIMAL(12, 2))) AS agg1,
    avg(CAST(cs.cs_list_price AS DECIMAL(12, 2))) AS agg2,
    avg(CAST(cs.cs_coupon_amt AS DECIMAL(12, 2))) AS agg3,
    avg(CAST(cs.cs_sales_price AS DECIMAL(12, 2))) AS agg4,
    avg(CAST(cs.cs_net_profit AS DECIMAL(12, 2))) AS agg5,
    avg(CAST(c.c_birth_year AS DECIMAL(12, 2))) AS agg6,
    avg(CAST(buyer.cd_dep_count AS DECIMAL(12, 2))) AS agg7
FROM catalog_sales cs
JOIN customer_demographics buyer ON cs.cs_bill_cdemo_sk = buyer.cd_demo_sk,
    customer_demographics present,
    customer c,
    customer_address ca,
    date_dim d,
    item i
WHERE cs.cs_bill_customer_sk = c.c_customer_sk
    AND c.c_current_cdemo_sk = present.cd_demo_sk
    AND c.c_current_addr_sk = ca.ca_address_sk
    AND cs.cs_sold_date_sk = d.d_date_sk
    AND cs.cs_item_sk = i.i_item_sk
    AND buyer.cd_gender = 'F'
    AND buyer.cd_education_status = 'Unknown'
    AND c.c_birth_month IN (1, 2, 6, 8, 9, 12)
    AND d.d_year = 1998
    AND ca.ca_state IN ('IN', 'MS', 'ND', 'NM', 'OK', 'VA')
GROUP BY ROLLUP (i.i_item_id, ca.ca_country, ca.ca_state, ca.ca_county)
ORDER BY
    ca.ca_country NULLS FIRST,
    ca.ca_state NULLS FIRST,
    ca.ca_county NULLS FIRST,
    i.i_item_id NULLS FIRST
LIMIT 100;
