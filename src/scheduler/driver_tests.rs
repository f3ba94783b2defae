//! Queries against executors in memory that fail by script.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use crate::control::{ExecutorControl, Lease, TaskEvents};
use crate::error::{ErrorClass, ErrorCode, Result, VolleyError};
use crate::ids::{ExecutorId, QueryId, StageId, TaskAttempt};
use crate::scheduler::{
    CleanupTasks, ExecutorHandle, FinishedStages, Place, QueryEvent, QueryOptions, QueryOutcome, QueryRequest,
    SchedulerOptions, SchedulerStage, SessionTask, SlotPool, StageGraph, TaskSource, run_query,
};
use crate::wire::{ExecutorInfo, OutputSummary, PartitionSummary, StageInput, TaskDefinition, TaskEvent, TaskReport};

/// What an attempt does.
#[derive(Clone, Debug)]
enum Act {
    Finish {
        after_ms: u64,
    },
    Fail(ErrorCode),
    /// Its stream ends without a final event.
    Break,
    /// Its stream stays silent.
    Hang,
    /// Its executor dies with it.
    Kill,
}

type Script = Arc<dyn Fn(TaskAttempt, ExecutorId) -> Act + Send + Sync>;

/// All executors' state in one place, so that a reader can look for its inputs.
#[derive(Default)]
struct World {
    stored: Mutex<BTreeMap<ExecutorId, BTreeSet<TaskAttempt>>>,
    launched: Mutex<Vec<(TaskAttempt, ExecutorId)>>,
    freed: Mutex<Vec<(ExecutorId, Option<StageId>)>>,
    running: AtomicUsize,
    most_running: AtomicUsize,
    leases: AtomicUsize,
    session_tasks: AtomicUsize,
}

/// Counts up while it lives.
struct Count(Arc<World>, fn(&World) -> &AtomicUsize);

impl Count {
    fn new(world: &Arc<World>, which: fn(&World) -> &AtomicUsize) -> Self {
        which(world).fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(world), which)
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.1(&self.0).fetch_sub(1, Ordering::SeqCst);
    }
}

struct FakeExecutor {
    world: Arc<World>,
    info: ExecutorInfo,
    script: Script,
    alive: watch::Sender<bool>,
}

impl std::fmt::Debug for FakeExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.info.id.fmt(f)
    }
}

struct FakeLease(#[expect(dead_code, reason = "counts")] Count);

impl std::fmt::Debug for FakeLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("lease")
    }
}

impl Lease for FakeLease {}

impl FakeExecutor {
    fn kill(&self) {
        self.alive.send_replace(false);
        self.world.stored.lock().remove(&self.info.id);
    }

    fn check_alive(&self) -> Result<()> {
        if *self.alive.borrow() { Ok(()) } else { Err(VolleyError::new(ErrorCode::Unreachable, "connection refused")) }
    }
}

fn report() -> TaskReport {
    let partitions = vec![PartitionSummary { rows: 3, bytes: 24, blocks: 1 }];
    TaskReport { output: OutputSummary { partitions, spilled_bytes: 0 }, ..TaskReport::default() }
}

/// The first input that is not where it should be.
fn missing(world: &World, query: QueryId, inputs: &[StageInput]) -> Option<TaskAttempt> {
    let stored = world.stored.lock();
    inputs.iter().flat_map(|input| input.outputs.iter().map(move |output| (input.stage, output))).find_map(
        |(stage, output)| {
            let wanted = TaskAttempt { query, stage, task: output.task, attempt: output.attempt };
            let there = stored.get(&output.executor).is_some_and(|stored| stored.contains(&wanted));
            (!there).then_some(wanted)
        },
    )
}

#[async_trait]
impl ExecutorControl for FakeExecutor {
    async fn handshake(&self) -> Result<ExecutorInfo> {
        self.check_alive()?;
        Ok(self.info.clone())
    }

