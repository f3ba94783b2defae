//! A distributed session in three lines, on executors inside this process.
//!
//! `cargo run --release --example three_lines`

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use datafusion_volley::session::{Cluster, SessionStateBuilderExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // With executors elsewhere: Cluster::connect("host-a:50051,host-b:50051", ClusterOptions::default()).await?
    let cluster = Cluster::local(2).await?;
    let state = SessionStateBuilder::new_with_default_features().with_volley(&cluster).build();
    let ctx = SessionContext::new_with_state(state);

    // Everything from here is plain DataFusion.
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("numbers.parquet").to_string_lossy().into_owned();
    ctx.sql("SELECT value, value % 7 AS day FROM range(1, 1000001)")
        .await?
        .write_parquet(&path, Default::default(), None)
        .await?;
    ctx.register_parquet("numbers", &path, ParquetReadOptions::default()).await?;
    let by_day = "SELECT day, count(*) AS numbers, sum(value) AS total FROM numbers GROUP BY day ORDER BY day";
    ctx.sql(by_day).await?.show().await?;
    ctx.sql(&format!("EXPLAIN {by_day}")).await?.show().await?;
    cluster.shutdown().await;
    Ok(())
}
