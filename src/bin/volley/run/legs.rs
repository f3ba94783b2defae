//! Leg 0, which makes the reference rows, and the measured legs.

use std::collections::{BTreeMap, HashMap};

use super::engine::{EngineProcess, RunEnd};
use super::options::RunOptions;
use super::output::Output;
use super::processes::{cpu_seconds, reset_peaks, rss_peaks};
use super::progress::Display;
use super::protocol::{ClusterFigures, DataSpec, Done, EngineSpec, ExecutorsSpec, QueryText};
use super::reference::{Judgement, References};
use super::settings::Setting;
use crate::compare::{Rows, strip_final_limit};
use crate::error::{CliError, one_line};
use crate::interrupt::Interrupt;
use crate::queries::Query;
use crate::report::{Engine, Outcome, Place, RunRecord};

/// The name of the plain engine, in records of leg 0.
const SINGLE: &str = "single";

pub struct Legs<'a> {
    options: &'a RunOptions,
    data: DataSpec,
    interrupt: &'a Interrupt,
    output: &'a mut Output,
    display: Display,
    references: References,
    /// By setting: the most connections to one peer that carried anything in a run.
    channels: HashMap<String, u32>,
}

/// What a run is, for its record.
struct RunPlace<'a> {
    leg: u32,
    setting: &'a str,
    engine: Engine,
    iteration: u32,
    warmup: bool,
}

impl<'a> Legs<'a> {
    pub fn new(options: &'a RunOptions, data: DataSpec, interrupt: &'a Interrupt, output: &'a mut Output) -> Self {
        Self {
            options,
            data,
            interrupt,
            output,
            display: Display::on_stderr(options.legs.order.len()),
            references: References::default(),
            channels: HashMap::new(),
        }
    }

    /// All legs, 0 first.
    ///
    /// # Errors
    /// What keeps an engine from starting, the disk's, `VOLLEY-INTERRUPTED`. A query that fails or is wrong is a record and no error.
    pub async fn run(&mut self) -> Result<(), CliError> {
        self.leg_0().await?;
        for (number, place) in (1_u32..).zip(&self.options.legs.order) {
            self.leg(number, &self.options.legs.settings[*place]).await?;
        }
        self.display.finish();
        Ok(())
    }

    /// See [`Self::channels`] the field.
    pub fn into_channels(self) -> HashMap<String, u32> {
        self.channels
    }

    async fn leg_0(&mut self) -> Result<(), CliError> {
        self.display.leg(0, SINGLE);
        let place = RunPlace { leg: 0, setting: SINGLE, engine: Engine::Single, iteration: 1, warmup: false };
        let spec = self.plain();
        let mut engine = None;
        for (number, query) in (1..).zip(&self.options.queries) {
            self.display.run(format!("{} ({number} of {})", query.name, self.options.queries.len()));
            let ended = self.measure(&mut engine, &spec, query, &place).await?;
            let mut record = self.record_of(&place, query, &ended);
            if let RunEnd::Done(_, rows) = ended.end {
                record.digest = rows.digest().to_string();
                self.references.add(&query.name, Ok(rows), record.seconds);
            } else {
                self.references.add(&query.name, Err(record.message.clone()), record.seconds);
                self.display.note(&format!(
                    "{} in one process: {}: {}",
                    query.name,
                    record.outcome.word(),
                    record.message
                ));
            }
            self.output.record(record)?;
        }
        stop(engine).await;
        let runs = (self.options.warmup + self.options.iterations) as usize * self.options.legs.order.len();
        for query in &self.options.queries {
            let seconds = self.references.seconds(&query.name);
            (0..runs).for_each(|_| self.display.estimate().add(seconds));
        }
        Ok(())
    }