    async fn launch(&self, task: TaskDefinition) -> Result<TaskEvents> {
        self.check_alive()?;
        let (world, id, attempt) = (Arc::clone(&self.world), self.info.id, task.id);
        world.launched.lock().push((attempt, id));
        let count = Count::new(&world, |world| &world.running);
        world.most_running.fetch_max(world.running.load(Ordering::SeqCst), Ordering::SeqCst);
        let act = (self.script)(attempt, id);
        if matches!(act, Act::Kill) {
            self.kill();
        }
        let mut alive = self.alive.subscribe();
        let end = async move {
            let _count = count;
            let work = async {
                match act {
                    Act::Finish { after_ms } => tokio::time::sleep(Duration::from_millis(after_ms)).await,
                    Act::Hang => std::future::pending().await,
                    Act::Fail(code) => return Some(Ok(TaskEvent::Failed(VolleyError::new(code, "by script")))),
                    Act::Break | Act::Kill => return None,
                }
                if let Some(output) = missing(&world, attempt.query, &task.inputs) {
                    let lost = VolleyError::new(ErrorCode::OutputLost, "not there").with_lost_output(output);
                    return Some(Ok(TaskEvent::Failed(lost)));
                }
                world.stored.lock().entry(id).or_default().insert(attempt);
                Some(Ok(TaskEvent::Finished(Box::new(report()))))
            };
            tokio::select! {
                biased;
                _ = alive.wait_for(|alive| !alive) => Some(Err(VolleyError::new(ErrorCode::AttemptLost, "stream broke"))),
                event = work => event,
            }
        };
        let progress = futures::stream::iter([Ok(TaskEvent::Progress { rows: 1, bytes: 8 })]);
        Ok(progress.chain(futures::stream::once(end).filter_map(std::future::ready)).boxed())
    }

    async fn lease(&self, _query: QueryId) -> Result<Box<dyn Lease>> {
        self.check_alive()?;
        Ok(Box::new(FakeLease(Count::new(&self.world, |world| &world.leases))))
    }

    async fn free(&self, query: QueryId, stage: Option<StageId>) -> Result<()> {
        self.check_alive()?;
        self.world.freed.lock().push((self.info.id, stage));
        if let Some(stored) = self.world.stored.lock().get_mut(&self.info.id) {
            stored.retain(|output| output.query != query || stage.is_some_and(|stage| output.stage != stage));
        }
        Ok(())
    }
}

struct Source {
    world: Arc<World>,
    panics: bool,
}

#[async_trait]
impl TaskSource for Source {
    fn define(&self, id: TaskAttempt, inputs: &[StageInput], finished: &FinishedStages) -> Result<TaskDefinition> {
        assert!(!self.panics, "cannot encode");
        for input in inputs {
            assert!(finished.contains(input.stage), "{id} starts before {:?} has reported", input.stage);
        }
        Ok(TaskDefinition { id, plan: Bytes::new(), options: Arc::default(), inputs: inputs.to_vec() })
    }

    async fn run_in_session(&self, task: SessionTask) -> Result<TaskReport> {
        self.world.session_tasks.fetch_add(1, Ordering::SeqCst);
        self.world.stored.lock().entry(task.executor).or_default().insert(task.attempt);
        Ok(report())
    }
}

struct Bench {
    world: Arc<World>,
    executors: Vec<Arc<FakeExecutor>>,
    slots: Arc<SlotPool>,
    cleanup: Arc<CleanupTasks>,
    events: Arc<Mutex<Vec<QueryEvent>>>,
}

impl Bench {
    fn new(
        executors: u128,
        slots: u32,
        script: impl Fn(TaskAttempt, ExecutorId) -> Act + Send + Sync + 'static,
    ) -> Self {
        let world = Arc::new(World::default());
        let script: Script = Arc::new(script);
        let executors = (1..=executors)
            .map(|id| {
                Arc::new(FakeExecutor {
                    world: Arc::clone(&world),
                    info: ExecutorInfo {
                        id: ExecutorId(id),
                        endpoint: format!("fake:{id}").into(),
                        slots,
                        build: String::new(),
                        pid: 0,
                        functions: Vec::new(),
                    },
                    script: Arc::clone(&script),
                    alive: watch::Sender::new(true),
                })
            })
            .collect();
        Self { world, executors, slots: SlotPool::new(), cleanup: Arc::default(), events: Arc::default() }
    }

    fn handle(&self, index: usize) -> ExecutorHandle {
        let executor = Arc::clone(&self.executors[index]);
        ExecutorHandle { info: executor.info.clone(), control: executor }
    }

    fn request(&self, graph: StageGraph) -> QueryRequest {
        let events = Arc::clone(&self.events);
        QueryRequest {
            id: QueryId::random(),
            graph,
            source: Arc::new(Source { world: Arc::clone(&self.world), panics: false }),
            executors: (0..self.executors.len()).map(|index| self.handle(index)).collect(),
            arrivals: None,
            slots: Arc::clone(&self.slots),
            events: Arc::new(move |event| events.lock().push(event)),
            cleanup: Arc::clone(&self.cleanup),
            options: QueryOptions {
                scheduler: SchedulerOptions { retry_delay_ms: 1, ..SchedulerOptions::default() },
                connect_timeout: Duration::from_secs(2),
                stall_timeout: Duration::from_millis(200),
            },
        }
    }

