//! `report.md`.

use std::fmt::Write;

use super::figures::{Mark, QueryFigures, SettingFigures, Summary};
use super::{METHOD, compared_text, optional, seconds_text, title};
use crate::error::one_line;
use crate::units::format_bytes;

/// Never fails: writing to a string cannot.
pub fn render(summary: &Summary) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "# {}\n\n{}\n", title(summary), summary.notice);
    let _ = writeln!(out, "Data: {}. Legs: {}.\n", summary.data, summary.legs.join(", "));
    settings(&mut out, summary);
    problems(&mut out, summary);
    queries(&mut out, summary);
    let _ = writeln!(out, "## How to read this\n\n{METHOD}\n");
    environment(&mut out, summary);
    out
}

fn row(out: &mut String, cells: impl IntoIterator<Item = String>) {
    for cell in cells {
        let _ = write!(out, "| {} ", one_line(&cell).replace('|', "\\|"));
    }
    out.push_str("|\n");
}

/// Column titles; those that begin with `>` are aligned right.
fn head<'a>(out: &mut String, titles: impl IntoIterator<Item = &'a str> + Clone) {
    row(out, titles.clone().into_iter().map(|title| title.trim_start_matches('>').to_owned()));
    row(out, titles.into_iter().map(|title| if title.starts_with('>') { "--:" } else { "---" }.to_owned()));
}

fn settings(out: &mut String, summary: &Summary) {
    let baseline = format!(">to {}", summary.baseline);
    let _ = writeln!(out, "## Settings\n\n{}\n", compared_text(summary));
    head(
        out,
        [
            "Setting",
            "Engine",
            ">Right",
            ">On cluster",
            ">Total s",
            ">Geo. mean s",
            ">Spread %",
            &baseline,
            ">to single",
            ">Remote",
            ">Spilled",
            ">CPU s",
            ">Peak memory",
            "Notes",
        ],
    );
    for setting in &summary.settings {
        row(
            out,
            [
                setting.name.clone(),
                setting.engine.word().to_owned(),
                format!("{} of {}", setting.correct, setting.queries),
                setting.distributed.to_string(),
                optional(setting.total_s, seconds_text),
                optional(setting.geomean_s, seconds_text),
                optional(setting.spread_pct, |spread| format!("{spread:.1}")),
                optional(setting.ratio_to_baseline, |ratio| format!("{ratio:.2}")),
                optional(setting.ratio_to_single, |ratio| format!("{ratio:.2}")),
                format_bytes(setting.bytes_remote),
                format_bytes(setting.spilled_bytes),
                seconds_text(setting.cpu_s),
                format_bytes(setting.rss_peak),
                notes(setting),
            ],
        );
    }
    out.push('\n');
}

/// What to know of a setting beside its figures.
pub fn notes(setting: &SettingFigures) -> String {
    let mut notes = Vec::new();
    if !setting.comparable {
        notes.push("not comparable".to_owned());
    }
    notes.extend(setting.label.clone());
    if !setting.options.is_empty() {
        notes.push(setting.options.iter().map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>().join(" "));
    }
    notes.join("; ")
}

fn problems(out: &mut String, summary: &Summary) {
    if summary.problems.is_empty() {
        return;
    }
    let _ = writeln!(out, "## Not right\n");
    head(out, ["Query", "Setting", ">Leg", "Outcome", "What"]);
    for problem in &summary.problems {
        row(
            out,
            [
                problem.query.clone(),
                problem.setting.clone(),
                problem.leg.to_string(),
                problem.outcome.word().to_owned(),
                problem.message.clone(),
            ],
        );
    }
    out.push('\n');
}

fn queries(out: &mut String, summary: &Summary) {
    let _ = writeln!(out, "## Queries\n\nSeconds, and the ratio to {} where it is marked.\n", summary.baseline);
    let names: Vec<String> = summary.settings.iter().map(|setting| format!(">{}", setting.name)).collect();
    let mut titles = vec!["Query"];
    titles.extend(names.iter().map(String::as_str));
    titles.extend([">Rows", ">Stages", ">Remote", "Where"]);
    head(out, titles);
    for figures in summary.queries.chunk_by(|a, b| a.query == b.query) {
        let shown = representative(summary, figures);
        let mut cells = vec![shown.query.clone()];
        cells.extend(figures.iter().map(figure));
        cells.push(shown.rows.to_string());
        cells.push(shown.stages.to_string());
        cells.push(format_bytes(shown.bytes_remote));
        cells.push(place(shown));
        row(out, cells);
    }
    out.push('\n');
}

/// Of a query's figures those of the baseline, whose stages and place are shown.
pub fn representative<'a>(summary: &Summary, figures: &'a [QueryFigures]) -> &'a QueryFigures {
    figures.iter().find(|figures| figures.setting == summary.baseline).unwrap_or(&figures[0])
}

/// `1.23`, `1.23 (1.30 ▲)` or the outcome.
pub fn figure(figures: &QueryFigures) -> String {
    let Some(seconds) = figures.median_s else { return figures.outcome.word().to_owned() };
    let seconds = seconds_text(seconds);
    match (figures.mark, figures.ratio_to_baseline) {
        (Some(mark), Some(ratio)) => format!("{seconds} ({ratio:.2} {})", sign(mark)),
        _ => seconds,
    }
}

fn sign(mark: Mark) -> &'static str {
    match mark {
        Mark::Slower => "▲",
        Mark::Faster => "▼",
    }
}

/// Where it ran, and why there.
pub fn place(figures: &QueryFigures) -> String {
    match (figures.place, figures.why.as_str()) {
        (None, _) => "–".to_owned(),
        (Some(place), "") => place.word().to_owned(),
        (Some(place), why) => format!("{}: {why}", place.word()),
    }
}

fn environment(out: &mut String, summary: &Summary) {
    let _ = writeln!(out, "## Environment\n");
    head(out, ["", "Value"]);
    for (name, value) in summary.environment.lines() {
        row(out, [name.to_owned(), value]);
    }
}
