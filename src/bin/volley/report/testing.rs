//! Records and plans for the tests of this folder.

use std::collections::BTreeMap;

use super::environment::{Cgroup, Environment};
use super::figures::{Engine, Plan, Setting};
use super::record::{Outcome, Place, RunRecord};
use crate::data::Suite;

/// A right, measured run.
pub fn run(query: &str, setting: &str, leg: u32, seconds: f64) -> RunRecord {
    RunRecord {
        query: query.to_owned(),
        setting: setting.to_owned(),
        leg,
        iteration: 1,
        warmup: false,
        seconds,
        plan_ms: 3.5,
        first_row_ms: Some(200.0),
        cpu_s: 0.5,
        cpu_session_s: 0.1,
        rows: 100,
        digest: format!("{:032x}", 7),
        stages: 3,
        tasks: 6,
        place: if setting == "single" { Place::Single } else { Place::Cluster },
        why: String::new(),
        bytes_local: 1000,
        bytes_remote: 2000,
        spilled_bytes: 0,
        scanned_bytes: 500,
        scanned_session_bytes: 0,
        rss_peak: BTreeMap::from([("session".to_owned(), 4_000_000), ("executor 1".to_owned(), 5_000_000)]),
        outcome: Outcome::Right,
        message: String::new(),
    }
}

/// The setting `single` is the engine of that name.
pub fn plan(queries: &[&str], legs: &[&str], baseline: &str) -> Plan {
    let mut settings: Vec<Setting> = Vec::new();
    for name in legs {
        if settings.iter().all(|setting| setting.name != *name) {
            settings.push(Setting {
                name: (*name).to_owned(),
                engine: if *name == "single" { Engine::Single } else { Engine::Cluster },
                options: vec![],
                label: None,
            });
        }
    }
    Plan {
        suite: Suite::TpcDs,
        scale: Some("1".parse().expect("a scale")),
        data: "tpcds scale 1".to_owned(),
        queries: queries.iter().map(|query| (*query).to_owned()).collect(),
        settings,
        legs: legs.iter().map(|leg| (*leg).to_owned()).collect(),
        baseline: baseline.to_owned(),
        warmup: 1,
        iterations: 2,
    }
}

pub fn environment() -> Environment {
    Environment {
        cpu: Some("Test CPU".to_owned()),
        cores: 2,
        memory_bytes: Some(8 << 30),
        kernel: Some("Linux 6".to_owned()),
        cgroup: Cgroup::default(),
        volley: "0.1.0".to_owned(),
        datafusion: "55.2.0".to_owned(),
        rustc: None,
        commit: None,
        command_line: "volley tpcds".to_owned(),
        started: "2026-01-31T12:00:00Z".to_owned(),
    }
}