    async fn leg(&mut self, leg: u32, setting: &Setting) -> Result<(), CliError> {
        self.display.leg(leg as usize, &setting.name);
        let spec = self.spec(setting);
        let mut engine = Some(EngineProcess::start(&spec, &self.data, self.interrupt.token()).await?);
        let (warmup, iterations) = (self.options.warmup, self.options.iterations);
        for (number, query) in (1..).zip(&self.options.queries) {
            let expected = self.references.seconds(&query.name);
            for run in 0..warmup + iterations {
                let warm = run < warmup;
                let (iteration, of) = if warm { (run + 1, warmup) } else { (run - warmup + 1, iterations) };
                let place = RunPlace { leg, setting: &setting.name, engine: setting.engine, iteration, warmup: warm };
                let kind = if warm { "warm-up" } else { "run" };
                self.display.run(format!(
                    "{} ({number} of {}), {kind} {iteration} of {of}",
                    query.name,
                    self.options.queries.len()
                ));
                let record = self.judged_run(&mut engine, &spec, query, &place).await?;
                let (outcome, seconds) = (record.outcome, record.seconds);
                self.output.record(record)?;
                self.display.estimate().done(expected, seconds);
                // What failed once would fail, or take as long, again.
                if matches!(outcome, Outcome::Failed | Outcome::TimedOut) {
                    (run + 1..warmup + iterations).for_each(|_| self.display.estimate().done(expected, 0.0));
                    break;
                }
            }
        }
        stop(engine).await;
        Ok(())
    }

    /// One run, its rows compared.
    async fn judged_run(
        &mut self,
        engine: &mut Option<EngineProcess>,
        spec: &EngineSpec,
        query: &Query,
        place: &RunPlace<'_>,
    ) -> Result<RunRecord, CliError> {
        if let Some(why) = self.references.missing(&query.name) {
            let message = format!("not run, there are no rows to compare with: {why}");
            return Ok(RunRecord { outcome: Outcome::Failed, message, ..empty(place, query) });
        }
        let ended = self.measure(engine, spec, query, place).await?;
        let mut record = self.record_of(place, query, &ended);
        if let RunEnd::Done(done, rows) = &ended.end {
            record.digest = rows.digest().to_string();
            if let Some(figures) = &done.cluster {
                let channels = self.channels.entry(place.setting.to_owned()).or_default();
                *channels = figures.channels.max(*channels);
            }
            if let Err(why) = self.judge(query, rows).await? {
                (record.outcome, record.message) = (Outcome::Wrong, why);
            }
            let first_of_baseline = place.setting == self.options.legs.baseline
                && !self.output.records().iter().any(|record| {
                    record.query == query.name
                        && record.setting == place.setting
                        && record.leg > 0
                        && !record.digest.is_empty()
                });
            if first_of_baseline {
                self.output.save_result(&query.name, rows)?;
            }
        }
        if !record.outcome.is_right() {
            self.display.note(&format!(
                "{} in leg {} ({}): {}: {}",
                query.name,
                place.leg,
                place.setting,
                record.outcome.word(),
                record.message.replace('\n', " | ")
            ));
        }
        Ok(record)
    }

    async fn judge(&mut self, query: &Query, rows: &Rows) -> Result<Result<(), String>, CliError> {
        let mut judgement = self.references.judge(&query.name, &query.sql, rows);
        if matches!(judgement, Judgement::NeedsUnlimited) {
            match self.unlimited(query).await? {
                Ok(rows) => self.references.add_unlimited(&query.name, rows),
                Err(why) => {
                    return Ok(Err(format!(
                        "other rows than in one process, and whether the LIMIT allows them is unknown, since without it the query {why}"
                    )));
                }
            }
            judgement = self.references.judge(&query.name, &query.sql, rows);
        }
        Ok(match judgement {
            Judgement::Right => Ok(()),
            Judgement::Wrong(why) => Err(why),
            Judgement::NeedsUnlimited => Err("other rows than in one process".to_owned()),
        })
    }

