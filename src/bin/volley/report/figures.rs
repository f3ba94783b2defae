//! The figures of a run of the benchmark: a pure function from its plan and its records.
//!
//! - A leg's figure for a query is the **median** of its measured iterations (even count: the mean of the middle two).
//! - A setting's figure for a query is the **mean of its legs' medians**. Legs alternate, so a drift of the machine falls on all
//!   settings alike.
//! - **Spread** is (largest - smallest) / mean, in percent: of a query's leg medians, or of a setting's leg totals.
//! - **Totals and geometric means** are over the queries that are right in every leg of *every* setting, so that all settings'
//!   are over the same queries. A setting in which a query failed, timed out, was wrong or did not run is *not comparable*:
//!   it has no ratio.
//! - A query is **marked** where its figure is more than 10 % from the baseline's.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::environment::Environment;
use super::record::{Outcome, Place, RunRecord};
use crate::data::{Scale, Suite};

/// A query's figure this far from the baseline's is marked.
pub const MARK: f64 = 0.10;

/// What was to be run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub suite: Suite,
    /// `None` for the user's own data.
    pub scale: Option<Scale>,
    /// [`Dataset::describe`](crate::data::Dataset::describe).
    pub data: String,
    /// In the order in which they run.
    pub queries: Vec<String>,
    /// In order of first use.
    pub settings: Vec<Setting>,
    /// Setting names; leg 1 is the first.
    pub legs: Vec<String>,
    /// A setting's name.
    pub baseline: String,
    pub warmup: u32,
    pub iterations: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub name: String,
    pub engine: Engine,
    /// Key and value as given, in order.
    pub options: Vec<(String, String)>,
    /// Why it could not act, if it could not: `channels: one stream per peer`.
    pub label: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    Cluster,
    Single,
}

impl Engine {
    pub fn word(self) -> &'static str {
        match self {
            Engine::Cluster => "cluster",
            Engine::Single => "single",
        }
    }
}

/// `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub suite: Suite,
    pub scale: Option<Scale>,
    pub data: String,
    pub notice: String,
    pub baseline: String,
    pub legs: Vec<String>,
    pub warmup: u32,
    pub iterations: u32,
    /// Queries that are right in every leg: those of totals and means.
    pub compared: Vec<String>,
    pub settings: Vec<SettingFigures>,
    /// By query, then setting.
    pub queries: Vec<QueryFigures>,
    pub problems: Vec<Problem>,
    pub environment: Environment,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingFigures {
    pub name: String,
    pub engine: Engine,
    pub options: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// How many queries were to be run.
    pub queries: usize,
    /// How many were right in each of its legs.
    pub correct: usize,
    /// How many ran on the cluster.
    pub distributed: usize,
    pub comparable: bool,
    pub total_s: Option<f64>,
    pub geomean_s: Option<f64>,
    pub spread_pct: Option<f64>,
    pub ratio_to_baseline: Option<f64>,
    pub ratio_to_single: Option<f64>,
    /// Totals of its legs, in order; over the same queries.
    pub legs_s: Vec<f64>,
    /// Of one pass over all its queries: the mean of measured runs, summed.
    pub bytes_remote: u64,
    pub spilled_bytes: u64,
    pub cpu_s: f64,
    /// Of any process in any run.
    pub rss_peak: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueryFigures {
    pub query: String,
    pub setting: String,
    pub outcome: Outcome,
    /// Only where it is right in each leg.
    pub median_s: Option<f64>,
    pub spread_pct: Option<f64>,
    pub ratio_to_baseline: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<Mark>,
    pub rows: u64,
    pub digest: String,
    pub stages: u32,
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    pub why: String,
    /// Mean of measured runs.
    pub bytes_remote: u64,
    pub spilled_bytes: u64,
}

/// More than 10 % from the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    Slower,
    Faster,
}

/// A query that was not right somewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub query: String,
    pub setting: String,
    pub leg: u32,
    pub outcome: Outcome,
    pub message: String,
}

