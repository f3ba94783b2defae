//! Turns the state machine with real I/O: one loop per query.
//!
//! The loop owns everything that the query has going: attempts, probes and frees as tasks of one `JoinSet`, its slots, its
//! leases. Dropping it, at any point, aborts those tasks (which cancels the attempts, since their event streams are
//! dropped), gives the slots back and leaves one clean-up task that frees the stored outputs and then ends the leases.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::attempt::{self, AttemptContext};
use super::cleanup::CleanupTasks;
use super::events::QueryEvent;
use super::graph::{Place, StageGraph};
use super::query::{ExecutorHandle, QueryRequest};
use super::slots::SlotClient;
use super::state::{Action, Event, FinishedStages, Launch, Scheduler, SlotRequestId};
use crate::control::{ExecutorControl, Lease};
use crate::error::{ErrorClass, ErrorCode, Result, VolleyError};
use crate::ids::{ExecutorId, QueryId, StageId, TaskAttempt};
use crate::wire::{StageInput, TaskReport};

/// How long the start waits for executors beyond the first that answers. Others may join later; a little patience
/// avoids placing everything on the fastest.
const START_PATIENCE: Duration = Duration::from_millis(250);

/// A query whose results are stored.
pub struct QueryOutcome {
    /// Where the results are: one entry per result stage, by number.
    pub result: Vec<StageInput>,
    /// The reports of all stages.
    pub finished: FinishedStages,
    /// Keeps the results alive. Dropping it ends the query everywhere.
    pub run: QueryRun,
}

/// Runs a query until its results are stored. Dropping the future stops all its work.
///
/// # Errors
/// The query's error. Of class [`RunInSession`](ErrorClass::RunInSession): nothing has been delivered, the session may
/// run the whole query itself.
pub async fn run_query(request: QueryRequest) -> Result<QueryOutcome> {
    let mut run = QueryRun::new(request);
    run.open().await?;
    let result = run.turn().await?;
    Ok(QueryOutcome { result, finished: run.machine.finished().clone(), run })
}

/// A query under way or with stored results; see the module's documentation for what dropping it does.
pub struct QueryRun {
    id: QueryId,
    machine: Scheduler,
    started: Instant,
    executors: Vec<Known>,
    arrivals: Option<mpsc::Receiver<ExecutorHandle>>,
    slots: SlotClient,
    tasks: JoinSet<Ended>,
    purposes: HashMap<Id, Purpose>,
    running: HashMap<TaskAttempt, Running>,
    context: AttemptContext,
    graph: StageGraph,
    cleanup: Arc<CleanupTasks>,
    runtime: Handle,
    /// Whether the state machine has been started.
    opened: bool,
    waiting: usize,
    first_refusal: Option<VolleyError>,
    /// How the query ended, if it did not go well.
    end: Option<VolleyError>,
}

struct Known {
    handle: ExecutorHandle,
    /// All leases ever opened here: an older one may be the one that the executor counts.
    leases: Vec<Box<dyn Lease>>,
    lost: bool,
}

struct Running {
    abort: AbortHandle,
    executor: ExecutorId,
    request: Option<SlotRequestId>,
}

#[derive(Clone, Copy)]
enum Purpose {
    Attempt(TaskAttempt),
    Probe(ExecutorId),
    Free(StageId),
    Lease(ExecutorId),
}

enum Ended {
    Attempt(TaskAttempt, Result<TaskReport>),
    Probe(ExecutorId, Result<Box<dyn Lease>, String>),
    Freed(StageId),
    Lease(ExecutorId, Result<Box<dyn Lease>>),
}

impl QueryRun {
    fn new(request: QueryRequest) -> Self {
        let QueryRequest { id, graph, source, executors, arrivals, slots, events, cleanup, options } = request;
        let encoders = std::thread::available_parallelism().map_or(1, usize::from);
        let mut run = Self {
            id,
            machine: Scheduler::new(id, graph.clone(), options.scheduler),
            started: Instant::now(),
            executors: Vec::new(),
            arrivals,
            slots: slots.join([]),
            tasks: JoinSet::new(),
            purposes: HashMap::new(),
            running: HashMap::new(),
            context: AttemptContext {
                source,
                events,
                encoders: Arc::new(Semaphore::new(encoders)),
                connect_timeout: options.connect_timeout,
                stall_timeout: options.stall_timeout,
            },
            graph,
            cleanup,
            runtime: Handle::current(),
            opened: false,
            waiting: 0,
            first_refusal: None,
            end: None,
        };
        for handle in executors {
            run.welcome(handle);
        }
        run
    }