    /// The rows of `query` without its final LIMIT, from a plain process of their own; or why there are none.
    async fn unlimited(&mut self, query: &Query) -> Result<Result<Rows, String>, CliError> {
        let Some(sql) = strip_final_limit(&query.sql) else {
            return Ok(Err("cannot be written".to_owned()));
        };
        self.display.run(format!("{}, rows without the LIMIT", query.name));
        let mut engine = EngineProcess::start(&self.plain(), &self.data, self.interrupt.token()).await?;
        let text = QueryText { before: query.before.clone(), sql, after: query.after.clone() };
        let end = engine.run(text, self.options.timeout, self.interrupt.token(), |_| {}).await;
        engine.stop().await;
        Ok(match end {
            RunEnd::Done(_, rows) => Ok(rows),
            RunEnd::Failed(failure) => Err(format!("failed: {}", failure.message)),
            RunEnd::TimedOut => Err("timed out".to_owned()),
            RunEnd::Died(why) => Err(format!("ended its process: {why}")),
            RunEnd::Interrupted => return Err(self.interrupted(0, SINGLE, query)),
        })
    }

    /// One run with the figures of the system; starts an engine if there is none, and lets go of one that is of no more use.
    async fn measure(
        &mut self,
        engine: &mut Option<EngineProcess>,
        spec: &EngineSpec,
        query: &Query,
        place: &RunPlace<'_>,
    ) -> Result<Ended, CliError> {
        let mut used = match engine.take() {
            Some(engine) => engine,
            None => EngineProcess::start(spec, &self.data, self.interrupt.token()).await?,
        };
        let processes = used.processes().to_vec();
        reset_peaks(&processes);
        let (session, executors) = processes.split_at(processes.len().min(1));
        let cpu_before = (cpu_seconds(session), cpu_seconds(executors));
        let text = QueryText { before: query.before.clone(), sql: query.sql.clone(), after: query.after.clone() };
        let begun = std::time::Instant::now();
        let display = &mut self.display;
        let end =
            used.run(text, self.options.timeout, self.interrupt.token(), |progress| display.progress(&progress)).await;
        let seconds = begun.elapsed().as_secs_f64();
        let cpu_session_s = (cpu_seconds(session) - cpu_before.0).max(0.0);
        let cpu_executors_s = (cpu_seconds(executors) - cpu_before.1).max(0.0);
        let rss_peak = rss_peaks(&processes);
        match &end {
            RunEnd::Interrupted => {
                used.stop().await;
                return Err(self.interrupted(place.leg, place.setting, query));
            }
            RunEnd::Died(_) => used.stop().await,
            RunEnd::Done(..) | RunEnd::Failed(_) | RunEnd::TimedOut if used.is_whole() => *engine = Some(used),
            _ => {
                let lost = "an executor process ended; the next query gets a fresh cluster";
                self.display.note(&format!("{} in leg {} ({}): {lost}", query.name, place.leg, place.setting));
                used.stop().await;
            }
        }
        Ok(Ended { end, seconds, cpu_session_s, cpu_executors_s, rss_peak })
    }

    fn record_of(&self, place: &RunPlace<'_>, query: &Query, ended: &Ended) -> RunRecord {
        let record = RunRecord {
            seconds: ended.seconds,
            cpu_s: ended.cpu_session_s + ended.cpu_executors_s,
            cpu_session_s: ended.cpu_session_s,
            rss_peak: ended.rss_peak.clone(),
            ..empty(place, query)
        };
        let unsuccessful = |outcome, message: String| RunRecord { outcome, message, ..record.clone() };
        match &ended.end {
            RunEnd::Done(done, _) => with_done(record, done),
            RunEnd::Failed(failure) => {
                let remedy = if failure.remedy.is_empty() { String::new() } else { format!("; {}", failure.remedy) };
                unsuccessful(Outcome::Failed, one_line(&format!("{}: {}{remedy}", failure.code, failure.message)))
            }
            RunEnd::TimedOut => {
                unsuccessful(Outcome::TimedOut, format!("after {} s (--timeout)", self.options.timeout.as_secs_f64()))
            }
            RunEnd::Died(why) => {
                unsuccessful(Outcome::Failed, format!("VOLLEY-ENGINE: the engine process ended: {why}"))
            }
            RunEnd::Interrupted => unsuccessful(Outcome::Failed, "interrupted".to_owned()),
        }
    }