/// Computes all figures. Records of leg 0 count only where they were not right; those of unknown settings not at all.
pub fn figures(plan: &Plan, runs: &[RunRecord], environment: Environment) -> Summary {
    let by_query = Index::new(runs);
    let problems = problems(plan, &by_query, runs);
    let bad: HashSet<(&str, &str)> =
        problems.iter().map(|problem| (problem.setting.as_str(), problem.query.as_str())).collect();
    let bad_anywhere: HashSet<&str> = problems.iter().map(|problem| problem.query.as_str()).collect();
    let compared: Vec<String> =
        plan.queries.iter().filter(|query| !bad_anywhere.contains(query.as_str())).cloned().collect();

    let mut queries = Vec::new();
    for query in &plan.queries {
        let baseline = (!bad.contains(&(plan.baseline.as_str(), query.as_str())))
            .then(|| by_query.medians(plan, &plan.baseline, query))
            .and_then(|medians| mean(&medians));
        for setting in &plan.settings {
            let outcome = worst(&problems, &setting.name, query);
            queries.push(query_figures(plan, &by_query, setting, query, outcome, baseline));
        }
    }
    let mut settings: Vec<SettingFigures> =
        plan.settings.iter().map(|setting| setting_figures(plan, &by_query, setting, &compared, &bad)).collect();
    fill_ratios(&mut settings, &plan.baseline);

    Summary {
        suite: plan.suite,
        scale: plan.scale,
        data: plan.data.clone(),
        notice: super::notice(plan.suite),
        baseline: plan.baseline.clone(),
        legs: plan.legs.clone(),
        warmup: plan.warmup,
        iterations: plan.iterations,
        compared,
        settings,
        queries,
        problems,
        environment,
    }
}

/// Measured runs by setting, query and leg.
struct Index<'a>(HashMap<(&'a str, &'a str, u32), Vec<&'a RunRecord>>);

impl<'a> Index<'a> {
    fn new(runs: &'a [RunRecord]) -> Self {
        let mut index: HashMap<_, Vec<_>> = HashMap::new();
        for run in runs.iter().filter(|run| run.leg > 0 && !run.warmup) {
            index.entry((run.setting.as_str(), run.query.as_str(), run.leg)).or_default().push(run);
        }
        Self(index)
    }

    fn leg<'s>(&'s self, setting: &'s str, query: &'s str, leg: u32) -> &'s [&'a RunRecord] {
        self.0.get(&(setting, query, leg)).map_or(&[], Vec::as_slice)
    }

    /// Measured runs in all legs of `setting`.
    fn all<'s>(&'s self, plan: &'s Plan, setting: &'s str, query: &'s str) -> impl Iterator<Item = &'a RunRecord> + 's {
        legs(plan, setting).flat_map(move |leg| self.leg(setting, query, leg).iter().copied())
    }

    /// One for each leg that has runs.
    fn medians(&self, plan: &Plan, setting: &str, query: &str) -> Vec<f64> {
        legs(plan, setting)
            .filter_map(|leg| median(self.leg(setting, query, leg).iter().map(|run| run.seconds).collect()))
            .collect()
    }
}

/// The numbers of the legs of `setting`.
fn legs<'p>(plan: &'p Plan, setting: &'p str) -> impl Iterator<Item = u32> + 'p {
    (1..).zip(&plan.legs).filter(move |(_, name)| *name == setting).map(|(leg, _)| leg)
}

/// Every (setting, query, leg) that was not right, in the order of the legs; one entry each, the first run's.
fn problems(plan: &Plan, index: &Index<'_>, runs: &[RunRecord]) -> Vec<Problem> {
    let place: HashMap<&str, usize> =
        plan.queries.iter().enumerate().map(|(place, query)| (query.as_str(), place)).collect();
    let mut problems: BTreeMap<(u32, usize), Problem> = BTreeMap::new();
    let known: HashSet<&str> = plan.settings.iter().map(|setting| setting.name.as_str()).collect();
    for run in
        runs.iter().filter(|run| !run.outcome.is_right() && (run.leg == 0 || known.contains(run.setting.as_str())))
    {
        let Some(place) = place.get(run.query.as_str()) else { continue };
        problems.entry((run.leg, *place)).or_insert_with(|| Problem {
            query: run.query.clone(),
            setting: run.setting.clone(),
            leg: run.leg,
            outcome: run.outcome,
            message: run.message.clone(),
        });
    }
    for (leg, setting) in (1..).zip(&plan.legs) {
        for (place, query) in plan.queries.iter().enumerate() {
            if index.leg(setting, query, leg).is_empty() {
                problems.entry((leg, place)).or_insert_with(|| Problem {
                    query: query.clone(),
                    setting: setting.clone(),
                    leg,
                    outcome: Outcome::NotRun,
                    message: String::new(),
                });
            }
        }
    }
    problems.into_values().collect()
}

