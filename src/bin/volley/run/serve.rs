//! The engine process: the other side of [`super::engine`].
//!
//! Both engines run in such a process, so that both are measured alike. When its stdin closes, however the runner ended, it
//! stops its cluster and exits; a thread of its own sees to that even if the runtime hangs.

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tokio::sync::{mpsc, watch};

use super::protocol::{DataSpec, Done, EngineSpec, Failure, Progress, QueryText, Reply, Request};
use super::session::Session;
use crate::data;
use crate::error::{CliError, ExitStatus};

/// Between two replies that say how far a run is.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);
/// After the end of input: to stop the cluster. Past it the process ends by force, and its children with it.
const STOP_WITHIN: Duration = Duration::from_secs(8);

/// Serves the runner until it closes stdin.
///
/// # Errors
/// No runtime. What fails in the work is told to the runner.
pub fn serve() -> Result<ExitStatus, CliError> {
    let mut lines = io::BufReader::new(io::stdin()).lines().map_while(Result::ok);
    let Some(Ok(Request::Start { spec, data })) = lines.next().map(|line| serde_json::from_str(&line)) else {
        return Err(CliError::usage(
            "VOLLEY-USAGE",
            "this command is started by `volley tpcds` and `volley tpch`",
            "run one of those",
        ));
    };
    let (to_loop, requests) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in lines {
            let Ok(request) = serde_json::from_str::<Request>(&line) else { break };
            if to_loop.send(request).is_err() {
                break;
            }
        }
        drop(to_loop);
        std::thread::sleep(STOP_WITHIN);
        std::process::exit(ExitStatus::Failed as i32);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(spec.threads.max(1))
        .enable_all()
        .build()
        .map_err(|error| CliError::new("VOLLEY-LOCAL", ExitStatus::Local, format!("no runtime: {error}"), ""))?;
    let ended = runtime.block_on(work(spec, data, requests));
    // Operators that compute without a pause are not waited for.
    runtime.shutdown_background();
    // Only a runner that is gone cannot be written to.
    Ok(if ended.is_ok() { ExitStatus::Right } else { ExitStatus::Failed })
}

async fn work(spec: EngineSpec, data: DataSpec, mut requests: mpsc::UnboundedReceiver<Request>) -> io::Result<()> {
    // The runner may go away while the cluster starts: then its processes must not be waited for.
    let started = tokio::select! {
        started = start(&spec, &data) => started,
        _ = requests.recv() => return Ok(()),
    };
    let session = match started {
        Ok(session) => session,
        Err(failure) => return reply(&Reply::Failed { id: 0, failure }, None),
    };
    reply(&Reply::Ready { processes: session.processes() }, None)?;
    let served = serve_requests(&session, &mut requests).await;
    session.stop(STOP_WITHIN / 2).await;
    served
}

async fn start(spec: &EngineSpec, data: &DataSpec) -> Result<Session, Failure> {
    let session = Session::start(spec).await.map_err(|error| of_cli(&error))?;
    let dataset = match data::open(data.suite, None, &data.dir) {
        Ok(Some(dataset)) => dataset,
        Ok(None) => return Err(Failure::new("VOLLEY-DATA-DAMAGED", format!("{} has no tables", data.dir.display()))),
        Err(error) => return Err(of_cli(&error)),
    };
    data::register(session.context(), &dataset).await.map_err(|error| of_cli(&error))?;
    Ok(session)
}

async fn serve_requests(session: &Session, requests: &mut mpsc::UnboundedReceiver<Request>) -> io::Result<()> {
    while let Some(request) = requests.recv().await {
        // A cancellation may come when its run has just ended, and nobody starts an engine twice.
        let Request::Run { id, query } = request else { continue };
        match run(session, id, query, requests).await? {
            Some(Ok((done, bytes))) => reply(&Reply::Done { id, done }, Some(&bytes))?,
            Some(Err(failure)) => reply(&Reply::Failed { id, failure }, None)?,
            None => return Ok(()),
        }
    }
    Ok(())
}

type Ended = Result<(Done, Vec<u8>), Failure>;

