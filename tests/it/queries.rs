//! Kinds of queries that distribution gets wrong easily, each against one process, at several partition counts.
//!
//! Tables are small, in several files, with NULLs; distribution has no lower limit, so that all of it is exercised.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_volley::session::{Cluster, QueryHandle, SessionStateBuilderExt};

use crate::support;

/// How many rows each table has, and the query that makes a file of it.
const TABLES: &[(&str, &[&str])] = &[
    (
        "t",
        &[
            "SELECT value AS id, value % 7 AS k, CASE WHEN value % 5 = 0 THEN NULL ELSE value % 3 END AS n, \
             'name ' || (value % 11) AS s, value * 1.5 AS f FROM range(0, 400)",
            "SELECT value AS id, value % 7 AS k, CASE WHEN value % 4 = 0 THEN NULL ELSE value % 6 END AS n, \
             'name ' || (value % 13) AS s, value * 0.25 AS f FROM range(400, 900)",
            "SELECT value AS id, value % 9 AS k, CAST(NULL AS BIGINT) AS n, 'x' AS s, 0.0 AS f FROM range(900, 950)",
        ],
    ),
    (
        "u",
        &[
            "SELECT value AS id, value % 4 AS k, CASE WHEN value = 3 THEN NULL ELSE value END AS n, \
             'name ' || value AS s FROM range(0, 9)",
            "SELECT value AS id, value % 5 AS k, value AS n, 'name ' || value AS s FROM range(9, 30)",
        ],
    ),
    ("one", &["SELECT CAST(1 AS BIGINT) AS id, CAST(2 AS BIGINT) AS k, CAST(NULL AS BIGINT) AS n, 'name 2' AS s"]),
    ("empty", &["SELECT value AS id, value AS k, value AS n, 'x' AS s FROM range(0, 1) WHERE value > 5"]),
];

