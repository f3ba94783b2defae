//! Seeded simulation: random graphs, several queries on one pool of slots, random failures, losses, delays.
//!
//! Every run must end with all results or a typed error, must never break an invariant, and an attempt must never
//! succeed with an input that is not there. `VOLLEY_SIM_SEED=n` replays one run; `VOLLEY_SIM_RUNS=n` sets how many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::error::{ErrorClass, ErrorCode, VolleyError};
use crate::ids::{ExecutorId, QueryId, StageId, TaskAttempt, TaskId};
use crate::scheduler::graph::{Place, SchedulerStage, StageGraph};
use crate::scheduler::slots::{SlotClient, SlotPool};
use crate::scheduler::state::{Action, Event, Launch, Scheduler, SchedulerOptions};
use crate::wire::{OutputSummary, PartitionSummary, StageInput, TaskReport};

/// A run of this many events is stuck in a loop: the largest honest ones have a few thousand.
const MOST_EVENTS: usize = 200_000;

/// How unkind the world is, each in percent.
#[derive(Clone, Copy, Debug)]
struct Weather {
    fails: u32,
    fatal: u32,
    in_session: u32,
    stale_reports: u32,
    corrupt: u32,
    crashes: u32,
    restarts: u32,
    false_alarms: u32,
    result_losses: u32,
    cancels: u32,
}

impl Weather {
    fn random(rng: &mut StdRng) -> Self {
        if rng.random_ratio(1, 5) {
            return Self {
                fails: 0,
                fatal: 0,
                in_session: 0,
                stale_reports: 0,
                corrupt: 0,
                crashes: 0,
                restarts: 0,
                false_alarms: 0,
                result_losses: 0,
                cancels: 0,
            };
        }
        let mut up_to = |most: u32| if rng.random_ratio(1, 2) { rng.random_range(0..=most) } else { 0 };
        Self {
            fails: up_to(15),
            fatal: up_to(1),
            in_session: up_to(1),
            stale_reports: up_to(20),
            corrupt: up_to(5),
            crashes: up_to(8),
            restarts: up_to(100),
            false_alarms: up_to(10),
            result_losses: up_to(30),
            cancels: up_to(5),
        }
    }
}

#[derive(Debug)]
struct SimExecutor {
    id: ExecutorId,
    slots: u32,
    alive: bool,
    /// Committed outputs.
    stored: BTreeSet<TaskAttempt>,
}

struct SimQuery {
    machine: Scheduler,
    graph: StageGraph,
    slots: SlotClient,
    running: BTreeMap<TaskAttempt, Launch>,
    /// What came out, for the check that the same events give the same actions.
    log: Vec<String>,
    end: Option<Result<(), VolleyError>>,
    results_read: u32,
}

#[derive(Debug)]
enum Happening {
    AttemptEnds(usize, TaskAttempt),
    Late(usize, TaskAttempt),
    Probed(usize, ExecutorId),
    Freed(usize, StageId),
    ReadResult(usize, Vec<StageInput>),
    Crash(ExecutorId),
    Cancel(usize),
    Tick(usize),
}

struct Sim {
    rng: StdRng,
    weather: Weather,
    now: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    executors: Vec<SimExecutor>,
    queries: Vec<SimQuery>,
}

fn random_graph(rng: &mut StdRng) -> StageGraph {
    let count = rng.random_range(1..=12_u32);
    let mut stages: Vec<SchedulerStage> = (0..count)
        .map(|id| {
            let mut inputs = Vec::new();
            let mut soft_inputs = Vec::new();
            for _ in 0..rng.random_range(0..3) {
                if id > 0 {
                    inputs.push(StageId(rng.random_range(0..id)));
                }
                if rng.random_ratio(1, 3) {
                    soft_inputs.push(StageId(rng.random_range(0..count)));
                }
            }
            SchedulerStage {
                id: StageId(id),
                tasks: rng.random_range(1..=6),
                inputs,
                soft_inputs,
                quick: rng.random_ratio(1, 2),
                place: if rng.random_ratio(1, 6) { Place::Session } else { Place::Executors },
                is_result: rng.random_ratio(1, 10),
            }
        })
        .collect();
    if let Some(last) = stages.last_mut() {
        last.is_result = true;
    }
    StageGraph::try_new(stages).expect("a random graph is well-formed")
}

