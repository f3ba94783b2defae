//! Single rules, each on the smallest graph that shows it. What must hold in any order of events is in the simulation.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Action, Event, Scheduler, SchedulerOptions, SlotRequestId};
use crate::error::{ErrorCode, VolleyError};
use crate::ids::{AttemptId, ExecutorId, QueryId, StageId, TaskAttempt, TaskId};
use crate::scheduler::graph::{Place, SchedulerStage, StageGraph};
use crate::scheduler::slots::{SlotClient, SlotPool};
use crate::wire::{OutputSummary, PartitionSummary, TaskReport};

const QUERY: QueryId = QueryId(7);

fn stage(id: u32, tasks: usize, inputs: &[u32]) -> SchedulerStage {
    SchedulerStage {
        id: StageId(id),
        tasks,
        inputs: inputs.iter().copied().map(StageId).collect(),
        soft_inputs: Vec::new(),
        quick: false,
        place: Place::Executors,
        is_result: false,
    }
}

fn task(stage: u32, task: u32, attempt: u32) -> TaskAttempt {
    TaskAttempt { query: QUERY, stage: StageId(stage), task: TaskId(task), attempt: AttemptId(attempt) }
}

/// A scheduler with a pool of its own. Actions are written as `0/1.0@2`: stage 0, task 1, attempt 0 is launched on
/// executor 2.
struct Bench {
    machine: Scheduler,
    slots: SlotClient,
    held: BTreeMap<TaskAttempt, SlotRequestId>,
    now: u64,
}

impl Bench {
    /// With executors 1, 2, … of these slots; the last stage is the result.
    fn new(mut stages: Vec<SchedulerStage>, slots: &[u32]) -> Self {
        if let Some(last) = stages.last_mut() {
            last.is_result = true;
        }
        let graph = StageGraph::try_new(stages).expect("a good graph");
        let mut machine = Scheduler::new(QUERY, graph, SchedulerOptions::default());
        let pool = SlotPool::new().join([]);
        for (index, slots) in slots.iter().enumerate() {
            let executor = ExecutorId(index as u128 + 1);
            pool.add_executor(executor, *slots);
            machine.handle(0, Event::ExecutorUp { executor, endpoint: Arc::from("x"), slots: *slots });
        }
        Self { machine, slots: pool, held: BTreeMap::new(), now: 0 }
    }

    fn on(&mut self, event: Event) -> String {
        if let Event::TaskFinished { attempt, .. } | Event::TaskFailed { attempt, .. } = &event {
            self.release(*attempt);
        }
        self.machine.handle(self.now, event);
        let mut said = Vec::new();
        loop {
            while let Some(action) = self.machine.poll_action() {
                said.extend(self.act(action));
            }
            let granted = self.slots.take_granted();
            if granted.is_empty() {
                return said.join(" ");
            }
            for (request, executor) in granted {
                self.machine.handle(self.now, Event::SlotGranted { request, executor });
            }
        }
    }

    fn act(&mut self, action: Action) -> Option<String> {
        match action {
            Action::RequestSlot(request) => self.slots.request(request),
            Action::WithdrawSlot { request } => self.slots.release(request),
            Action::CancelTask { attempt } => self.release(attempt),
            Action::Launch(launch) => {
                self.held.extend(launch.request.map(|request| (launch.attempt, request)));
                let TaskAttempt { stage, task, attempt, .. } = launch.attempt;
                return Some(format!("{stage}/{task}.{attempt}@{}", launch.executor.0));
            }
            Action::Probe { executor } => return Some(format!("probe {}", executor.0)),
            Action::FreeStage { stage, .. } => return Some(format!("free {stage}")),
            Action::ResultReady { .. } => return Some("ready".into()),
            Action::RunInSession(error) | Action::Fail(error) => return Some(error.code.to_string()),
            _ => {}
        }
        None
    }

    fn release(&mut self, attempt: TaskAttempt) {
        if let Some(request) = self.held.remove(&attempt) {
            self.slots.release(request);
        }
    }

    fn finish(&mut self, attempt: TaskAttempt) -> String {
        self.finish_with(attempt, 8)
    }

    fn finish_with(&mut self, attempt: TaskAttempt, bytes: u64) -> String {
        let output =
            OutputSummary { partitions: vec![PartitionSummary { rows: 1, bytes, blocks: 1 }], spilled_bytes: 0 };
        self.on(Event::TaskFinished { attempt, report: TaskReport { output, ..TaskReport::default() } })
    }

    fn fail(&mut self, attempt: TaskAttempt, code: ErrorCode, lost: Option<TaskAttempt>) -> String {
        let error = VolleyError { lost_output: lost, ..VolleyError::new(code, "x") };
        self.on(Event::TaskFailed { attempt, error })
    }

