//! An executor in one's own binary, with a function that DataFusion does not have.
//!
//! A function must be known where it is called: the executor registers it by a template, the session as usual. Nodes
//! and functions with state of their own travel through a `PhysicalExtensionCodec`, given to the executor in
//! `ExecutorExtensions::codec` and to the session by `with_volley_codec`.
//!
//! `cargo run --release --example own_executor`

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::execution::{SessionStateBuilder, SessionStateDefaults};
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use datafusion_volley::executor::{Executor, ExecutorExtensions, ExecutorOptions};
use datafusion_volley::session::{Cluster, ClusterOptions, SessionStateBuilderExt};

/// `half(x)`: x / 2 for whole numbers.
fn half() -> ScalarUDF {
    create_udf(
        "half",
        vec![DataType::Int64],
        DataType::Int64,
        Volatility::Immutable,
        Arc::new(|arguments: &[ColumnarValue]| {
            let arrays = ColumnarValue::values_to_arrays(arguments)?;
            let halves: Int64Array = arrays[0].as_primitive::<Int64Type>().unary(|value| value / 2);
            Ok(ColumnarValue::Array(Arc::new(halves) as ArrayRef))
        }),
    )
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // In the executor's binary: start it, and wait until it is told to stop.
    let extensions = ExecutorExtensions {
        codec: None,
        template: Some(Arc::new(|mut builder: SessionStateBuilder| {
            let mut functions =
                builder.scalar_functions().take().unwrap_or_else(SessionStateDefaults::default_scalar_functions);
            functions.push(Arc::new(half()));
            builder.with_scalar_functions(functions)
        })),
    };
    let executor = Executor::start(ExecutorOptions::default(), extensions).await?;

    // In the session's binary.
    let cluster = Cluster::connect(executor.endpoint().to_string(), ClusterOptions::default()).await?;
    let state = SessionStateBuilder::new_with_default_features().with_volley(&cluster).build();
    let ctx = SessionContext::new_with_state(state);
    ctx.register_udf(half());

    let folder = tempfile::tempdir()?;
    let path = folder.path().join("numbers.parquet").to_string_lossy().into_owned();
    ctx.sql("SELECT value FROM range(1, 101)").await?.write_parquet(&path, Default::default(), None).await?;
    ctx.register_parquet("numbers", &path, ParquetReadOptions::default()).await?;
    ctx.sql("SELECT half(value) AS half, count(*) FROM numbers GROUP BY 1 ORDER BY 1 LIMIT 5").await?.show().await?;
    Ok(())
}