fn report(tasks: usize) -> TaskReport {
    let partitions = vec![PartitionSummary { rows: tasks as u64, bytes: 8, blocks: 1 }; 2];
    TaskReport { output: OutputSummary { partitions, spilled_bytes: 0 }, ..TaskReport::default() }
}

impl Sim {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let weather = Weather::random(&mut rng);
        let executors = (0..rng.random_range(1..=4_u128))
            .map(|id| SimExecutor {
                id: ExecutorId(id + 1),
                slots: rng.random_range(1..=4),
                alive: true,
                stored: BTreeSet::new(),
            })
            .collect::<Vec<_>>();
        let pool = SlotPool::new();
        let queries = (0..rng.random_range(1..=3_u128))
            .map(|query| {
                let graph = random_graph(&mut rng);
                let options = SchedulerOptions {
                    max_attempts: rng.random_range(1..=4),
                    soft_wait_ms: rng.random_range(0..200),
                    session_tasks: rng.random_range(1..=3),
                    ..SchedulerOptions::default()
                };
                SimQuery {
                    machine: Scheduler::new(QueryId(query), graph.clone(), options),
                    graph,
                    slots: pool.join(executors.iter().map(|executor| (executor.id, executor.slots))),
                    running: BTreeMap::new(),
                    log: Vec::new(),
                    end: None,
                    results_read: 0,
                }
            })
            .collect();
        Self { rng, weather, now: 0, queue: BTreeMap::new(), sequence: 0, executors, queries }
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    fn later(&mut self, most_ms: u64, happening: Happening) {
        self.sequence += 1;
        let at = self.now + self.rng.random_range(1..=most_ms);
        self.queue.insert((at, self.sequence), happening);
    }

    fn executor(&mut self, id: ExecutorId) -> Option<&mut SimExecutor> {
        self.executors.iter_mut().find(|executor| executor.id == id)
    }

    fn holds(&self, executor: ExecutorId, output: TaskAttempt) -> bool {
        self.executors.iter().any(|one| one.id == executor && one.alive && one.stored.contains(&output))
    }

    fn run(&mut self) {
        for query in 0..self.queries.len() {
            let up: Vec<Event> = self
                .executors
                .iter()
                .map(|executor| Event::ExecutorUp {
                    executor: executor.id,
                    endpoint: Arc::from("sim"),
                    slots: executor.slots,
                })
                .collect();
            for event in up {
                self.tell(query, event);
            }
            self.tell(query, Event::Start);
            if self.chance(self.weather.cancels) {
                self.later(500, Happening::Cancel(query));
            }
        }
        for index in 0..self.executors.len() {
            if self.chance(self.weather.crashes * 4) {
                let id = self.executors[index].id;
                self.later(600, Happening::Crash(id));
            }
        }
        for _ in 0..MOST_EVENTS {
            let Some(((at, _), happening)) = self.queue.pop_first() else {
                for (index, query) in self.queries.iter().enumerate() {
                    assert!(query.end.is_some(), "query {index} waits for ever: {:#?}", query.machine);
                    assert!(query.running.is_empty(), "query {index} left attempts running");
                }
                return;
            };
            self.now = at;
            self.happen(happening);
        }
        panic!("does not end");
    }

    fn tell(&mut self, query: usize, event: Event) {
        let now = self.now;
        let one = &mut self.queries[query];
        one.log.push(format!("{now} {event:?}"));
        one.machine.handle(now, event);
        if let Err(broken) = one.machine.check_invariants() {
            panic!("query {query}: {broken}");
        }
        self.act(query);
        // A slot that this query gave back may suit another one.
        for other in 0..self.queries.len() {
            self.act(other);
        }
    }

