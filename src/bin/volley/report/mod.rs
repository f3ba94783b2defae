//! Reports of a run of the benchmark: `summary.json`, `report.md`, `report.html` from the records of its runs.
//!
//! Everything here is a pure function of its arguments, but for [`write`] and [`Environment::collect`]. The figures and what they
//! mean: [`figures`].

pub mod environment;
pub mod figures;
pub mod record;

mod chart;
mod html;
mod markdown;
#[cfg(test)]
mod testing;

use std::fs;
use std::path::{Path, PathBuf};

pub use environment::Environment;
pub use figures::{Engine, Plan, Setting, Summary, figures};
pub use record::{Outcome, Place, RunRecord};

use crate::data::Suite;
use crate::error::CliError;

pub const SUMMARY: &str = "summary.json";
pub const MARKDOWN: &str = "report.md";
pub const HTML: &str = "report.html";

/// What every report, help text and page says of the benchmark.
pub fn notice(suite: Suite) -> String {
    let (generator, version) = suite.generator();
    let title = suite.title();
    format!(
        "Derived from {title}: queries restated, data by {generator} {version}, not audited, not comparable to published \
         {title} results."
    )
}

/// The three files' contents.
pub struct Report {
    pub summary_json: String,
    pub markdown: String,
    pub html: String,
}

impl Report {
    pub fn new(summary: &Summary) -> Self {
        let mut summary_json = serde_json::to_string_pretty(summary).expect("figures can be written as JSON");
        summary_json.push('\n');
        Self { summary_json, markdown: markdown::render(summary), html: html::render(summary) }
    }
}

/// Writes the files into `dir`, which is made if need be, each aside and then renamed: a reader sees a whole file, old or
/// new. Returns their paths.
///
/// # Errors
/// The disk's, as [`CliError::io`] reports them; what was written aside is removed.
pub fn write(dir: &Path, report: &Report) -> Result<Vec<PathBuf>, CliError> {
    fs::create_dir_all(dir).map_err(|error| CliError::io("write in", dir, &error))?;
    let mut paths = Vec::new();
    for (name, text) in [(SUMMARY, &report.summary_json), (MARKDOWN, &report.markdown), (HTML, &report.html)] {
        let path = dir.join(name);
        let aside = dir.join(format!(".{name}.partial"));
        if let Err(error) = fs::write(&aside, text).and_then(|()| fs::rename(&aside, &path)) {
            let _ = fs::remove_file(&aside);
            return Err(CliError::io("write", &path, &error));
        }
        paths.push(path);
    }
    Ok(paths)
}

/// `0.042`, `1.23`, `45.6`, `789`: three digits or so.
fn seconds_text(seconds: f64) -> String {
    let digits = match seconds {
        s if s < 0.0995 => 3,
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => 0,
    };
    format!("{seconds:.digits$}")
}

fn optional(value: Option<f64>, text: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), text)
}

/// `Totals are over 101 of 103 queries: …`
fn compared_text(summary: &Summary) -> String {
    let all = summary.settings.first().map_or(0, |setting| setting.queries);
    let compared = summary.compared.len();
    if compared == all {
        format!("Totals and means are over all {all} queries, right in every leg.")
    } else {
        format!(
            "Totals and means are over the {compared} of {all} queries that are right in every leg; what is not is listed below."
        )
    }
}

/// `TPC-DS at scale 1`
fn title(summary: &Summary) -> String {
    match &summary.scale {
        Some(scale) => format!("{} at scale {scale}", summary.suite.title()),
        None => format!("{} on own data", summary.suite.title()),
    }
}

/// How the figures came about, for those who read only the report.
const METHOD: &str = "Legs ran in the order shown, each on a fresh cluster or process. A query's figure in a leg is the median of its \
measured runs, its figure for a setting the mean of that setting's legs. Spread is the largest minus the smallest leg, relative \
to their mean. Marked ▲ slower and ▼ faster: more than 10 % from the baseline. A setting with a query that was not right has no ratio: \
not comparable.";

