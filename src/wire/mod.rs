//! What crosses between processes: plain structs, and their bytes.
//!
//! Owns the structs that sessions and executors exchange ([`TaskDefinition`], [`TaskEvent`],
//! [`Ticket`](ticket::Ticket), …) and their protobuf form. Depends on `ids`, `error`, `config`.
//! Contains no execution and no I/O.

mod task;

pub use task::{
    ColumnKeys, ExchangeTotals, ExecutorInfo, KeySummary, OperatorMetric, OutputLocation, OutputSummary,
    PartitionSummary, StageInput, TaskDefinition, TaskEvent, TaskReport,
};