    fn act(&mut self, query: usize) {
        loop {
            while let Some(action) = self.queries[query].machine.poll_action() {
                self.queries[query].log.push(format!("    {action:?}"));
                self.act_one(query, action);
            }
            let granted = self.queries[query].slots.take_granted();
            if granted.is_empty() {
                break;
            }
            for (request, executor) in granted {
                let now = self.now;
                let one = &mut self.queries[query];
                one.log.push(format!("{now} granted {request:?} {executor:?}"));
                one.machine.handle(now, Event::SlotGranted { request, executor });
                one.machine.check_invariants().unwrap_or_else(|broken| panic!("query {query}: {broken}"));
            }
        }
        if let Some(at) = self.queries[query].machine.wake_at_ms() {
            self.sequence += 1;
            // Two ticks for one moment do no harm; the queue would otherwise have to be searched.
            if !self
                .queue
                .iter()
                .any(|((due, _), what)| *due == at.max(self.now) && matches!(what, Happening::Tick(q) if *q == query))
            {
                self.queue.insert((at.max(self.now), self.sequence), Happening::Tick(query));
            }
        }
    }

    fn act_one(&mut self, query: usize, action: Action) {
        assert!(
            self.queries[query].end.is_none() || matches!(action, Action::WithdrawSlot { .. }),
            "acts after its end"
        );
        match action {
            Action::RequestSlot(request) => self.queries[query].slots.request(request),
            Action::WithdrawSlot { request } => self.queries[query].slots.release(request),
            Action::Launch(launch) => self.launch(query, launch),
            Action::CancelTask { attempt } => {
                let launch = self.queries[query].running.remove(&attempt).expect("cancels what does not run");
                self.release(query, &launch);
                if self.chance(self.weather.stale_reports) {
                    self.later(100, Happening::Late(query, attempt));
                }
            }
            Action::Probe { executor } => self.later(80, Happening::Probed(query, executor)),
            Action::FreeStage { stage, executors } => {
                self.check_nobody_reads(query, stage);
                for id in executors {
                    let id_of_query = QueryId(query as u128);
                    if let Some(executor) = self.executor(id) {
                        executor.stored.retain(|output| output.query != id_of_query || output.stage != stage);
                    }
                }
                self.later(30, Happening::Freed(query, stage));
            }
            Action::ResultReady { result } => self.later(100, Happening::ReadResult(query, result)),
            Action::RunInSession(error) => {
                assert_eq!(error.class(), ErrorClass::RunInSession);
                self.queries[query].end = Some(Err(error));
            }
            Action::Fail(error) => self.queries[query].end = Some(Err(error)),
            Action::Done => self.queries[query].end = Some(Ok(())),
            Action::StageStarted { .. }
            | Action::StageFinished { .. }
            | Action::Retry { .. }
            | Action::ExecutorLost { .. } => {}
        }
    }

    fn check_nobody_reads(&self, query: usize, stage: StageId) {
        let one = &self.queries[query];
        for attempt in one.running.keys() {
            let reads = &one.graph.stages()[attempt.stage.index()].inputs;
            assert!(!reads.contains(&stage), "{stage:?} is freed while {attempt:?} reads it");
        }
    }

