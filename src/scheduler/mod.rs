//! Deciding what runs where, and seeing it through.
//!
//! [`Scheduler`] is the state machine: no clock, no I/O, `handle(now, event)` then `poll_action()`. [`run_query`] turns
//! it with real executors. [`SlotPool`] shares executors' slots between the queries of one cluster.
//!
//! Depends on `ids`, `error`, `wire`, `control`. Contains no plans: what a task computes is behind [`TaskSource`], and
//! the stage graph here ([`StageGraph`]) says only who reads whom.

mod attempt;
mod cleanup;
mod driver;
#[cfg(test)]
mod driver_tests;
mod events;
mod graph;
mod query;
#[cfg(test)]
mod simulation;
mod slots;
mod state;

pub use attempt::{SessionTask, TaskSource};
pub use cleanup::CleanupTasks;
pub use driver::{QueryOutcome, QueryRun, run_query};
pub use events::{QueryEvent, QueryEvents};
pub use graph::{Place, SchedulerStage, StageGraph};
pub use query::{ExecutorHandle, QueryOptions, QueryRequest};
pub use slots::{SlotClient, SlotPool, SlotUse};
pub use state::{
    Action, Event, FinishedStages, FinishedTask, Launch, Scheduler, SchedulerOptions, SlotRequest, SlotRequestId,
};
