//! What happens to a query when something dies under it. Real processes, real kills.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::{collect, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_volley::error::{ErrorCode, VolleyError};
use datafusion_volley::session::{Cluster, ClusterOptions, QueryHandle, SessionStateBuilderExt};
use futures::StreamExt;

use crate::support;

/// An executor process; killed on drop.
struct Executor {
    child: Child,
    endpoint: String,
}

impl Executor {
    fn start(work_dir: &std::path::Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_volley"))
            .args(["executor", "--listen", "127.0.0.1:0", "--slots", "1", "--memory", "1GiB", "--ready-stdout"])
            .arg("--work-dir")
            .arg(work_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("an executor");
        let mut lines = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        let endpoint = line.trim().strip_prefix("ready ").expect("ready").to_string();
        Self { child, endpoint }
    }

    fn kill(&mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("its end");
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // Gone already where the test killed it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Seconds of work in several stages, over four files.
const LONG: &str = "SELECT a.k, count(*) AS c, sum(b.v) AS s, count(DISTINCT a.v) AS d FROM big a JOIN big b ON a.id = b.id \
                    GROUP BY a.k ORDER BY a.k";

async fn big_table(ctx: &SessionContext, dir: &std::path::Path) {
    std::fs::create_dir_all(dir.join("big")).expect("a folder");
    for part in 0..4 {
        let sql = format!(
            "SELECT value AS id, value % 1000 AS k, value * 7 % 100003 AS v FROM range({}, {})",
            part * 400_000,
            (part + 1) * 400_000
        );
        let path = dir.join("big").join(format!("part-{part}.parquet"));
        let frame = ctx.sql(&sql).await.expect("rows");
        frame.write_parquet(path.to_str().expect("UTF-8"), Default::default(), None).await.expect("a file");
    }
}

async fn connect(executors: &[Executor]) -> (Cluster, SessionContext) {
    let endpoints: Vec<&str> = executors.iter().map(|executor| executor.endpoint.as_str()).collect();
    let cluster = Cluster::connect(endpoints.join(","), ClusterOptions::default()).await.expect("a cluster");
    let state = SessionStateBuilder::new_with_default_features().with_volley(&cluster).build();
    (cluster, SessionContext::new_with_state(state))
}

async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !reached() {
        assert!(Instant::now() < deadline, "{what} did not happen within a minute");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_executor_costs_a_retry_and_no_row() {
    let dir = tempfile::tempdir().expect("a folder");
    let plain = SessionContext::new();
    big_table(&plain, dir.path()).await;
    support::register(&plain, dir.path()).await;
    let expected = plain.sql(LONG).await.expect("a plan").collect().await.expect("rows");

    let work_dir = tempfile::tempdir().expect("a folder");
    let mut executors = vec![Executor::start(work_dir.path()), Executor::start(work_dir.path())];
    let (cluster, ctx) = connect(&executors).await;
    support::register(&ctx, dir.path()).await;
    let plan = ctx.sql(LONG).await.expect("a plan").create_physical_plan().await.expect("a plan");
    let handle = QueryHandle::of(&plan).expect("a distributed query");
    let rows = tokio::spawn(collect(Arc::clone(&plan), ctx.task_ctx()));
    until("a finished task", || handle.progress().tasks_done > 0).await;
    executors[1].kill();
    let actual = rows.await.expect("no panic").expect("rows in spite of the loss");
    assert_eq!(support::difference(&expected, &actual), None);
    assert!(handle.progress().retries > 0, "nothing was lost: {:?}", handle.progress());
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_executors_a_query_fails_and_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let plain = SessionContext::new();
    big_table(&plain, dir.path()).await;
    let work_dir = tempfile::tempdir().expect("a folder");
    let mut executors = vec![Executor::start(work_dir.path())];
    let (cluster, ctx) = connect(&executors).await;
    support::register(&ctx, dir.path()).await;
    let plan = ctx.sql(LONG).await.expect("a plan").create_physical_plan().await.expect("a plan");
    let handle = QueryHandle::of(&plan).expect("a distributed query");
    let rows = tokio::spawn(collect(Arc::clone(&plan), ctx.task_ctx()));
    until("a launched stage", || handle.id().is_some()).await;
    executors[0].kill();
    let error = tokio::time::timeout(Duration::from_secs(60), rows)
        .await
        .expect("an end within a minute")
        .expect("no panic")
        .expect_err("no rows from nowhere");
    let code = VolleyError::find(&error).map(|error| error.code);
    assert!(matches!(code, Some(ErrorCode::NoExecutors | ErrorCode::Unreachable)), "{error}");
    drop(cluster);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_or_cancelling_a_query_stops_its_work_within_a_second() {
    let dir = tempfile::tempdir().expect("a folder");
    let plain = SessionContext::new();
    big_table(&plain, dir.path()).await;
    let work_dir = tempfile::tempdir().expect("a folder");
    let executors = vec![Executor::start(work_dir.path()), Executor::start(work_dir.path())];
    let (cluster, ctx) = connect(&executors).await;
    support::register(&ctx, dir.path()).await;
    for cancel in [true, false] {
        let plan = ctx.sql(LONG).await.expect("a plan").create_physical_plan().await.expect("a plan");
        let handle = QueryHandle::of(&plan).expect("a distributed query");
        let mut stream = execute_stream(Arc::clone(&plan), ctx.task_ctx()).expect("a stream");
        let started = Instant::now();
        if cancel {
            let canceller = handle.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(100)).await;
                canceller.cancel();
            });
            let end = stream.next().await.expect("an item");
            let error = end.expect_err("a cancelled query has no rows");
            assert_eq!(VolleyError::find(&error).map(|error| error.code), Some(ErrorCode::Cancelled), "{error}");
            assert!(started.elapsed() < Duration::from_secs(5), "took {:?}", started.elapsed());
        } else {
            let _ = tokio::time::timeout(Duration::from_millis(100), stream.next()).await;
        }
        drop(stream);
        drop(plan);
    }
    // The slots are free again: a small query gets through at once.
    let count = tokio::time::timeout(Duration::from_secs(20), async {
        ctx.sql("SELECT count(*) FROM big WHERE k = 1").await.expect("a plan").collect().await.expect("rows")
    });
    assert!(count.await.is_ok(), "the executors are still busy with queries that nobody reads");
    cluster.shutdown().await;
}