    fn launch(&mut self, query: usize, launch: Launch) {
        let spec = &self.queries[query].graph.stages()[launch.attempt.stage.index()];
        assert_eq!(launch.place, spec.place);
        assert_eq!(launch.request.is_some(), spec.place == Place::Executors);
        let inputs = spec.inputs.clone();
        assert_eq!(launch.inputs.iter().map(|input| input.stage).collect::<Vec<_>>(), inputs);
        for input in launch.inputs.iter() {
            let tasks = self.queries[query].graph.stages()[input.stage.index()].tasks;
            let found: Vec<_> = input.outputs.iter().map(|output| output.task.index()).collect();
            assert_eq!(
                found,
                (0..tasks).collect::<Vec<_>>(),
                "{:?} starts on half of {:?}",
                launch.attempt,
                input.stage
            );
        }
        let used: u32 = self
            .queries
            .iter()
            .flat_map(|one| one.running.values())
            .filter(|other| other.executor == launch.executor && other.place == Place::Executors)
            .count() as u32;
        if launch.place == Place::Executors
            && let Some(executor) = self.executor(launch.executor)
        {
            assert!(used < executor.slots, "{:?} has no slot for {:?}", launch.executor, launch.attempt);
        }
        let attempt = launch.attempt;
        let twin =
            self.queries[query].running.keys().find(|other| other.stage == attempt.stage && other.task == attempt.task);
        assert!(twin.is_none(), "{attempt:?} runs beside {twin:?}");
        self.queries[query].running.insert(attempt, launch);
        self.later(120, Happening::AttemptEnds(query, attempt));
    }

    fn release(&mut self, query: usize, launch: &Launch) {
        if let Some(request) = launch.request {
            self.queries[query].slots.release(request);
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::AttemptEnds(query, attempt) => self.attempt_ends(query, attempt),
            Happening::Late(query, attempt) => self.tell(query, Event::TaskFinished { attempt, report: report(1) }),
            Happening::Probed(query, id) => {
                let alive = self.executor(id).is_some_and(|executor| executor.alive);
                let alive = if alive { Ok(()) } else { Err("another instance answers".to_owned()) };
                self.tell(query, Event::Probed { executor: id, alive });
            }
            Happening::Freed(query, stage) => self.tell(query, Event::StageFreed { stage }),
            Happening::ReadResult(query, result) => self.read_result(query, result),
            Happening::Crash(id) => self.crash(id),
            Happening::Cancel(query) => self.tell(query, Event::Cancel),
            Happening::Tick(query) => self.tell(query, Event::Tick),
        }
    }

    fn attempt_ends(&mut self, query: usize, attempt: TaskAttempt) {
        let Some(launch) = self.queries[query].running.remove(&attempt) else { return };
        self.release(query, &launch);
        let event = match self.outcome(&launch) {
            Ok(report) => {
                if let Some(executor) = self.executor(launch.executor) {
                    executor.stored.insert(attempt);
                }
                Event::TaskFinished { attempt, report }
            }
            Err(error) => Event::TaskFailed { attempt, error },
        };
        self.tell(query, event);
        if self.chance(self.weather.stale_reports) {
            self.later(50, Happening::Late(query, TaskAttempt { task: TaskId(99), ..attempt }));
        }
        if self.chance(self.weather.crashes) && self.rng.random_ratio(1, 10) {
            let id = launch.executor;
            self.crash(id);
        }
    }

    fn outcome(&mut self, launch: &Launch) -> Result<TaskReport, VolleyError> {
        let error = |code: ErrorCode| VolleyError::new(code, "simulated");
        if !self.executor(launch.executor).is_some_and(|executor| executor.alive) {
            return Err(error(ErrorCode::AttemptLost));
        }
        for input in launch.inputs.iter() {
            for location in &input.outputs {
                let output = TaskAttempt {
                    query: launch.attempt.query,
                    stage: input.stage,
                    task: location.task,
                    attempt: location.attempt,
                };
                if !self.holds(location.executor, output) {
                    let code = if self.chance(50) { ErrorCode::Unreachable } else { ErrorCode::OutputLost };
                    return Err(error(code).with_lost_output(output));
                }
                if self.chance(self.weather.corrupt) && self.rng.random_ratio(1, 4) {
                    return Err(error(ErrorCode::Corrupt).with_lost_output(output));
                }
            }
        }
        let codes: &[ErrorCode] = if self.chance(self.weather.fatal) && self.rng.random_ratio(1, 4) {
            &[ErrorCode::TaskFailed, ErrorCode::Memory]
        } else if self.chance(self.weather.in_session) && self.rng.random_ratio(1, 4) {
            &[ErrorCode::DecodePlan]
        } else if self.chance(self.weather.fails) {
            &[ErrorCode::Disk, ErrorCode::TaskPanicked, ErrorCode::Draining, ErrorCode::Cancelled]
        } else if self.chance(self.weather.false_alarms) {
            &[ErrorCode::Unreachable, ErrorCode::DeadlineExceeded, ErrorCode::AttemptLost]
        } else {
            &[]
        };
        match codes.choose(&mut self.rng) {
            Some(code) => Err(error(*code)),
            None => Ok(report(1)),
        }
    }

