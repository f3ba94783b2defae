//! Queries on real executors over loopback equal one process.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_volley::session::{Cluster, QueryHandle, SessionStateBuilderExt};

async fn check_suite(suite: &str, data: PathBuf, partitions: usize, executors: usize) {
    let cluster = Cluster::local(executors).await.expect("a cluster");
    let config = SessionConfig::new().with_target_partitions(partitions);
    let state = SessionStateBuilder::new_with_default_features().with_config(config).with_volley(&cluster).build();
    let ctx = SessionContext::new_with_state(state);
    crate::support::register(&ctx, &data).await;
    let plain = crate::support::session(&data, partitions).await;
    let only = std::env::var("VOLLEY_QUERY").ok();
    let mut failures = vec![];
    for (name, sql) in crate::support::queries(suite) {
        if only.as_ref().is_some_and(|only| !only.split(',').any(|o| o == name)) {
            continue;
        }
        let plan = plain.sql(&sql).await.expect("a plan").create_physical_plan().await.expect("a plan");
        let started = std::time::Instant::now();
        let expected = collect(plan, plain.task_ctx()).await.expect("plain rows");
        let plain_seconds = started.elapsed().as_secs_f64();
        let started = std::time::Instant::now();
        let plan = ctx.sql(&sql).await.expect("a plan").create_physical_plan().await.expect("a plan");
        let handle = QueryHandle::of(&plan);
        let outcome = match collect(Arc::clone(&plan), ctx.task_ctx()).await {
            Err(error) => Some(error.to_string()),
            Ok(actual) => crate::support::difference(&expected, &actual),
        };
        let seconds = started.elapsed().as_secs_f64();
        let statistics = handle.and_then(|handle| handle.statistics());
        let remote = statistics.as_ref().map(|s| s.remote_bytes()).unwrap_or_default();
        let stages = statistics.as_ref().map(|s| s.stages.len()).unwrap_or_default();
        println!("{name}: plain {plain_seconds:.3} s, cluster {seconds:.3} s, {stages} stages, {remote} bytes remote");
        if let Some(outcome) = outcome {
            println!("{name}: {outcome}");
            failures.push(name);
        } else if let Some(fell_back) = statistics.and_then(|s| s.fell_back) {
            println!("{name}: fell back: {fell_back}");
            failures.push(name);
        }
    }
    cluster.shutdown().await;
    assert!(failures.is_empty(), "{suite}: {failures:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpcds_on_two_executors_equals_one_process() {
    check_suite("tpcds", crate::support::data("tpcds"), 3, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpch_on_three_executors_equals_one_process() {
    check_suite("tpch", crate::support::data("tpch"), 2, 3).await;
}
