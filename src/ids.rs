//! Names of things that cross rooms: one newtype each, so that a partition is never taken for a task.
//!
//! Depends on nothing. Contains no behaviour beyond printing and parsing.

use std::fmt;

/// One run of one query, unique over all sessions and processes (a random UUID).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueryId(pub u128);

impl QueryId {
    /// A new random id.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().as_u128())
    }
}

impl fmt::Display for QueryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for QueryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "query {self}")
    }
}

/// One start of one executor process. A restarted executor has another id, so that an address that
/// answers again is not mistaken for the process that held our data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExecutorId(pub u128);

impl ExecutorId {
    /// A new random id.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().as_u128())
    }
}

impl fmt::Display for ExecutorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", (self.0 >> 96) as u32)
    }
}

impl fmt::Debug for ExecutorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "executor {self}")
    }
}

macro_rules! index_newtype {
    ($(#[$doc:meta])* $name:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into a vector.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

index_newtype!(
    /// A plan fragment between exchanges, numbered within its query; producers have smaller numbers.
    StageId,
    "stage"
);
index_newtype!(
    /// A set of a stage's partitions that runs in one process, numbered within its stage.
    TaskId,
    "task"
);
index_newtype!(
    /// One try of a task, counted from 0.
    AttemptId,
    "attempt"
);
index_newtype!(
    /// An output slot of a shuffle, numbered within its stage.
    PartitionId,
    "partition"
);

/// Names one attempt of one task, and with it the output which that attempt stores.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskAttempt {
    /// The query.
    pub query: QueryId,
    /// The stage within the query.
    pub stage: StageId,
    /// The task within the stage.
    pub task: TaskId,
    /// The try of the task.
    pub attempt: AttemptId,
}

impl fmt::Display for TaskAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}.{}", self.query, self.stage, self.task, self.attempt)
    }
}

impl fmt::Debug for TaskAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {self}")
    }
}