    /// The query.
    pub fn id(&self) -> QueryId {
        self.id
    }

    /// The reports of all stages.
    pub fn finished(&self) -> &FinishedStages {
        self.machine.finished()
    }

    /// A row of the results has reached the user: from now on [`recover`](Self::recover) refuses.
    pub fn rows_delivered(&mut self) {
        self.tell(Event::ResultRowsDelivered);
    }

    /// After reading the results failed with `error`: makes what is lost again and says where the results are now. Every
    /// reader starts anew; one that failed for a loss that another one reported gets the places that are right now.
    /// Cancel safe: the next call goes on.
    ///
    /// # Errors
    /// [`ResultLost`](ErrorCode::ResultLost) if rows have been delivered; otherwise as [`run_query`], or `error` itself
    /// if it is no loss or has happened too often.
    pub async fn recover(&mut self, error: VolleyError) -> Result<Vec<StageInput>> {
        if let Some(end) = &self.end {
            return Err(end.clone_without_source());
        }
        self.tell(Event::ResultLost { error });
        self.turn().await
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn tell(&mut self, event: Event) {
        let now = self.now_ms();
        self.machine.handle(now, event);
    }

    fn say(&self, event: QueryEvent) {
        self.context.events.on_event(event);
    }

    /// A new executor: it counts once it has given a lease.
    fn welcome(&mut self, handle: ExecutorHandle) {
        let id = handle.info.id;
        let control = Arc::clone(&handle.control);
        match self.known(id) {
            // It may be back; what it stored for us counts as lost all the same.
            Some(known) if known.lost => {
                *known = Known { handle, leases: std::mem::take(&mut known.leases), lost: false }
            }
            Some(_) => return,
            None => self.executors.push(Known { handle, leases: Vec::new(), lost: false }),
        }
        let (query, deadline) = (self.id, self.context.connect_timeout);
        self.spawn(
            Purpose::Lease(id),
            async move { Ended::Lease(id, attempt::open_lease(control, query, deadline).await) },
        );
    }

    fn spawn(&mut self, purpose: Purpose, task: impl Future<Output = Ended> + Send + 'static) -> AbortHandle {
        let abort = self.tasks.spawn(task);
        self.purposes.insert(abort.id(), purpose);
        abort
    }

    /// Opens the leases; returns when all have answered, or some and the others take long.
    async fn open(&mut self) -> Result<()> {
        let mut patience = None;
        while !self.purposes.is_empty() {
            let until = patience.unwrap_or_else(|| Instant::now() + self.context.connect_timeout * 2);
            match tokio::time::timeout_at(until.into(), self.tasks.join_next_with_id()).await {
                Ok(Some(ended)) => self.ended(ended),
                Ok(None) | Err(_) => break,
            }
            if patience.is_none() && self.executors.iter().any(|known| !known.leases.is_empty()) {
                patience = Some(Instant::now() + START_PATIENCE);
            }
        }
        if self.executors.iter().all(|known| known.leases.is_empty()) {
            return Err(match self.first_refusal.take() {
                Some(refusal) if refusal.class() == ErrorClass::Fatal => refusal,
                Some(refusal) => {
                    VolleyError::new(ErrorCode::NoExecutors, format!("no executor can be used: {refusal}"))
                        .with_source(refusal)
                }
                None => VolleyError::new(ErrorCode::NoExecutors, "the cluster has no live executor"),
            });
        }
        // In the order they were given, not in which they answered: every query then deals its tasks alike.
        let leased = self.executors.iter().filter(|known| !known.leases.is_empty());
        for executor in leased.map(|known| known.handle.info.id).collect::<Vec<_>>() {
            self.introduce(executor);
        }
        self.opened = true;
        self.tell(Event::Start);
        Ok(())
    }

    /// Goes on until the results are stored or the query is over.
    async fn turn(&mut self) -> Result<Vec<StageInput>> {
        loop {
            while let Some(action) = self.machine.poll_action() {
                match action {
                    Action::ResultReady { result } => return Ok(result),
                    Action::Fail(error) | Action::RunInSession(error) => {
                        self.end = Some(error.clone_without_source());
                        return Err(error);
                    }
                    Action::Done => return Err(VolleyError::internal("the query's results were given up")),
                    action => self.act(action),
                }
            }
            let granted = self.slots.take_granted();
            if !granted.is_empty() {
                for (request, executor) in granted {
                    self.tell(Event::SlotGranted { request, executor });
                }
                continue;
            }
            self.say_waiting();
            self.wait().await?;
        }
    }

    /// Waits for the next event and takes it in. Cancel safe.
    async fn wait(&mut self) -> Result<()> {
        let wake_at = self.machine.wake_at_ms().map(|at| self.started + Duration::from_millis(at));
        if self.tasks.is_empty() && wake_at.is_none() && self.waiting == 0 {
            return Err(VolleyError::internal(format!("{:?} has nothing to wait for", self.id)));
        }
        tokio::select! {
            Some(ended) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => self.ended(ended),
            () = self.slots.granted() => {}
            handle = arrival(&mut self.arrivals) => self.welcome(handle),
            () = tokio::time::sleep_until(wake_at.unwrap_or_else(Instant::now).into()), if wake_at.is_some() => {
                self.tell(Event::Tick);
            }
        }
        Ok(())
    }

    fn say_waiting(&mut self) {
        let waiting = self.machine.waiting_tasks();
        if waiting != self.waiting {
            self.waiting = waiting;
            self.say(QueryEvent::Waiting { tasks: waiting });
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::RequestSlot(request) => self.slots.request(request),
            Action::WithdrawSlot { request } => self.slots.release(request),
            Action::Launch(launch) => self.launch(launch),
            Action::CancelTask { attempt } => {
                if let Some(running) = self.running.remove(&attempt) {
                    running.abort.abort();
                    if let Some(request) = running.request {
                        self.slots.release(request);
                    }
                }
            }
            Action::Probe { executor } => {
                let Some(control) = self.control(executor) else { return };
                let (query, deadline) = (self.id, self.context.connect_timeout);
                self.spawn(Purpose::Probe(executor), async move {
                    Ended::Probe(executor, attempt::probe(control, executor, query, deadline).await)
                });
            }
            Action::FreeStage { stage, executors } => {
                self.say(QueryEvent::StageFreed { stage });
                let controls = executors.iter().filter_map(|id| self.control(*id)).collect();
                let (query, deadline) = (self.id, self.context.connect_timeout);
                self.spawn(Purpose::Free(stage), async move {
                    attempt::free(controls, query, Some(stage), deadline).await;
                    Ended::Freed(stage)
                });
            }
            Action::StageStarted { stage } => {
                let tasks = self.graph.stages().get(stage.index()).map_or(0, |stage| stage.tasks);
                self.say(QueryEvent::StageStarted { stage, tasks });
            }
            Action::StageFinished { stage } => {
                let (mut rows, mut bytes) = (0, 0);
                for task in self.machine.finished().stage(stage).into_iter().flatten() {
                    rows += task.report.output.rows();
                    bytes += task.report.output.bytes();
                }
                self.say(QueryEvent::StageFinished { stage, rows, bytes });
            }
            Action::Retry { attempt, error } => {
                let reason = error.clone_without_source().to_string();
                tracing::info!(%attempt, reason, "a task runs again");
                self.say(QueryEvent::Retry { attempt, code: error.code, reason });
            }
            Action::ExecutorLost { executor, reason } => {
                tracing::warn!(%executor, reason, "executor lost");
                if let Some(known) = self.known(executor) {
                    known.lost = true;
                }
                self.say(QueryEvent::ExecutorLost { executor, reason });
            }
            // `turn` takes these.
            Action::ResultReady { .. } | Action::Fail(_) | Action::RunInSession(_) | Action::Done => {}
        }
    }

    fn known(&mut self, executor: ExecutorId) -> Option<&mut Known> {
        self.executors.iter_mut().find(|known| known.handle.info.id == executor)
    }

    fn control(&self, executor: ExecutorId) -> Option<Arc<dyn ExecutorControl>> {
        let known = self.executors.iter().find(|known| known.handle.info.id == executor)?;
        Some(Arc::clone(&known.handle.control))
    }

    fn launch(&mut self, launch: Launch) {
        let (id, executor, request) = (launch.attempt, launch.executor, launch.request);
        self.say(QueryEvent::TaskLaunched { attempt: id, executor });
        let (context, finished) = (self.context.clone(), self.machine.finished().clone());
        let control = self.control(executor);
        let abort = self.spawn(Purpose::Attempt(id), async move {
            let ended = match (launch.place, control) {
                (Place::Session, _) => attempt::run_in_session(launch, finished, context).await,
                (Place::Executors, Some(control)) => attempt::run_on_executor(launch, control, finished, context).await,
                (Place::Executors, None) => Err(VolleyError::internal(format!("no way to executor {executor}"))),
            };
            Ended::Attempt(id, ended)
        });
        self.running.insert(id, Running { abort, executor, request });
    }

    fn ended(&mut self, ended: Result<(Id, Ended), JoinError>) {
        let ended = match ended {
            Ok((id, ended)) => {
                self.purposes.remove(&id);
                ended
            }
            Err(error) => {
                let Some(purpose) = self.purposes.remove(&error.id()) else { return };
                if error.is_cancelled() {
                    return;
                }
                match purpose {
                    Purpose::Attempt(attempt) => {
                        let panicked = VolleyError::new(ErrorCode::TaskPanicked, format!("{attempt} panicked"));
                        Ended::Attempt(attempt, Err(panicked.with_source(error)))
                    }
                    Purpose::Probe(executor) => Ended::Probe(executor, Err(error.to_string())),
                    Purpose::Free(stage) => Ended::Freed(stage),
                    Purpose::Lease(executor) => Ended::Lease(
                        executor,
                        Err(VolleyError::internal("opening a lease panicked").with_source(error)),
                    ),
                }
            }
        };
        match ended {
            Ended::Attempt(attempt, ended) => self.attempt_ended(attempt, ended),
            Ended::Probe(executor, answer) => {
                let alive = answer.map(|lease| self.keep(executor, lease));
                self.tell(Event::Probed { executor, alive });
            }
            Ended::Freed(stage) => self.tell(Event::StageFreed { stage }),
            Ended::Lease(executor, Ok(lease)) => self.joined(executor, lease),
            Ended::Lease(executor, Err(error)) => {
                let reason = error.to_string();
                tracing::warn!(%executor, reason, "an executor gives no lease");
                if let Some(known) = self.known(executor) {
                    known.lost = true;
                }
                self.say(QueryEvent::ExecutorLost { executor, reason });
                self.first_refusal.get_or_insert(error);
            }
        }
    }

    fn keep(&mut self, executor: ExecutorId, lease: Box<dyn Lease>) {
        if let Some(known) = self.known(executor) {
            known.leases.push(lease);
        }
    }

    fn joined(&mut self, executor: ExecutorId, lease: Box<dyn Lease>) {
        self.keep(executor, lease);
        if self.opened {
            self.introduce(executor);
            self.tell(Event::Tick);
        }
    }

    fn introduce(&mut self, executor: ExecutorId) {
        let Some(known) = self.known(executor) else { return };
        let (endpoint, slots) = (Arc::clone(&known.handle.info.endpoint), known.handle.info.slots.max(1));
        self.slots.add_executor(executor, slots);
        self.tell(Event::ExecutorUp { executor, endpoint, slots });
        self.say(QueryEvent::ExecutorJoined { executor });
    }

    fn attempt_ended(&mut self, attempt: TaskAttempt, ended: Result<TaskReport>) {
        // An attempt that was cancelled while it ended is no longer ours.
        let Some(running) = self.running.remove(&attempt) else { return };
        if let Some(request) = running.request {
            self.slots.release(request);
        }
        match ended {
            Ok(report) => {
                self.say(QueryEvent::TaskFinished {
                    attempt,
                    executor: running.executor,
                    rows: report.output.rows(),
                    bytes: report.output.bytes(),
                    exchange: report.exchange,
                    elapsed_ms: report.elapsed_ms,
                });
                self.tell(Event::TaskFinished { attempt, report });
            }
            Err(error) => self.tell(Event::TaskFailed { attempt, error }),
        }
    }
}

impl Drop for QueryRun {
    fn drop(&mut self) {
        let mut tasks = std::mem::take(&mut self.tasks);
        tasks.abort_all();
        let executors = std::mem::take(&mut self.executors);
        let controls = executors
            .iter()
            .filter(|known| !known.lost && !known.leases.is_empty())
            .map(|known| Arc::clone(&known.handle.control))
            .collect();
        let (query, deadline) = (self.id, self.context.connect_timeout);
        self.cleanup.spawn(&self.runtime, async move {
            tasks.shutdown().await;
            attempt::free(controls, query, None, deadline).await;
            drop(executors);
        });
    }
}

/// The next late executor; waits for ever when nobody looks for any.
async fn arrival(arrivals: &mut Option<mpsc::Receiver<ExecutorHandle>>) -> ExecutorHandle {
    if let Some(receiver) = arrivals {
        if let Some(handle) = receiver.recv().await {
            return handle;
        }
        *arrivals = None;
    }
    std::future::pending().await
}