    async fn run(&self, graph: StageGraph) -> Result<QueryOutcome> {
        // On another thread, as `run_query`'s future has to be `Send`.
        tokio::spawn(run_query(self.request(graph))).await.expect("the query does not panic")
    }

    /// Ends the query and checks that nothing of it is left anywhere.
    async fn check_nothing_left(&self, outcome: Option<QueryOutcome>) {
        drop(outcome);
        self.cleanup.drain(Duration::from_secs(5)).await;
        assert_eq!(self.world.running.load(Ordering::SeqCst), 0, "attempts run on");
        assert_eq!(self.world.leases.load(Ordering::SeqCst), 0, "leases are left");
        assert!(self.world.stored.lock().values().all(BTreeSet::is_empty), "outputs are left");
        assert_eq!(self.slots.usage(), [], "slots are held");
    }
}

/// Two scans of four tasks, a join of four, a result of one.
fn join_graph() -> StageGraph {
    let stage = |id: u32, tasks: usize, inputs: &[u32]| SchedulerStage {
        id: StageId(id),
        tasks,
        inputs: inputs.iter().copied().map(StageId).collect(),
        soft_inputs: Vec::new(),
        quick: false,
        place: Place::Executors,
        is_result: id == 3,
    };
    StageGraph::try_new(vec![stage(0, 4, &[]), stage(1, 4, &[]), stage(2, 4, &[0, 1]), stage(3, 1, &[2])])
        .expect("a good graph")
}

fn is(attempt: TaskAttempt, stage: u32, task: u32, number: u32) -> bool {
    (attempt.stage.0, attempt.task.0, attempt.attempt.0) == (stage, task, number)
}