/// Each must give the same rows as one process; those with a total order also in the same order.
const QUERIES: &[&str] = &[
    // NOT IN with NULLs on either side.
    "SELECT id FROM t WHERE n NOT IN (SELECT n FROM u)",
    "SELECT id FROM t WHERE n NOT IN (SELECT n FROM u WHERE n IS NOT NULL)",
    "SELECT id FROM t WHERE n NOT IN (SELECT n FROM empty)",
    "SELECT id FROM t WHERE id IN (SELECT n FROM u)",
    // Outer, semi, anti, mark and full joins, hash and nested-loop, small and empty sides.
    "SELECT t.id, u.id FROM t LEFT JOIN u ON t.k = u.k AND t.id % 3 = 0",
    "SELECT u.id, t.id FROM u LEFT JOIN t ON t.n = u.n",
    "SELECT u.id, t.id FROM u FULL JOIN t ON t.id = u.id",
    "SELECT t.id, u.id FROM t FULL JOIN u ON t.id = u.id AND t.k < u.k",
    "SELECT t.id, e.id FROM t LEFT JOIN empty e ON t.k = e.k",
    "SELECT e.id, t.id FROM empty e FULL JOIN t ON t.k = e.k WHERE t.id < 20",
    "SELECT o.id, t.id FROM one o LEFT JOIN t ON t.k = o.n",
    "SELECT u.id FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.id = u.id * 10)",
    "SELECT u.id FROM u WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.n = u.n)",
    "SELECT u.id FROM u WHERE u.n IN (SELECT n FROM t) OR u.id > 25",
    "SELECT u.id, t.id FROM u LEFT JOIN t ON t.id < u.id AND t.id > u.id - 3",
    "SELECT u.id, t.id FROM u FULL JOIN t ON t.id < u.id AND t.id > u.id - 3 WHERE t.id IS NULL OR t.id < 40",
    "SELECT count(*) FROM t CROSS JOIN u",
    "SELECT a.id, b.id FROM t a JOIN t b ON a.id = b.id + 1 WHERE a.k = 3",
    // Set operations with NULLs.
    "SELECT n FROM t INTERSECT SELECT n FROM u",
    "SELECT n FROM t EXCEPT SELECT n FROM u",
    "SELECT n FROM u EXCEPT SELECT n FROM t",
    "SELECT n FROM t UNION SELECT n FROM u",
    // Unions of branches with partition counts of their own.
    "SELECT id FROM t UNION ALL SELECT count(*) FROM t UNION ALL SELECT id FROM u WHERE id < 3",
    "SELECT 'a' AS w, count(*) AS c FROM t UNION ALL SELECT 'b', count(*) FROM empty UNION ALL SELECT s, k FROM one",
    "SELECT k, sum(c) FROM (SELECT k, count(*) AS c FROM t GROUP BY k UNION ALL SELECT k, count(*) FROM u GROUP BY k) \
     GROUP BY k",
    "SELECT s, count(*) FROM (SELECT s FROM t UNION ALL SELECT s FROM u UNION ALL SELECT s FROM empty) GROUP BY s",
    "SELECT count(*), sum(id) FROM (SELECT id FROM t UNION ALL (SELECT id FROM u UNION ALL SELECT n FROM u) UNION ALL \
     SELECT k FROM one UNION ALL SELECT sum(id) FROM u)",
    "SELECT w, sum(c) FROM (SELECT 'a' AS w, id AS c FROM u UNION ALL (SELECT 'b', n FROM u UNION ALL SELECT s, n FROM one) \
     UNION ALL SELECT 'c', count(*) FROM u UNION ALL SELECT 'd', id FROM u) GROUP BY ROLLUP (w)",
    // Limits and offsets.
    "SELECT id FROM t ORDER BY id LIMIT 10",
    "SELECT id FROM t ORDER BY id DESC LIMIT 7 OFFSET 5",
    "SELECT count(*) FROM (SELECT id FROM t LIMIT 33)",
    "SELECT count(*) FROM (SELECT id FROM t OFFSET 900)",
    "SELECT t.id FROM t JOIN (SELECT id FROM u ORDER BY id LIMIT 4) v ON t.id = v.id ORDER BY 1",
    // Aggregates and grouping sets, over nothing as well.
    "SELECT count(*), sum(n), min(s), max(f) FROM t",
    "SELECT count(*), sum(id) FROM empty",
    "SELECT k, count(*) FROM empty GROUP BY k",
    "SELECT k, n, count(*), grouping(k) FROM t GROUP BY ROLLUP (k, n)",
    "SELECT k, count(*) FROM empty GROUP BY GROUPING SETS ((k), ())",
    "SELECT count(DISTINCT n), count(DISTINCT s), avg(f) FROM t",
    "SELECT k, count(DISTINCT s) FROM t GROUP BY k",
    // Windows.
    "SELECT id, sum(f) OVER (PARTITION BY k ORDER BY id) FROM t",
    "SELECT id, count(*) FILTER (WHERE n IS NULL) OVER (PARTITION BY k) FROM t",
    "SELECT id, first_value(n) IGNORE NULLS OVER (PARTITION BY k ORDER BY id) FROM t",
    "SELECT id, last_value(n) IGNORE NULLS OVER (PARTITION BY k ORDER BY id DESC) FROM t",
    "SELECT id, row_number() OVER (ORDER BY id) FROM t",
    "SELECT id, rank() OVER (PARTITION BY k ORDER BY n), sum(id) OVER (PARTITION BY s ORDER BY id) FROM t",
    "SELECT id, avg(f) OVER (PARTITION BY k, s ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) FROM t WHERE k = 3",
    // Order through exchanges.
    "SELECT k, id FROM t ORDER BY k DESC, id",
    "SELECT s, count(*) AS c FROM t GROUP BY s ORDER BY c DESC, s",
    "SELECT a.id, b.id FROM t a JOIN u b ON a.k = b.k ORDER BY a.id, b.id LIMIT 20",
    // Scalar subqueries.
    "SELECT id FROM t WHERE f > (SELECT avg(f) FROM t) ORDER BY id",
    "SELECT id, (SELECT max(id) FROM u) FROM t WHERE id < (SELECT min(n) + 5 FROM u)",
    "SELECT id FROM t WHERE k = (SELECT k FROM empty)",
    "SELECT k, count(*) FROM t GROUP BY k HAVING count(*) > (SELECT avg(c) FROM (SELECT count(*) c FROM t GROUP BY k))",
    "SELECT id FROM t ORDER BY id * (SELECT -1) LIMIT 3",
    // Common table expressions.
    "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 20) SELECT t.id FROM t JOIN r ON t.id = r.x",
    "WITH a AS (SELECT k, count(*) c FROM t GROUP BY k) SELECT x.k, x.c, y.c FROM a x JOIN a y ON x.k = y.k + 1",
    // Rows of the session's own with rows of files.
    "SELECT t.id, v.w FROM t JOIN (VALUES (1, 'one'), (2, 'two')) v(id, w) ON t.id = v.id",
    "SELECT m.id, count(t.id) FROM m LEFT JOIN t ON m.id = t.k GROUP BY m.id",
    "SELECT * FROM m",
    "SELECT t.id FROM t WHERE t.id IN (SELECT id FROM m)",
    "SELECT value, count(t.id) FROM generate_series(1, 5) g(value) LEFT JOIN t ON t.k = value GROUP BY value",
    // Types.
    "SELECT k, array_agg(id ORDER BY id) FROM t GROUP BY k",
    "SELECT k, min(id::decimal(20, 3)), max(arrow_cast(s, 'Dictionary(Int8, Utf8)')) FROM t GROUP BY k",
    "SELECT to_timestamp(k * 86400) AS d, max(to_timestamp(id)) - min(to_timestamp(id)), count(*) FROM t GROUP BY 1",
    "SELECT named_struct('a', k, 'b', s) AS x, count(*) FROM t GROUP BY 1",
    "SELECT CASE WHEN k = 1 THEN 'NaN'::double WHEN k = 2 THEN -0.0 ELSE 0.0 END AS z, count(*) FROM t GROUP BY 1",
    // Zero columns, zero rows.
    "SELECT 1 FROM t WHERE false",
    "SELECT count(*) FROM t, u WHERE t.k = u.k",
];