/// One run. `None`: the runner is gone.
async fn run(
    session: &Session,
    id: u64,
    query: QueryText,
    requests: &mut mpsc::UnboundedReceiver<Request>,
) -> io::Result<Option<Ended>> {
    let context = session.context().clone();
    let (after, begun) = (query.after.clone(), Instant::now());
    let (watch_rows, rows) = watch::channel(Watched::default());
    // On the runtime's own threads, as in a server; dropping it stops the query.
    let mut task = SpawnedTask::spawn(async move { measure(&context, &query, &watch_rows).await });
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + PROGRESS_EVERY, PROGRESS_EVERY);
    let mut cancelled = false;
    let ended = loop {
        tokio::select! {
            ended = &mut task => break match ended {
                Ok(ended) => ended.map_err(|error| of_datafusion(&error)),
                Err(panic) => Err(Failure::new("VOLLEY-INTERNAL", format!("the query panicked: {panic}"))),
            },
            _ = ticks.tick() => {
                let progress = progress(&rows.borrow());
                reply(&Reply::Progress { id, progress }, None)?;
            }
            request = requests.recv() => match request {
                Some(Request::Cancel { id: which }) if which == id => {
                    cancelled = true;
                    break Err(Failure::new("VOLLEY-CANCELLED", "the run was stopped"));
                }
                Some(_) => {}
                None => return Ok(None),
            },
        }
    };
    drop(task);
    for statement in after {
        // What the query itself left undone (a view that is not there) is no failure of the next one.
        let _ = execute(session.context(), &statement).await;
    }
    Ok(Some(match ended {
        Ok(run) => {
            let bytes = to_ipc(&run.schema, &run.batches).map_err(io::Error::other)?;
            let cluster = run.plan.figures();
            Ok((Done { result_bytes: bytes.len() as u64, cluster, ..run.done }, bytes))
        }
        Err(failure) => Err(Failure { seconds_ms: begun.elapsed().as_millis() as u64, cancelled, ..failure }),
    }))
}

/// What is seen of a run from outside.
#[derive(Default)]
struct Watched {
    plan: Option<super::session::Watch>,
    rows: u64,
}

fn progress(watched: &Watched) -> Progress {
    let progress = watched.plan.as_ref().map(super::session::Watch::progress).unwrap_or_default();
    Progress { rows: progress.rows.max(watched.rows), ..progress }
}

struct Run {
    done: Done,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    plan: super::session::Watch,
}

/// The measured part: from before `sql()` to the last batch.
async fn measure(
    context: &SessionContext,
    query: &QueryText,
    watched: &watch::Sender<Watched>,
) -> Result<Run, DataFusionError> {
    let start = Instant::now();
    for statement in &query.before {
        execute(context, statement).await?;
    }
    let planning = Instant::now();
    let frame = context.sql(&query.sql).await?;
    let task_context = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    let plan_ms = planning.elapsed().as_secs_f64() * 1e3;
    let watch = super::session::Watch::of(&plan, context);
    watched.send_modify(|watched| watched.plan = Some(watch.clone()));

    let mut stream = execute_stream(plan, task_context)?;
    let schema = stream.schema();
    let (mut batches, mut rows, mut first_row_ms) = (Vec::new(), 0, None);
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        if batch.num_rows() == 0 {
            continue;
        }
        first_row_ms.get_or_insert_with(|| start.elapsed().as_secs_f64() * 1e3);
        rows += batch.num_rows() as u64;
        batches.push(batch);
        watched.send_modify(|watched| watched.rows = rows);
    }
    let seconds = start.elapsed().as_secs_f64();
    let done = Done { seconds, plan_ms, first_row_ms, rows, result_bytes: 0, cluster: None };
    Ok(Run { done, schema, batches, plan: watch })
}

async fn execute(context: &SessionContext, statement: &str) -> Result<(), DataFusionError> {
    context.sql(statement).await?.collect().await.map(drop)
}

/// An IPC stream. Views are compacted first: a hundred rows may look into buffers of many megabytes.
fn to_ipc(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Vec<u8>, DataFusionError> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
    for batch in batches {
        let columns = batch.columns().iter().map(compact).collect();
        writer.write(&RecordBatch::try_new(batch.schema(), columns)?)?;
    }
    Ok(writer.into_inner()?)
}

fn compact(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => Arc::clone(column),
    }
}

fn reply(reply: &Reply, bytes: Option<&[u8]>) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.write_all(bytes.unwrap_or_default())?;
    stdout.flush()
}

impl Failure {
    fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), remedy: String::new(), seconds_ms: 0, cancelled: false }
    }
}

fn of_cli(error: &CliError) -> Failure {
    Failure { remedy: error.remedy.clone(), ..Failure::new(error.code, error.message.clone()) }
}

fn of_datafusion(error: &DataFusionError) -> Failure {
    of_cli(&crate::failure::of_datafusion(error))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int32Array, StringViewArray};
    use datafusion::arrow::ipc::reader::StreamReader;

    use super::*;

    #[test]
    fn rows_are_sent_without_what_they_do_not_show() {
        let long = "x".repeat(1000);
        let text: ArrayRef = Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(&long, 1000)));
        let number: ArrayRef = Arc::new(Int32Array::from_iter_values(0..1000));
        let batch = RecordBatch::try_from_iter([("a", text), ("b", number)]).unwrap().slice(500, 2);
        let bytes = to_ipc(&batch.schema(), std::slice::from_ref(&batch)).unwrap();
        assert!(bytes.len() < 10_000, "{}", bytes.len());
        let read: Vec<_> = StreamReader::try_new(bytes.as_slice(), None).unwrap().map(Result::unwrap).collect();
        assert_eq!(read, [batch]);
    }
}