    fn freed(&mut self, stage: u32) -> String {
        self.on(Event::StageFreed { stage: StageId(stage) })
    }

    fn down(&mut self, executor: u128) -> String {
        self.on(Event::ExecutorDown { executor: ExecutorId(executor), reason: "x".into() })
    }
}

#[test]
fn tasks_are_dealt_over_slots_and_a_single_one_goes_to_its_input() {
    let mut bench = Bench::new(vec![stage(0, 5, &[]), stage(1, 1, &[0])], &[1, 3]);
    // The fifth waits: there are four slots.
    assert_eq!(bench.on(Event::Start), "0/0.0@1 0/1.0@2 0/2.0@2 0/3.0@2");
    assert_eq!(bench.finish_with(task(0, 0, 0), 1_000), "0/4.0@1");
    for number in 1..4 {
        assert_eq!(bench.finish(task(0, number, 0)), "");
    }
    assert_eq!(bench.finish(task(0, 4, 0)), "1/0.0@1");
    assert_eq!(bench.finish(task(1, 0, 0)), "free 0 ready");
}

/// A scan (0) that stage 1 filters, joined by stage 2.
fn filtered(quick: bool) -> Vec<SchedulerStage> {
    let mut scan = stage(0, 1, &[]);
    scan.soft_inputs = vec![StageId(1)];
    let mut build = stage(1, 1, &[]);
    build.quick = quick;
    vec![scan, build, stage(2, 1, &[0, 1])]
}

#[test]
fn scan_waits_for_a_quick_filter_only() {
    let mut bench = Bench::new(filtered(true), &[4]);
    assert_eq!(bench.on(Event::Start), "1/0.0@1");
    assert_eq!(bench.finish(task(1, 0, 0)), "0/0.0@1");

    let mut bench = Bench::new(filtered(false), &[4]);
    assert_eq!(bench.on(Event::Start), "1/0.0@1 0/0.0@1");
}

#[test]
fn scan_does_not_wait_for_a_filter_that_is_late_or_fails() {
    let mut bench = Bench::new(filtered(true), &[4]);
    assert_eq!(bench.on(Event::Start), "1/0.0@1");
    bench.now = bench.machine.wake_at_ms().expect("a limit to waiting");
    assert_eq!(bench.on(Event::Tick), "0/0.0@1");

    let mut bench = Bench::new(filtered(true), &[4, 4]);
    assert_eq!(bench.on(Event::Start), "1/0.0@2");
    assert_eq!(bench.fail(task(1, 0, 0), ErrorCode::Disk, None), "1/0.1@1 0/0.0@1");
}

#[test]
fn filter_behind_a_large_stage_is_not_waited_for() {
    let mut scan = stage(0, 1, &[]);
    scan.soft_inputs = vec![StageId(2)];
    let mut build = stage(2, 1, &[1]);
    build.quick = true;
    let mut bench = Bench::new(vec![scan, stage(1, 1, &[]), build, stage(3, 1, &[0, 2])], &[4]);
    assert_eq!(bench.on(Event::Start), "1/0.0@1 0/0.0@1");
}

#[test]
fn filter_that_nobody_else_reads_runs_first_and_is_freed() {
    let mut scan = stage(1, 1, &[]);
    scan.soft_inputs = vec![StageId(0)];
    let mut keys = stage(0, 1, &[]);
    keys.quick = true;
    let mut bench = Bench::new(vec![keys, scan], &[4]);
    assert_eq!(bench.on(Event::Start), "0/0.0@1");
    assert_eq!(bench.finish(task(0, 0, 0)), "free 0 1/0.0@1");
}

#[test]
fn lost_executor_takes_back_as_far_as_something_is_missing() {
    let mut bench = Bench::new(vec![stage(0, 2, &[]), stage(1, 2, &[0]), stage(2, 1, &[1])], &[2, 2]);
    assert_eq!(bench.on(Event::Start), "0/0.0@1 0/1.0@2");
    bench.finish(task(0, 0, 0));
    assert_eq!(bench.finish(task(0, 1, 0)), "1/0.0@1 1/1.0@2");
    bench.finish(task(1, 0, 0));
    // Stage 0 has been read: it is freed, and all of it runs again when half of stage 1 is lost.
    assert_eq!(bench.finish(task(1, 1, 0)), "free 0 2/0.0@1");
    assert_eq!(bench.down(2), "");
    assert_eq!(bench.freed(0), "0/0.1@1");
    // The reader that runs finds out by itself.
    assert_eq!(bench.fail(task(2, 0, 0), ErrorCode::OutputLost, Some(task(1, 1, 0))), "0/1.1@1");
    bench.finish(task(0, 0, 1));
    assert_eq!(bench.finish(task(0, 1, 1)), "1/1.1@1");
    assert_eq!(bench.finish(task(1, 1, 1)), "free 0 2/0.1@1");
    assert_eq!(bench.finish(task(2, 0, 1)), "free 1 ready");
}

