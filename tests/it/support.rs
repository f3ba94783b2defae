//! What several test files share: running a cut plan inside this process, and comparing rows.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type, SchemaRef};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use datafusion_proto::physical_plan::DefaultPhysicalExtensionCodec;
use datafusion_volley::codec::{FilterValues, VolleyCodec, encode_plan};
use datafusion_volley::config::VolleyOptions;
use datafusion_volley::error::{ErrorCode, Result as VolleyResult, VolleyError};
use datafusion_volley::exchange::ShuffleSource;
use datafusion_volley::exec::ShuffleEnvironment;
use datafusion_volley::executor::TaskRunner;
use datafusion_volley::ids::{AttemptId, PartitionId, QueryId, StageId, TaskAttempt, TaskId};
use datafusion_volley::plan::{CutSettings, Place, StageGraph, apply_filter_values, cut, filter_predicate};
use datafusion_volley::shuffle::{ShuffleStore, StoreOptions};
use datafusion_volley::wire::{KeySummary, TaskDefinition, TaskReport};
use parking_lot::Mutex;

/// Reads outputs from one store of this process.
#[derive(Debug)]
pub struct StoreSource {
    store: Arc<ShuffleStore>,
    query: QueryId,
    tasks: Mutex<HashMap<StageId, u32>>,
}

impl ShuffleSource for StoreSource {
    fn read(
        &self,
        stage: StageId,
        partition: PartitionId,
        schema: SchemaRef,
    ) -> VolleyResult<SendableRecordBatchStream> {
        let tasks = self.tasks.lock().get(&stage).copied();
        let tasks = tasks.ok_or_else(|| VolleyError::new(ErrorCode::OutputLost, format!("{stage:?} did not run")))?;
        let mut batches = vec![];
        for task in 0..tasks {
            let attempt = TaskAttempt { query: self.query, stage, task: TaskId(task), attempt: AttemptId(0) };
            let blocks = self.store.read(attempt, partition)?;
            for block in blocks.blocks {
                batches.push(block.load()?.into_batch(&blocks.schema)?);
            }
        }
        let stream = futures::stream::iter(batches.into_iter().map(Ok));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }

    fn read_task(
        &self,
        stage: StageId,
        _task: TaskId,
        partition: PartitionId,
        schema: SchemaRef,
    ) -> VolleyResult<SendableRecordBatchStream> {
        self.read(stage, partition, schema)
    }

    fn tasks(&self, stage: StageId) -> VolleyResult<Vec<TaskId>> {
        Ok((0..self.tasks.lock().get(&stage).copied().unwrap_or_default()).map(TaskId).collect())
    }
}

/// Runs a cut plan stage by stage in this process: every task through the codec, every row through the store.
pub struct InProcess {
    runner: TaskRunner,
    dir: tempfile::TempDir,
}

impl InProcess {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = ShuffleStore::try_new(StoreOptions {
            memory_bytes: 1 << 30,
            work_dir: dir.path().to_path_buf(),
            disk_limit_bytes: 20 << 30,
        })
        .expect("a store");
        let codec = Arc::new(DefaultPhysicalExtensionCodec {});
        Self { runner: TaskRunner::new(store, Arc::default(), codec, None), dir }
    }

    /// The rows of `plan`, cut into stages.
    pub async fn run(&self, ctx: &SessionContext, graph: &StageGraph) -> Result<Vec<RecordBatch>, String> {
        let query = QueryId::random();
        let source = Arc::new(StoreSource { store: Arc::clone(self.runner.store()), query, tasks: Mutex::default() });
        let options: Vec<(String, String)> = ctx
            .state()
            .config_options()
            .entries()
            .into_iter()
            .filter_map(|entry| Some((entry.key, entry.value?)))
            .collect();
        let options = Arc::new(options);
        let codec = VolleyCodec::default();
        let mut keys: HashMap<StageId, Vec<Vec<KeySummary>>> = HashMap::new();
        for stage in &graph.stages {
            assert_eq!(stage.place, Place::Executors, "{:?}", stage.id);
            let mut values = FilterValues::default();
            for filter in graph.filters.iter().filter(|filter| filter.consumers.contains(&stage.id)) {
                for summary in keys.get(&filter.build).into_iter().flatten() {
                    // With one task the summary is the stage's; tests with more tasks merge none.
                    if graph.stages[filter.build.index()].tasks.len() == 1
                        && let Some(predicate) =
                            filter_predicate(filter, &summary[filter.request]).map_err(|e| e.to_string())?
                    {
                        values.insert(filter.id, filter.probe_keys.clone(), predicate);
                    }
                }
            }
            for (index, task) in stage.tasks.iter().enumerate() {
                let mut values = values.clone();
                let plan = apply_filter_values(&task.plan, &mut values).map_err(|e| e.to_string())?;
                let writer: Arc<dyn ExecutionPlan> = Arc::new(stage.writer(task, plan).map_err(|e| e.to_string())?);
                let definition = TaskDefinition {
                    id: TaskAttempt { query, stage: stage.id, task: TaskId(index as u32), attempt: AttemptId(0) },
                    plan: encode_plan(&writer, &codec, &values).map_err(|e| format!("stage {}: {e}", stage.id))?,
                    options: Arc::clone(&options),
                    inputs: vec![],
                };
                let prepared = self
                    .runner
                    .prepare(&definition, Arc::clone(&source) as _, "this process")
                    .map_err(|e| format!("stage {}: {e}", stage.id))?;
                let report: TaskReport = prepared.run().await.map_err(|e| format!("stage {}: {e}", stage.id))?;
                keys.entry(stage.id).or_default().push(report.keys);
            }
            source.tasks.lock().insert(stage.id, stage.tasks.len() as u32);
        }
        let environment = Arc::new(ShuffleEnvironment { source, output: None });
        let result = collect(Arc::clone(&graph.root), environment.install(&ctx.task_ctx())).await;
        self.runner.store().free(query, None);
        result.map_err(|e| format!("root: {e}"))
    }
}