    /// The process is gone; in some runs another one takes its place.
    fn crash(&mut self, id: ExecutorId) {
        let slots = match self.executor(id) {
            Some(executor) if executor.alive => {
                executor.alive = false;
                executor.stored.clear();
                executor.slots
            }
            _ => return,
        };
        if self.chance(self.weather.restarts) && self.executors.len() < 12 {
            let fresh = ExecutorId(self.executors.len() as u128 + 1);
            self.executors.push(SimExecutor { id: fresh, slots, alive: true, stored: BTreeSet::new() });
            for query in 0..self.queries.len() {
                self.queries[query].slots.add_executor(fresh, slots);
                self.tell(query, Event::ExecutorUp { executor: fresh, endpoint: Arc::from("sim"), slots });
                if self.chance(50) {
                    self.tell(query, Event::ExecutorDown { executor: id, reason: "restarted".into() });
                }
            }
        }
    }

    fn read_result(&mut self, query: usize, result: Vec<StageInput>) {
        if self.queries[query].end.is_some() {
            return;
        }
        let expect: Vec<StageId> =
            self.queries[query].graph.stages().iter().filter(|stage| stage.is_result).map(|stage| stage.id).collect();
        assert_eq!(result.iter().map(|input| input.stage).collect::<Vec<_>>(), expect);
        if self.chance(20) {
            self.tell(query, Event::ResultRowsDelivered);
        }
        self.queries[query].results_read += 1;
        for input in &result {
            for location in &input.outputs {
                let output = TaskAttempt {
                    query: QueryId(query as u128),
                    stage: input.stage,
                    task: location.task,
                    attempt: location.attempt,
                };
                let lost = !self.holds(location.executor, output);
                if lost || (self.chance(self.weather.result_losses) && self.rng.random_ratio(1, 8)) {
                    let code = if self.chance(50) { ErrorCode::Unreachable } else { ErrorCode::Truncated };
                    let error = VolleyError::new(code, "simulated").with_lost_output(output);
                    return self.tell(query, Event::ResultLost { error });
                }
            }
        }
        self.tell(query, Event::ResultRead);
    }
}

/// How one run ended, per query, and all that was said.
fn simulate(seed: u64) -> (Vec<Option<ErrorCode>>, Vec<String>) {
    let mut sim = Sim::new(seed);
    sim.run();
    let ends = sim
        .queries
        .iter()
        .map(|query| query.end.as_ref().and_then(|end| end.as_ref().err()).map(|error| error.code))
        .collect();
    (ends, sim.queries.into_iter().flat_map(|query| query.log).collect())
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_run_ends_and_no_invariant_breaks() {
    let seeds = match number("VOLLEY_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("VOLLEY_SIM_RUNS").unwrap_or(2_000),
    };
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for seed in seeds.clone() {
        let run = std::panic::catch_unwind(|| simulate(seed));
        match run {
            Ok((ended, log)) => {
                if seeds.end - seeds.start == 1 {
                    println!("{}", log.join("\n"));
                }
                for end in ended {
                    *ends.entry(end.map_or("done".into(), |code| code.to_string())).or_default() += 1;
                }
            }
            Err(panic) => {
                println!("replay with VOLLEY_SIM_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{ends:?}");
    if seeds.end - seeds.start > 100 {
        assert!(ends.get("done").is_some_and(|done| *done > 0), "no run got through: {ends:?}");
    }
}

#[test]
fn same_events_same_actions() {
    for seed in 0..50 {
        assert_eq!(simulate(seed), simulate(seed), "seed {seed}");
    }
}