    fn interrupted(&self, leg: u32, setting: &str, query: &Query) -> CliError {
        let place = if leg == 0 { "the first pass".to_owned() } else { format!("leg {leg} ({setting})") };
        CliError::interrupted(format!("interrupted at {} in {place}", query.name), "")
    }

    /// Plain DataFusion with the cluster's threads and memory.
    fn plain(&self) -> EngineSpec {
        self.single(None, None, None, Vec::new())
    }

    fn single(
        &self,
        executors: Option<usize>,
        slots: Option<usize>,
        memory_bytes: Option<u64>,
        options: Vec<(String, String)>,
    ) -> EngineSpec {
        let (executors, memory) = self.options.cluster.executors(executors, slots, memory_bytes);
        let (threads, memory_bytes) = match &executors {
            ExecutorsSpec::Local { count, slots } => (count * slots, memory.saturating_mul(*count as u64)),
            ExecutorsSpec::Given { .. } => (self.options.cluster.cores(), memory),
        };
        EngineSpec { engine: Engine::Single, threads, memory_bytes, executors, token: None, options }
    }

    fn spec(&self, setting: &Setting) -> EngineSpec {
        let options = setting.session.clone();
        if setting.engine == Engine::Single {
            return self.single(setting.executors, setting.slots, setting.memory_bytes, options);
        }
        let cluster = &self.options.cluster;
        let (executors, memory_bytes) = cluster.executors(setting.executors, setting.slots, setting.memory_bytes);
        let threads = cluster.cores();
        EngineSpec { engine: Engine::Cluster, threads, memory_bytes, executors, token: cluster.token.clone(), options }
    }
}

struct Ended {
    end: RunEnd,
    seconds: f64,
    cpu_session_s: f64,
    /// Of local executors.
    cpu_executors_s: f64,
    rss_peak: BTreeMap<String, u64>,
}

async fn stop(engine: Option<EngineProcess>) {
    if let Some(engine) = engine {
        engine.stop().await;
    }
}

fn empty(place: &RunPlace<'_>, query: &Query) -> RunRecord {
    RunRecord {
        query: query.name.clone(),
        setting: place.setting.to_owned(),
        leg: place.leg,
        iteration: place.iteration,
        warmup: place.warmup,
        seconds: 0.0,
        plan_ms: 0.0,
        first_row_ms: None,
        cpu_s: 0.0,
        cpu_session_s: 0.0,
        rows: 0,
        digest: String::new(),
        stages: 0,
        tasks: 0,
        place: if place.engine == Engine::Single { Place::Single } else { Place::Cluster },
        why: String::new(),
        bytes_local: 0,
        bytes_remote: 0,
        spilled_bytes: 0,
        scanned_bytes: 0,
        scanned_session_bytes: 0,
        rss_peak: BTreeMap::new(),
        outcome: Outcome::Right,
        message: String::new(),
    }
}

fn with_done(record: RunRecord, done: &Done) -> RunRecord {
    let plain = ClusterFigures::default();
    let cluster = done.cluster.as_ref();
    let place = match (record.place, cluster) {
        (Place::Single, _) => Place::Single,
        (_, Some(figures)) if figures.distributed => Place::Cluster,
        _ => Place::Session,
    };
    let figures = cluster.unwrap_or(&plain);
    // Processes of other machines cannot be asked; their tasks say what they computed.
    let elsewhere = record.rss_peak.len() <= 1;
    let cpu_s = record.cpu_s + if elsewhere { figures.task_cpu_ms as f64 / 1e3 } else { 0.0 };
    RunRecord {
        seconds: done.seconds,
        cpu_s,
        plan_ms: done.plan_ms,
        first_row_ms: done.first_row_ms,
        rows: done.rows,
        stages: figures.stages,
        tasks: figures.tasks,
        place,
        why: figures.why.clone(),
        bytes_local: figures.bytes_local,
        bytes_remote: figures.bytes_remote,
        spilled_bytes: figures.spilled_bytes,
        scanned_bytes: figures.scanned_bytes,
        scanned_session_bytes: figures.session_scanned_bytes,
        ..record
    }
}