#[cfg(test)]
mod tests {
    use super::testing::{environment, plan, run};
    use super::*;

    fn sample() -> Summary {
        let mut plan = plan(&["q1", "q2", "q72"], &["single", "c1", "c2", "c2", "c1", "single"], "c1");
        plan.settings.iter_mut().find(|setting| setting.name == "c2").unwrap().label =
            Some("channels could not act: <one> stream per peer".to_owned());
        let mut runs = Vec::new();
        for (leg, setting) in (1..).zip(&plan.legs) {
            for (query, seconds) in [("q1", 0.5), ("q2", 1.5), ("q72", 12.0)] {
                let factor = if setting == "single" {
                    0.8
                } else if setting == "c2" {
                    1.3
                } else {
                    1.0
                };
                let mut record = run(query, setting, leg, seconds * factor + f64::from(leg) / 100.0);
                if query == "q72" && setting == "c2" {
                    record.outcome = Outcome::Wrong;
                    record.message = "missing row 1: a=1 | b=<x>\nunexpected row 2: a=2".to_owned();
                }
                runs.push(record);
            }
        }
        figures(&plan, &runs, environment())
    }

    #[test]
    fn every_report_has_the_notice_the_problems_and_the_environment() {
        let report = Report::new(&sample());
        for text in [&report.markdown, &report.html] {
            assert!(text.contains(&notice(Suite::TpcDs)));
            assert!(text.contains("q72"));
            assert!(text.contains("not comparable"));
            assert!(text.contains("Test CPU"));
            assert!(text.contains("2 of 3 queries"));
        }
        assert!(report.summary_json.contains("Test CPU"));
    }

    #[test]
    fn markdown_tables_are_whole() {
        let markdown = Report::new(&sample()).markdown;
        let mut columns = None;
        for line in markdown.lines() {
            if !line.starts_with('|') {
                columns = None;
                continue;
            }
            let bars = line.replace("\\|", "").matches('|').count();
            assert_eq!(*columns.get_or_insert(bars), bars, "{line}");
        }
        assert!(markdown.contains("1.30 ▲") || markdown.contains("▲"), "{markdown}");
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_is_well_formed() {
        let html = Report::new(&sample()).html;
        for outside in ["http:", "src=", "@import", "<script", "<link"] {
            let html = html.replace("http://www.w3.org/2000/svg", "");
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.contains("&lt;one&gt;") && !html.contains("<one>"));
        // Every element that is opened is closed, in order.
        let mut open: Vec<&str> = Vec::new();
        for tag in html.split('<').skip(1) {
            let tag = tag.split('>').next().unwrap();
            let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap();
            if tag.starts_with('!') || tag.ends_with('/') || ["meta", "br"].contains(&name) {
                continue;
            }
            match tag.strip_prefix('/') {
                Some(closed) => assert_eq!(open.pop(), Some(closed)),
                None => open.push(name),
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn one_leg_is_enough_for_a_report() {
        let plan = plan(&["q1"], &["c1"], "c1");
        let report = Report::new(&figures(&plan, &[run("q1", "c1", 1, 0.5)], environment()));
        assert!(report.markdown.contains("0.50"));
        assert!(!report.html.contains("NaN"));
        let nothing = Report::new(&figures(&plan, &[], environment()));
        assert!(nothing.markdown.contains("not run"));
        assert!(!nothing.html.contains("NaN"));
    }

    #[test]
    fn files_are_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("a/b");
        let report = Report::new(&sample());
        let paths = write(&out, &report).unwrap();
        write(&out, &report).unwrap();
        assert_eq!(paths.len(), 3);
        assert_eq!(fs::read_dir(&out).unwrap().count(), 3);
        assert_eq!(fs::read_to_string(out.join(HTML)).unwrap(), report.html);
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(write(&file, &report).is_err());
    }
}