#[test]
fn unreachable_producer_is_probed_and_excuses_the_reader_if_lost() {
    for (alive, then) in [(Ok(()), "1/0.1@1"), (Err("gone".to_owned()), "0/1.1@1")] {
        let mut bench = Bench::new(vec![stage(0, 2, &[]), stage(1, 1, &[0])], &[1, 1]);
        assert_eq!(bench.on(Event::Start), "0/0.0@1 0/1.0@2");
        bench.finish_with(task(0, 0, 0), 1_000);
        assert_eq!(bench.finish(task(0, 1, 0)), "1/0.0@1");
        assert_eq!(bench.fail(task(1, 0, 0), ErrorCode::Unreachable, Some(task(0, 1, 0))), "probe 2");
        assert_eq!(bench.on(Event::Probed { executor: ExecutorId(2), alive: alive.clone() }), then);
        let failures = bench.machine.stages[1].tasks[0].failures;
        assert_eq!(failures, u32::from(alive.is_ok()), "{alive:?}");
    }
}

#[test]
fn corrupt_output_is_made_again_and_at_last_ends_the_query() {
    let mut bench = Bench::new(vec![stage(0, 1, &[]), stage(1, 1, &[0])], &[1]);
    assert_eq!(bench.on(Event::Start), "0/0.0@1");
    for attempt in 0..3 {
        bench.now += 10_000;
        bench.on(Event::Tick);
        assert_eq!(bench.finish(task(0, 0, attempt)), format!("1/0.{attempt}@1"));
        assert_eq!(bench.fail(task(1, 0, attempt), ErrorCode::Corrupt, Some(task(0, 0, attempt))), "probe 1");
        let next = if attempt < 2 { format!("0/0.{}@1", attempt + 1) } else { "VOLLEY-CORRUPT".into() };
        assert_eq!(bench.on(Event::Probed { executor: ExecutorId(1), alive: Ok(()) }), next);
    }
}

#[test]
fn what_is_not_ours_to_believe_changes_nothing() {
    let mut bench = Bench::new(vec![stage(0, 1, &[]), stage(1, 1, &[0])], &[1]);
    bench.on(Event::Start);
    let strange = [
        task(0, 0, 1),
        task(0, 9, 0),
        task(9, 0, 0),
        task(1, 0, 0),
        TaskAttempt { query: QueryId(8), ..task(0, 0, 0) },
    ];
    for attempt in strange {
        assert_eq!(bench.finish(attempt), "", "{attempt:?}");
        assert_eq!(bench.fail(attempt, ErrorCode::TaskFailed, None), "", "{attempt:?}");
    }
    assert_eq!(bench.finish(task(0, 0, 0)), "1/0.0@1");
    // An output that it was not told to read: its own failure.
    bench.fail(task(1, 0, 0), ErrorCode::OutputLost, Some(task(0, 0, 5)));
    assert_eq!(bench.machine.stages[1].tasks[0].failures, 1);
}

#[test]
fn results_are_made_again_until_delivered() {
    let mut bench = Bench::new(vec![stage(0, 1, &[])], &[1, 1]);
    bench.on(Event::Start);
    assert_eq!(bench.finish(task(0, 0, 0)), "ready");
    let lost = |attempt| Event::ResultLost {
        error: VolleyError::new(ErrorCode::OutputLost, "x").with_lost_output(task(0, 0, attempt)),
    };
    assert_eq!(bench.on(lost(0)), "probe 1 0/0.1@2");
    assert_eq!(bench.finish(task(0, 0, 1)), "ready");
    // A second reader reports the same loss late, as often as it likes.
    for _ in 0..5 {
        assert_eq!(bench.on(lost(0)), "ready");
    }
    assert_eq!(bench.on(Event::ResultRowsDelivered), "");
    assert_eq!(bench.down(2), "VOLLEY-RESULT-LOST");
}

#[test]
fn plan_that_executors_refuse_goes_to_the_session() {
    let mut bench = Bench::new(vec![stage(0, 2, &[])], &[2]);
    bench.on(Event::Start);
    assert_eq!(bench.fail(task(0, 0, 0), ErrorCode::DecodePlan, None), "VOLLEY-DECODE-PLAN");
    assert_eq!(bench.finish(task(0, 1, 0)), "");
}