/// The most telling outcome of a query in any leg of a setting.
fn worst(problems: &[Problem], setting: &str, query: &str) -> Outcome {
    let rank = |outcome: &Outcome| match outcome {
        Outcome::Right => 0,
        Outcome::NotRun => 1,
        Outcome::TimedOut => 2,
        Outcome::Failed => 3,
        Outcome::Wrong => 4,
    };
    problems
        .iter()
        .filter(|problem| problem.setting == setting && problem.query == query)
        .map(|problem| problem.outcome)
        .max_by_key(rank)
        .unwrap_or_default()
}

fn query_figures(
    plan: &Plan,
    index: &Index<'_>,
    setting: &Setting,
    query: &str,
    outcome: Outcome,
    baseline: Option<f64>,
) -> QueryFigures {
    let medians = if outcome.is_right() { index.medians(plan, &setting.name, query) } else { vec![] };
    let median_s = mean(&medians);
    let ratio = median_s.zip(baseline).and_then(|(ours, baseline)| ratio(ours, baseline));
    let runs: Vec<_> = index.all(plan, &setting.name, query).collect();
    let last = runs.last();
    QueryFigures {
        query: query.to_owned(),
        setting: setting.name.clone(),
        outcome,
        median_s,
        spread_pct: spread(&medians),
        ratio_to_baseline: ratio,
        mark: ratio.and_then(mark).filter(|_| setting.name != plan.baseline),
        rows: last.map_or(0, |run| run.rows),
        digest: last.map_or_else(String::new, |run| run.digest.clone()),
        stages: last.map_or(0, |run| run.stages),
        place: last.map(|run| run.place),
        why: last.map_or_else(String::new, |run| run.why.clone()),
        bytes_remote: mean_bytes(&runs, |run| run.bytes_remote),
        spilled_bytes: mean_bytes(&runs, |run| run.spilled_bytes),
    }
}

fn setting_figures(
    plan: &Plan,
    index: &Index<'_>,
    setting: &Setting,
    compared: &[String],
    bad: &HashSet<(&str, &str)>,
) -> SettingFigures {
    let name = setting.name.as_str();
    let figures: Vec<f64> = compared.iter().filter_map(|query| mean(&index.medians(plan, name, query))).collect();
    let legs_s: Vec<f64> = if compared.is_empty() {
        vec![]
    } else {
        legs(plan, name)
            .map(|leg| {
                let runs = |query: &String| index.leg(name, query, leg).iter().map(|run| run.seconds).collect();
                compared.iter().filter_map(|query| median(runs(query))).sum()
            })
            .collect()
    };
    let right = plan.queries.iter().filter(|query| !bad.contains(&(name, query.as_str())));
    let mut distributed = 0;
    let (mut bytes_remote, mut spilled_bytes, mut cpu_s, mut rss_peak) = (0, 0, 0.0, 0);
    for query in &plan.queries {
        let runs: Vec<_> = index.all(plan, name, query).collect();
        distributed += usize::from(runs.last().is_some_and(|run| run.place == Place::Cluster));
        bytes_remote += mean_bytes(&runs, |run| run.bytes_remote);
        spilled_bytes += mean_bytes(&runs, |run| run.spilled_bytes);
        cpu_s += mean(&runs.iter().map(|run| run.cpu_s).collect::<Vec<_>>()).unwrap_or(0.0);
        rss_peak = runs.iter().flat_map(|run| run.rss_peak.values().copied()).fold(rss_peak, u64::max);
    }
    SettingFigures {
        name: setting.name.clone(),
        engine: setting.engine,
        options: setting.options.iter().cloned().collect(),
        label: setting.label.clone(),
        queries: plan.queries.len(),
        correct: right.count(),
        distributed,
        comparable: !bad.iter().any(|(setting, _)| *setting == name) && !plan.queries.is_empty(),
        total_s: (!figures.is_empty()).then(|| figures.iter().sum()),
        geomean_s: geometric_mean(&figures),
        spread_pct: spread(&legs_s),
        ratio_to_baseline: None,
        ratio_to_single: None,
        legs_s,
        bytes_remote,
        spilled_bytes,
        cpu_s,
        rss_peak,
    }
}

