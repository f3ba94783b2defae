//! The rows that are right: those of one process, made before the legs.

use std::collections::HashMap;
use std::sync::Arc;

use crate::compare::{Reference, Rows, Verdict, compare};

/// By query.
#[derive(Default)]
pub struct References {
    queries: HashMap<String, Entry>,
}

struct Entry {
    /// Or why there are none.
    rows: Result<Arc<Rows>, String>,
    /// Without the final LIMIT; made when a result can only be judged by it.
    unlimited: Option<Arc<Rows>>,
    /// What the run took.
    seconds: f64,
}

/// What is to be said of a result.
pub enum Judgement {
    Right,
    /// Why.
    Wrong(String),
    /// Run the text without its final LIMIT in one process, [`References::add_unlimited`] its rows, and judge again.
    NeedsUnlimited,
}

impl References {
    pub fn add(&mut self, query: &str, rows: Result<Rows, String>, seconds: f64) {
        self.queries.insert(query.to_owned(), Entry { rows: rows.map(Arc::new), unlimited: None, seconds });
    }

    pub fn add_unlimited(&mut self, query: &str, rows: Rows) {
        if let Some(entry) = self.queries.get_mut(query) {
            entry.unlimited = Some(Arc::new(rows));
        }
    }

    /// Why there is nothing to compare `query` with, if so.
    pub fn missing(&self, query: &str) -> Option<&str> {
        match self.queries.get(query) {
            None => Some("it was not run in one process"),
            Some(entry) => entry.rows.as_ref().err().map(String::as_str),
        }
    }

    pub fn seconds(&self, query: &str) -> f64 {
        self.queries.get(query).map_or(0.0, |entry| entry.seconds)
    }

    /// Compares `rows` with those of one process. Computes; [`missing`](Self::missing) is to be asked before.
    pub fn judge(&self, query: &str, sql: &str, rows: &Rows) -> Judgement {
        let Some((entry, Ok(reference))) = self.queries.get(query).map(|entry| (entry, entry.rows.as_ref())) else {
            return Judgement::Wrong("there is nothing to compare with".to_owned());
        };
        let reference = Reference { rows: reference.as_ref(), sql, unlimited: entry.unlimited.as_deref() };
        match compare(rows, reference) {
            Ok(Verdict::Equal { .. }) => Judgement::Right,
            Ok(Verdict::NeedsUnlimited) => Judgement::NeedsUnlimited,
            Ok(Verdict::Different { first_rows, .. }) => Judgement::Wrong(first_rows),
            Err(error) => Judgement::Wrong(format!("the rows cannot be compared: {error}")),
        }
    }
}