const QUICK: Act = Act::Finish { after_ms: 2 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_fault_is_survived() {
    let cases: &[(&str, Act, u32)] = &[
        ("nothing", QUICK, 0),
        ("retryable", Act::Fail(ErrorCode::Disk), 0),
        ("draining", Act::Fail(ErrorCode::Draining), 2),
        ("broken stream", Act::Break, 1),
        ("silent", Act::Hang, 2),
        ("dies at the scan", Act::Kill, 1),
        ("dies at the join", Act::Kill, 2),
        ("dies at the result", Act::Kill, 3),
    ];
    for (name, act, stage) in cases {
        let (act, stage) = (act.clone(), *stage);
        let bench = Bench::new(3, 2, move |attempt, _| if is(attempt, stage, 0, 0) { act.clone() } else { QUICK });
        let outcome = bench.run(join_graph()).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(outcome.result.len(), 1, "{name}");
        assert!(missing(&bench.world, outcome.run.id(), &outcome.result).is_none(), "{name}: no result there");
        assert_eq!(outcome.finished.stages().count(), 4, "{name}");
        assert!(bench.world.most_running.load(Ordering::SeqCst) <= 6, "{name}: more tasks than slots");
        bench.check_nothing_left(Some(outcome)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_goes_elsewhere_and_inputs_are_freed() {
    let bench = Bench::new(2, 4, |attempt, _| if is(attempt, 0, 1, 0) { Act::Fail(ErrorCode::Disk) } else { QUICK });
    let outcome = bench.run(join_graph()).await.expect("succeeds");
    let on = |number| {
        bench
            .world
            .launched
            .lock()
            .iter()
            .find(|(attempt, _)| is(*attempt, 0, 1, number))
            .map(|(_, executor)| *executor)
    };
    assert_eq!((on(0), on(1)), (Some(ExecutorId(2)), Some(ExecutorId(1))));
    assert!(bench.events.lock().iter().any(|event| matches!(event, QueryEvent::Retry { code: ErrorCode::Disk, .. })));
    let freed =
        |events: &[QueryEvent]| events.iter().filter(|event| matches!(event, QueryEvent::StageFreed { .. })).count();
    assert_eq!(freed(&bench.events.lock()), 3, "all but the result");
    bench.check_nothing_left(Some(outcome)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_survived_is_a_typed_error() {
    let cases: &[(&str, Act, ErrorCode, ErrorClass)] = &[
        ("by script", Act::Fail(ErrorCode::TaskFailed), ErrorCode::TaskFailed, ErrorClass::Fatal),
        ("by script", Act::Fail(ErrorCode::DecodePlan), ErrorCode::DecodePlan, ErrorClass::RunInSession),
        ("failed 3 times", Act::Fail(ErrorCode::Disk), ErrorCode::Disk, ErrorClass::RetryTask),
        ("no sign of life", Act::Hang, ErrorCode::DeadlineExceeded, ErrorClass::RetryTask),
        ("connection refused", Act::Kill, ErrorCode::NoExecutors, ErrorClass::Fatal),
    ];
    for (text, act, code, class) in cases {
        let act = act.clone();
        let bench = Bench::new(2, 2, move |attempt, _| if attempt.stage.0 == 2 { act.clone() } else { QUICK });
        let error = bench.run(join_graph()).await.err().expect("fails");
        assert_eq!((error.code, error.class()), (*code, *class), "{error}");
        assert!(error.to_string().contains(text), "{error}");
        bench.check_nothing_left(None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn absent_executors() {
    let bench = Bench::new(2, 2, |_, _| QUICK);
    bench.executors[1].kill();
    let outcome = bench.run(join_graph()).await.expect("one is enough");
    bench.check_nothing_left(Some(outcome)).await;
    bench.executors[0].kill();
    let error = bench.run(join_graph()).await.err().expect("fails");
    assert_eq!(error.code, ErrorCode::NoExecutors);
    assert!(error.to_string().contains("connection refused"), "{error}");
    bench.check_nothing_left(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_executor_is_used() {
    let bench = Bench::new(2, 1, |_, _| Act::Finish { after_ms: 30 });
    let (sender, arrivals) = mpsc::channel(1);
    let mut request = bench.request(join_graph());
    request.executors.truncate(1);
    request.arrivals = Some(arrivals);
    let late = bench.handle(1);
    let (outcome, ()) = tokio::join!(run_query(request), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        sender.send(late).await.expect("the query listens");
    });
    let outcome = outcome.expect("succeeds");
    assert!(bench.world.launched.lock().iter().any(|(_, executor)| *executor == ExecutorId(2)));
    bench.check_nothing_left(Some(outcome)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_future_stops_everything() {
    let bench = Bench::new(2, 2, |_, _| Act::Hang);
    let mut request = bench.request(join_graph());
    request.options.stall_timeout = Duration::from_secs(60);
    let query = tokio::spawn(run_query(request));
    while bench.world.running.load(Ordering::SeqCst) < 4 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let asked = Instant::now();
    query.abort();
    assert!(query.await.is_err());
    bench.check_nothing_left(None).await;
    assert!(asked.elapsed() < Duration::from_secs(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_result_is_made_again_until_rows_are_delivered() {
    let bench = Bench::new(3, 2, |_, _| QUICK);
    let mut outcome = bench.run(join_graph()).await.expect("succeeds");
    let lost = |outcome: &QueryOutcome, result: &[StageInput]| {
        let output = &result[0].outputs[0];
        let id =
            TaskAttempt { query: outcome.run.id(), stage: result[0].stage, task: output.task, attempt: output.attempt };
        (output.executor, VolleyError::new(ErrorCode::OutputLost, "not there").with_lost_output(id))
    };
    let (holder, error) = lost(&outcome, &outcome.result);
    bench.executors.iter().find(|executor| executor.info.id == holder).expect("known").kill();
    let result = outcome.run.recover(error).await.expect("made again");
    assert!(missing(&bench.world, outcome.run.id(), &result).is_none());

    outcome.run.rows_delivered();
    let (_, error) = lost(&outcome, &result);
    assert_eq!(outcome.run.recover(error).await.expect_err("refused").code, ErrorCode::ResultLost);
    bench.check_nothing_left(Some(outcome)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_stage_and_panicking_encoder() {
    let mut stages = join_graph().stages().to_vec();
    stages[0].place = Place::Session;
    let graph = StageGraph::try_new(stages).expect("a good graph");
    let bench = Bench::new(2, 2, |_, _| QUICK);
    let outcome = bench.run(graph.clone()).await.expect("succeeds");
    assert_eq!(bench.world.session_tasks.load(Ordering::SeqCst), 4);
    bench.check_nothing_left(Some(outcome)).await;

    let mut request = bench.request(graph);
    request.source = Arc::new(Source { world: Arc::clone(&bench.world), panics: true });
    assert_eq!(run_query(request).await.err().expect("fails").class(), ErrorClass::RunInSession);
    bench.check_nothing_left(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_share_slots() {
    let bench = Bench::new(2, 1, |_, _| Act::Finish { after_ms: 3 });
    let queries = futures::future::join_all((0..5).map(|_| bench.run(join_graph()))).await;
    assert!(queries.iter().all(Result::is_ok));
    assert!(bench.world.most_running.load(Ordering::SeqCst) <= 2, "more tasks than slots");
    assert!(bench.events.lock().iter().any(|event| matches!(event, QueryEvent::Waiting { tasks } if *tasks > 0)));
    drop(queries);
    bench.check_nothing_left(None).await;
}
