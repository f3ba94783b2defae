//! Every TPC query, cut into stages and run stage by stage in this process, equals one plain plan.
//!
//! Tasks travel through the codec and rows through the store, as between processes; only the network is missing.
//! `VOLLEY_TPCDS_DATA` and `VOLLEY_TPCH_DATA` name data folders; without them it is data at scale 0.1. `VOLLEY_QUERY=q05,q14a`
//! picks queries, `VOLLEY_SHOW=1` prints their stages.

use std::path::PathBuf;

use datafusion::physical_plan::collect;

async fn check_suite(suite: &str, data: PathBuf, partitions: &[usize], slots: usize) {
    let in_process = crate::support::InProcess::new();
    let only = std::env::var("VOLLEY_QUERY").ok();
    let mut failures = vec![];
    for &partitions in partitions {
        let ctx = crate::support::session(&data, partitions).await;
        let settings = crate::support::settings(slots);
        for (name, sql) in crate::support::queries(suite) {
            if only.as_ref().is_some_and(|only| !only.split(',').any(|o| o == name)) {
                continue;
            }
            let plan = ctx.sql(&sql).await.expect("a plan").create_physical_plan().await.expect("a plan");
            let expected = collect(plan, ctx.task_ctx()).await.expect("plain rows");
            let outcome = match crate::support::cut_sql(&ctx, &sql, &settings).await {
                Err(error) => Some(error),
                Ok(graph) => {
                    if std::env::var("VOLLEY_SHOW").is_ok() {
                        println!("{}", datafusion_volley::plan::display_graph(&graph));
                    }
                    match in_process.run(&ctx, &graph).await {
                        Err(error) => Some(error),
                        Ok(actual) => crate::support::difference(&expected, &actual),
                    }
                }
            };
            if let Some(outcome) = outcome {
                println!("{name} at {partitions} partitions, {slots} slots: {outcome}");
                failures.push(format!("{name}/{partitions}"));
            }
        }
    }
    assert!(failures.is_empty(), "{suite}: {failures:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpcds_equals_one_process() {
    check_suite("tpcds", crate::support::data("tpcds"), &[2, 16], 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpch_equals_one_process() {
    check_suite("tpch", crate::support::data("tpch"), &[2, 3, 16], 3).await;
}