/// Ratios of totals, between settings that are comparable.
fn fill_ratios(settings: &mut [SettingFigures], baseline: &str) {
    let total =
        |found: Option<&SettingFigures>| found.filter(|setting| setting.comparable).and_then(|setting| setting.total_s);
    let to_baseline = total(settings.iter().find(|setting| setting.name == baseline));
    let to_single = total(settings.iter().find(|setting| setting.engine == Engine::Single));
    for setting in settings.iter_mut().filter(|setting| setting.comparable) {
        let of = |other: Option<f64>| setting.total_s.zip(other).and_then(|(ours, other)| ratio(ours, other));
        (setting.ratio_to_baseline, setting.ratio_to_single) = (of(to_baseline), of(to_single));
    }
}

fn mean_bytes(runs: &[&RunRecord], of: impl Fn(&RunRecord) -> u64) -> u64 {
    if runs.is_empty() { 0 } else { runs.iter().map(|run| of(run)).sum::<u64>() / runs.len() as u64 }
}

/// The middle value, or the mean of the middle two; `None` of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[half]),
        _ => Some((values[half - 1] + values[half]) / 2.0),
    }
}

pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// `None` of nothing or if a value is not above zero.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    mean(&values.iter().map(|value| value.ln()).collect::<Vec<_>>()).map(f64::exp)
}

/// (largest - smallest) / mean in percent; `None` of less than two.
pub fn spread(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| values.len() > 1 && *mean > 0.0)?;
    let largest = values.iter().copied().fold(f64::MIN, f64::max);
    let smallest = values.iter().copied().fold(f64::MAX, f64::min);
    Some((largest - smallest) / mean * 100.0)
}

fn ratio(ours: f64, other: f64) -> Option<f64> {
    (other > 0.0).then(|| ours / other)
}

