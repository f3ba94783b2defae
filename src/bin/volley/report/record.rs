//! What is known of one run of one query: a line of `runs.jsonl`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One run. Serialised without a line break; the fields are the file's format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// `q72`, `q14a`.
    pub query: String,
    pub setting: String,
    /// Place in the list of legs, from 1; 0 is the untimed pass that fills caches and makes the reference rows.
    pub leg: u32,
    /// From 1, warm-up runs counted apart from measured ones.
    pub iteration: u32,
    pub warmup: bool,
    /// From before `sql()` to the last batch in the client; up to the failure of a run that failed.
    pub seconds: f64,
    pub plan_ms: f64,
    /// From the same start to the first batch with a row.
    pub first_row_ms: Option<f64>,
    /// Of all processes of the engine.
    pub cpu_s: f64,
    /// Of the session's process alone; the rest was spent on executors.
    pub cpu_session_s: f64,
    pub rows: u64,
    /// Of the exact columns, as 32 hex digits.
    pub digest: String,
    pub stages: u32,
    pub tasks: u32,
    #[serde(rename = "where")]
    pub place: Place,
    /// Why there, if not on the cluster; empty otherwise.
    pub why: String,
    /// Shuffle bytes handed over inside a process.
    pub bytes_local: u64,
    /// Shuffle bytes that crossed a connection.
    pub bytes_remote: u64,
    pub spilled_bytes: u64,
    /// Bytes of table files that were read, everywhere; 0 for `single`, which does not count them.
    pub scanned_bytes: u64,
    /// Those that the session's process read.
    pub scanned_session_bytes: u64,
    /// Highest resident bytes by process: `session`, `executor 1`.
    pub rss_peak: BTreeMap<String, u64>,
    /// Left out of the line where it is `right`.
    #[serde(default, skip_serializing_if = "Outcome::is_right")]
    pub outcome: Outcome,
    /// The error, or the first differing rows. Left out where it is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl RunRecord {
    /// The line for `runs.jsonl`, without its end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("numbers, strings and a map of strings can be written")
    }
}

/// Where a query ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// On executors, but for the root's tail.
    Cluster,
    /// In the session's process, because nothing of it was distributed.
    Session,
    /// In the plain DataFusion process of the engine `single`.
    Single,
}

impl Place {
    pub fn word(self) -> &'static str {
        match self {
            Place::Cluster => "cluster",
            Place::Session => "session",
            Place::Single => "single",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It ended, and its rows were those of one process (or are them).
    #[default]
    Right,
    /// It ended with other rows or in another order.
    Wrong,
    Failed,
    TimedOut,
    /// No measured run, because the command was interrupted. Never in a record.
    NotRun,
}

impl Outcome {
    pub fn is_right(&self) -> bool {
        *self == Outcome::Right
    }

    pub fn word(self) -> &'static str {
        match self {
            Outcome::Right => "right",
            Outcome::Wrong => "wrong rows",
            Outcome::Failed => "failed",
            Outcome::TimedOut => "timed out",
            Outcome::NotRun => "not run",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_documented_fields() {
        let record = super::super::testing::run("q14a", "c1", 2, 0.25);
        let line = record.line();
        assert_eq!(
            line,
            r#"{"query":"q14a","setting":"c1","leg":2,"iteration":1,"warmup":false,"seconds":0.25,"plan_ms":3.5,"first_row_ms":200.0,"cpu_s":0.5,"cpu_session_s":0.1,"rows":100,"digest":"00000000000000000000000000000007","stages":3,"tasks":6,"where":"cluster","why":"","bytes_local":1000,"bytes_remote":2000,"spilled_bytes":0,"scanned_bytes":500,"scanned_session_bytes":0,"rss_peak":{"executor 1":5000000,"session":4000000}}"#
        );
        assert_eq!(serde_json::from_str::<RunRecord>(&line).unwrap(), record);

        let failed = RunRecord { outcome: Outcome::TimedOut, message: "after 60 s".to_owned(), ..record };
        let line = failed.line();
        assert!(line.ends_with(r#""outcome":"timed_out","message":"after 60 s"}"#), "{line}");
        assert_eq!(serde_json::from_str::<RunRecord>(&line).unwrap(), failed);
    }
}