/// A session over the tables of a folder (`TABLE.parquet` or `TABLE/*.parquet`).
pub async fn session(data: &Path, partitions: usize) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(partitions);
    config.options_mut().extensions.insert(VolleyOptions::default());
    let ctx = SessionContext::new_with_config(config);
    register(&ctx, data).await;
    ctx
}

/// Registers the tables of a folder.
pub async fn register(ctx: &SessionContext, data: &Path) {
    for entry in std::fs::read_dir(data).expect("the data folder").flatten() {
        let path: PathBuf = entry.path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_string();
        let is_table = path.is_dir() || path.extension().is_some_and(|extension| extension == "parquet");
        if !is_table || name.starts_with('.') {
            continue;
        }
        let location = path.to_str().expect("a path in UTF-8").to_string();
        ctx.register_parquet(&name, location, ParquetReadOptions::default()).await.expect("a table");
    }
}

/// The settings of a cluster with this many slots and default options.
pub fn settings(slots: usize) -> CutSettings {
    let options = VolleyOptions::default();
    CutSettings {
        slots,
        replicate_max_bytes: options.replicate_max_bytes.0,
        filter_max_values: options.filter_max_values,
        filters: true,
        functions: None,
    }
}

/// Plans `sql`, cuts it and checks what holds for every cut.
pub async fn cut_sql(ctx: &SessionContext, sql: &str, settings: &CutSettings) -> Result<StageGraph, String> {
    let plan = ctx.sql(sql).await.map_err(|e| e.to_string())?;
    let plan = plan.create_physical_plan().await.map_err(|e| e.to_string())?;
    let graph = cut(&plan, settings).map_err(|e| format!("cut: {e}"))?;
    if graph.root.schema() != plan.schema() {
        return Err("the root has another schema".into());
    }
    Ok(graph)
}

/// Rows as text, numbers of floating point apart.
struct Row {
    exact: Vec<String>,
    floats: Vec<f64>,
}

fn rows(batches: &[RecordBatch]) -> Vec<Row> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = vec![];
    for batch in batches {
        let formatters: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).expect("a formatter"))
            .collect();
        for index in 0..batch.num_rows() {
            let mut row = Row { exact: vec![], floats: vec![] };
            for (column, formatter) in batch.columns().iter().zip(&formatters) {
                match column.data_type() {
                    _ if column.is_null(index) => row.exact.push("NULL".into()),
                    DataType::Float64 => row.floats.push(column.as_primitive::<Float64Type>().value(index)),
                    DataType::Float32 => row.floats.push(column.as_primitive::<Float32Type>().value(index) as f64),
                    _ => row.exact.push(formatter.value(index).to_string()),
                }
            }
            rows.push(row);
        }
    }
    rows.sort_by(|a, b| {
        a.exact.cmp(&b.exact).then_with(|| {
            a.floats
                .iter()
                .zip(&b.floats)
                .map(|(x, y)| x.total_cmp(y))
                .find(|o| o.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        })
    });
    rows
}

/// Why two results are not the same multiset of rows (floating point within 1e-9, relative).
pub fn difference(expected: &[RecordBatch], actual: &[RecordBatch]) -> Option<String> {
    let (expected, actual) = (rows(expected), rows(actual));
    if expected.len() != actual.len() {
        return Some(format!("{} rows instead of {}", actual.len(), expected.len()));
    }
    for (index, (want, got)) in expected.iter().zip(&actual).enumerate() {
        let close =
            |x: f64, y: f64| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-9 * x.abs().max(y.abs());
        let same = want.exact == got.exact
            && want.floats.len() == got.floats.len()
            && want.floats.iter().zip(&got.floats).all(|(x, y)| close(*x, *y));
        if !same {
            return Some(format!(
                "sorted row {index}: expected {:?} {:?}, got {:?} {:?}",
                want.exact, want.floats, got.exact, got.floats
            ));
        }
    }
    None
}

/// The data folder of a suite: `VOLLEY_TPCDS_DATA` or `VOLLEY_TPCH_DATA`, or else one at scale 0.1 that the command makes once
/// and that is kept between runs.
pub fn data(suite: &str) -> PathBuf {
    if let Some(dir) = std::env::var_os(format!("VOLLEY_{}_DATA", suite.to_uppercase())) {
        return dir.into();
    }
    static MADE: Mutex<()> = Mutex::new(());
    let _one_at_a_time = MADE.lock();
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{suite}-sf0.1"));
    let made = std::process::Command::new(env!("CARGO_BIN_EXE_volley"))
        .args(["data", suite, "--scale", "0.1", "--data"])
        .arg(&dir)
        .output()
        .expect("the command");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    dir
}

/// The query files of a suite, `(name, text without the final LIMIT)`.
pub fn queries(suite: &str) -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("queries").join(suite);
    let mut queries: Vec<_> = std::fs::read_dir(dir)
        .expect("the query folder")
        .flatten()
        .map(|entry| {
            let name = entry.path().file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_string();
            let text = std::fs::read_to_string(entry.path()).expect("a query file");
            (name, without_limit(&text))
        })
        .collect();
    queries.sort();
    queries
}

fn without_limit(text: &str) -> String {
    let trimmed = text.trim_end().trim_end_matches(';').trim_end();
    match trimmed.rsplit_once('\n') {
        Some((before, last)) if last.trim_start().to_ascii_uppercase().starts_with("LIMIT ") => before.to_string(),
        _ => trimmed.to_string(),
    }
}