fn mark(ratio: f64) -> Option<Mark> {
    if ratio > 1.0 + MARK {
        Some(Mark::Slower)
    } else if ratio < 1.0 - MARK {
        Some(Mark::Faster)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{environment, plan, run};
    use super::*;

    fn setting<'s>(summary: &'s Summary, name: &str) -> &'s SettingFigures {
        summary.settings.iter().find(|setting| setting.name == name).unwrap()
    }

    fn query<'s>(summary: &'s Summary, query: &str, setting: &str) -> &'s QueryFigures {
        summary.queries.iter().find(|figures| figures.query == query && figures.setting == setting).unwrap()
    }

    /// Runs of `seconds[leg]` in two iterations, the second a bit longer.
    fn runs(legs: &[&str], of: impl Fn(&str, &str, u32) -> f64) -> Vec<RunRecord> {
        let mut runs = Vec::new();
        for (leg, setting) in (1..).zip(legs) {
            for query in ["q1", "q2"] {
                let seconds = of(query, setting, leg);
                runs.push(RunRecord { warmup: true, ..run(query, setting, leg, 99.0) });
                runs.push(run(query, setting, leg, seconds - 0.5));
                runs.push(RunRecord { iteration: 2, ..run(query, setting, leg, seconds + 0.5) });
            }
        }
        runs
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 100.0]), Some(3.0));
    }

    #[test]
    fn a_settings_figure_is_the_mean_of_its_legs_medians() {
        let plan = plan(&["q1", "q2"], &["single", "c1", "c1", "single"], "c1");
        let seconds = |query: &str, setting: &str, leg: u32| match (query, setting, leg) {
            ("q1", "c1", 2) => 10.0,
            ("q1", "c1", 3) => 14.0,
            ("q2", "c1", _) => 3.0,
            ("q1", ..) => 6.0,
            _ => 3.2,
        };
        let summary = figures(&plan, &runs(&["single", "c1", "c1", "single"], seconds), environment());
        let c1 = query(&summary, "q1", "c1");
        assert_eq!((c1.median_s, c1.spread_pct.map(f64::round)), (Some(12.0), Some(33.0)));
        assert_eq!((c1.ratio_to_baseline, c1.mark), (Some(1.0), None));
        let single = query(&summary, "q1", "single");
        assert_eq!((single.ratio_to_baseline, single.mark), (Some(0.5), Some(Mark::Faster)));
        assert_eq!(query(&summary, "q2", "single").mark, None, "6.7 % is no mark");

        let c1 = setting(&summary, "c1");
        assert_eq!((c1.total_s, c1.legs_s.as_slice()), (Some(15.0), [13.0, 17.0].as_slice()));
        assert_eq!(c1.geomean_s, Some(6.0));
        assert_eq!(c1.spread_pct.map(f64::round), Some(27.0));
        assert_eq!(c1.ratio_to_baseline, Some(1.0));
        assert_eq!(c1.ratio_to_single.map(|ratio| (ratio * 1000.0).round()), Some(1630.0));
        assert_eq!((c1.queries, c1.correct, c1.distributed, c1.comparable), (2, 2, 2, true));
        assert!(summary.problems.is_empty());
    }

    #[test]
    fn a_query_that_is_bad_anywhere_is_in_no_total_and_its_setting_not_comparable() {
        let plan = plan(&["q1", "q2"], &["single", "c1", "c4"], "c1");
        let mut records = runs(&["single", "c1", "c4"], |_, _, _| 2.0);
        let bad = records.iter_mut().find(|run| run.query == "q2" && run.setting == "c4" && run.warmup).unwrap();
        bad.outcome = Outcome::Wrong;
        bad.message = "missing row 1: a=1".to_owned();
        let summary = figures(&plan, &records, environment());
        assert_eq!(summary.compared, ["q1"]);
        for (name, comparable, to_single) in [("c1", true, Some(1.0)), ("c4", false, None), ("single", true, Some(1.0))]
        {
            let setting = setting(&summary, name);
            assert_eq!(
                (setting.comparable, setting.total_s, setting.ratio_to_single),
                (comparable, Some(2.0), to_single),
                "{name}"
            );
        }
        assert_eq!((setting(&summary, "c4").correct, setting(&summary, "c1").correct), (1, 2));
        assert_eq!(query(&summary, "q2", "c4").median_s, None);
        assert_eq!(query(&summary, "q2", "c4").outcome, Outcome::Wrong);
        assert_eq!(query(&summary, "q2", "c1").median_s, Some(2.0));
        assert_eq!(summary.problems.len(), 1);
        assert_eq!((summary.problems[0].leg, summary.problems[0].outcome), (3, Outcome::Wrong));
    }

    #[test]
    fn what_did_not_run_is_listed() {
        let plan = plan(&["q1", "q2"], &["c1", "single"], "c1");
        let mut records = runs(&["c1"], |_, _, _| 2.0);
        records.retain(|run| run.query == "q1");
        let summary = figures(&plan, &records, environment());
        let listed: Vec<_> = summary.problems.iter().map(|problem| (problem.leg, problem.query.as_str())).collect();
        assert_eq!(listed, [(1, "q2"), (2, "q1"), (2, "q2")]);
        assert!(summary.settings.iter().all(|setting| !setting.comparable && setting.total_s.is_none()));
        assert_eq!(query(&summary, "q1", "c1").median_s, Some(2.0));
    }

    #[test]
    fn one_process_failing_in_the_untimed_leg_is_a_problem_too() {
        let plan = plan(&["q1", "q2"], &["c1"], "c1");
        let mut records = runs(&["c1"], |_, _, _| 2.0);
        records.push(RunRecord { outcome: Outcome::Failed, ..run("q2", "reference", 0, 1.0) });
        let summary = figures(&plan, &records, environment());
        assert_eq!(summary.compared, ["q1"]);
        assert_eq!(summary.problems.len(), 1);
    }

    #[test]
    fn a_summary_has_the_documented_fields() {
        let plan = plan(&["q1"], &["c1"], "c1");
        let summary = figures(&plan, &[run("q1", "c1", 1, 2.0)], environment());
        let json = serde_json::to_value(&summary).unwrap();
        let setting = json["settings"][0].as_object().unwrap();
        for name in [
            "name",
            "engine",
            "queries",
            "correct",
            "distributed",
            "total_s",
            "geomean_s",
            "spread_pct",
            "ratio_to_baseline",
            "ratio_to_single",
        ] {
            assert!(setting.contains_key(name), "{name}");
        }
        let query = json["queries"][0].as_object().unwrap();
        for name in ["query", "setting", "median_s", "spread_pct", "rows", "digest", "stages", "where"] {
            assert!(query.contains_key(name), "{name}");
        }
    }
}
