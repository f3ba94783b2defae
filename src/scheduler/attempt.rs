//! The I/O of single steps: one attempt, one probe, one stage freed. Each has a deadline of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::StreamExt;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::events::{QueryEvent, QueryEvents};
use super::state::{FinishedStages, Launch};
use crate::control::{ExecutorControl, Lease};
use crate::error::{ErrorCode, Result, VolleyError};
use crate::ids::{ExecutorId, QueryId, StageId, TaskAttempt};
use crate::wire::{StageInput, TaskDefinition, TaskEvent, TaskReport};

/// Tries of a probe, within its deadline. More than one, as a connection may be refused by a full backlog.
const PROBE_TRIES: u32 = 3;
const PROBE_PAUSE: Duration = Duration::from_millis(100);

/// What the tasks of a query compute. The session implements it.
#[async_trait]
pub trait TaskSource: Send + Sync + 'static {
    /// Encodes one attempt's plan, with the filters that `finished` stages give it. Called when the attempt is
    /// launched, on a thread that may block.
    ///
    /// # Errors
    /// A plan that cannot be encoded.
    fn define(&self, attempt: TaskAttempt, inputs: &[StageInput], finished: &FinishedStages) -> Result<TaskDefinition>;

    /// Runs one attempt in the session and uploads its output to `task.executor`. Has its own deadlines for the upload.
    /// Dropping the future stops the work; nothing of the output is visible then.
    ///
    /// # Errors
    /// Whatever the plan or the upload gives.
    async fn run_in_session(&self, task: SessionTask) -> Result<TaskReport>;
}

/// One attempt that the session runs.
#[derive(Clone, Debug)]
pub struct SessionTask {
    /// The attempt.
    pub attempt: TaskAttempt,
    /// The executor that stores the output.
    pub executor: ExecutorId,
    /// Its address.
    pub endpoint: Arc<str>,
    /// Where the stages that it reads have their outputs.
    pub inputs: Arc<Vec<StageInput>>,
    /// The reports of stages finished before.
    pub finished: FinishedStages,
}

/// What an attempt needs besides its launch.
#[derive(Clone)]
pub(super) struct AttemptContext {
    pub source: Arc<dyn TaskSource>,
    pub events: Arc<dyn QueryEvents>,
    /// Bounds plans encoded at once: they are CPU work.
    pub encoders: Arc<Semaphore>,
    pub connect_timeout: Duration,
    pub stall_timeout: Duration,
}

/// Encodes, launches and watches one attempt until its final event. Dropping it cancels the attempt.
pub(super) async fn run_on_executor(
    launch: Launch,
    control: Arc<dyn ExecutorControl>,
    finished: FinishedStages,
    context: AttemptContext,
) -> Result<TaskReport> {
    let attempt = launch.attempt;
    let place = |what: &str| format!("{what}: {attempt} on executor {} at {}", launch.executor, launch.endpoint);
    let definition = define(&launch, finished, &context).await?;
    // Connecting has its own deadline inside; what remains is an executor that is busy, as long as it may stay silent.
    let mut events = timeout(context.stall_timeout, control.launch(definition))
        .await
        .map_err(|_| VolleyError::new(ErrorCode::Unreachable, place("no answer to a launch within the deadline")))??;
    loop {
        let event = timeout(context.stall_timeout, events.next()).await.map_err(|_| {
            let what = format!("no sign of life for {} ms", context.stall_timeout.as_millis());
            VolleyError::new(ErrorCode::DeadlineExceeded, place(&what))
        })?;
        match event {
            Some(Ok(TaskEvent::Progress { rows, bytes })) => {
                context.events.on_event(QueryEvent::TaskProgress { attempt, rows, bytes });
            }
            Some(Ok(TaskEvent::Finished(report))) => return Ok(*report),
            Some(Ok(TaskEvent::Failed(error))) => return Err(error),
            Some(Err(error)) => return Err(error),
            None => {
                let what = "the task's stream ended before its final status";
                return Err(VolleyError::new(ErrorCode::AttemptLost, place(what)));
            }
        }
    }
}

async fn define(launch: &Launch, finished: FinishedStages, context: &AttemptContext) -> Result<TaskDefinition> {
    let attempt = launch.attempt;
    let source = Arc::clone(&context.source);
    let inputs = Arc::clone(&launch.inputs);
    let permit = Arc::clone(&context.encoders).acquire_owned().await;
    // Not aborted when this future is dropped: it is pure computation of milliseconds.
    let encoded = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        source.define(attempt, &inputs, &finished)
    });
    encoded.await.unwrap_or_else(|panic| {
        Err(VolleyError::new(ErrorCode::EncodePlan, format!("encoding the plan of {attempt} panicked"))
            .with_source(panic))
    })
}

/// Runs one attempt in this process.
pub(super) async fn run_in_session(
    launch: Launch,
    finished: FinishedStages,
    context: AttemptContext,
) -> Result<TaskReport> {
    let Launch { attempt, executor, endpoint, inputs, .. } = launch;
    context.source.run_in_session(SessionTask { attempt, executor, endpoint, inputs, finished }).await
}

/// Opens a lease within the deadline.
pub(super) async fn open_lease(
    control: Arc<dyn ExecutorControl>,
    query: QueryId,
    deadline: Duration,
) -> Result<Box<dyn Lease>> {
    timeout(deadline, control.lease(query))
        .await
        .map_err(|_| VolleyError::new(ErrorCode::Unreachable, format!("no lease within {} ms", deadline.as_millis())))?
}

/// Whether the same process still answers; with a new lease if so, as the old one may have gone with its connection.
pub(super) async fn probe(
    control: Arc<dyn ExecutorControl>,
    expect: ExecutorId,
    query: QueryId,
    deadline: Duration,
) -> Result<Box<dyn Lease>, String> {
    let started = Instant::now();
    let mut tries = 0;
    loop {
        let handshake = async {
            let info = control.handshake().await?;
            if info.id == expect { control.lease(query).await.map(Some) } else { Ok(None) }
        };
        let reason = match timeout(deadline.saturating_sub(started.elapsed()), handshake).await {
            Ok(Ok(Some(lease))) => return Ok(lease),
            Ok(Ok(None)) => return Err("another process answers at its address".into()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => return Err(format!("no handshake within {} ms", deadline.as_millis())),
        };
        tries += 1;
        if tries >= PROBE_TRIES {
            return Err(reason);
        }
        tokio::time::sleep(PROBE_PAUSE).await;
    }
}

/// Frees outputs on several executors. A failure is not reported: what stays goes with the query's lease.
pub(super) async fn free(
    controls: Vec<Arc<dyn ExecutorControl>>,
    query: QueryId,
    stage: Option<StageId>,
    deadline: Duration,
) {
    let frees = controls.iter().map(|control| async move {
        match timeout(deadline, control.free(query, stage)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%query, ?stage, %error, "outputs could not be freed"),
            Err(_) => tracing::debug!(%query, ?stage, "freeing outputs took too long"),
        }
    });
    futures::future::join_all(frees).await;
}