async fn write_tables(ctx: &SessionContext, dir: &Path) {
    for (table, files) in TABLES {
        for (number, sql) in files.iter().enumerate() {
            let path = dir.join(table).join(format!("part-{number}.parquet"));
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            let frame = ctx.sql(sql).await.expect("a table's query");
            frame.write_parquet(path.to_str().expect("UTF-8"), Default::default(), None).await.expect("a file");
        }
    }
}

async fn add_memory_table(ctx: &SessionContext) {
    let sql =
        "CREATE TABLE m AS SELECT column1 AS id, column2 AS s FROM (VALUES (1, 'a'), (2, 'b'), (3, NULL), (NULL, 'd'))";
    ctx.sql(sql).await.expect("a table").collect().await.expect("a table");
}

async fn rows(ctx: &SessionContext, sql: &str) -> Result<(Vec<RecordBatch>, bool), String> {
    let plan = ctx.sql(sql).await.map_err(|e| e.to_string())?;
    let plan = plan.create_physical_plan().await.map_err(|e| e.to_string())?;
    let distributed = QueryHandle::of(&plan);
    let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await.map_err(|e| e.to_string())?;
    let fell_back = distributed.as_ref().and_then(|handle| handle.statistics()).and_then(|s| s.fell_back);
    if let Some(reason) = fell_back {
        return Err(format!("fell back: {reason}"));
    }
    Ok((batches, distributed.is_some()))
}

async fn check(partitions: usize, executors: usize) {
    let cluster = Cluster::local(executors).await.expect("a cluster");
    let dir = tempfile::tempdir().expect("a folder");
    let plain = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(partitions));
    write_tables(&plain, dir.path()).await;
    let config = SessionConfig::new().with_target_partitions(partitions);
    let state = SessionStateBuilder::new_with_default_features().with_config(config).with_volley(&cluster).build();
    let ctx = SessionContext::new_with_state(state);
    // Nothing is so little that it is not moved.
    for option in ["volley.replicate_max_bytes = '0'", "volley.local_fallback = 'always'"] {
        ctx.sql(&format!("SET {option}")).await.expect("an option").collect().await.expect("an option");
    }
    for session in [&plain, &ctx] {
        support::register(session, dir.path()).await;
        add_memory_table(session).await;
    }
    let mut failures = vec![];
    let mut distributed = 0;
    for sql in QUERIES {
        let expected = rows(&plain, sql).await;
        let actual = rows(&ctx, sql).await;
        let outcome = match (&expected, &actual) {
            (Ok((expected, _)), Ok((actual, on_cluster))) => {
                distributed += usize::from(*on_cluster);
                support::difference(expected, actual)
            }
            (Err(error), _) => Some(format!("not valid on one process: {error}")),
            (_, Err(error)) => Some(error.clone()),
        };
        if let Some(outcome) = outcome {
            failures.push(format!("{sql}\n    {outcome}"));
        }
    }
    cluster.shutdown().await;
    assert!(
        failures.is_empty(),
        "{partitions} partitions, {executors} executors: {} of {} differ\n{}",
        failures.len(),
        QUERIES.len(),
        failures.join("\n")
    );
    assert!(distributed * 10 >= QUERIES.len() * 8, "only {distributed} of {} ran on the cluster", QUERIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_partitions_on_two_executors() {
    check(2, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_partitions_on_one_executor() {
    check(3, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_partitions_on_three_executors() {
    check(16, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_partition_on_two_executors() {
    check(1, 2).await;
}
