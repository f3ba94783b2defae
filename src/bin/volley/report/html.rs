//! `report.html`: one file, no script, nothing fetched; tables scroll sideways on a narrow screen.

use std::fmt::Write;

use super::chart::{self, Bar, Dots, colour};
use super::figures::{MARK, QueryFigures, SettingFigures, Summary};
use super::markdown::{figure, notes, place, representative};
use super::{METHOD, compared_text, optional, seconds_text, title};
use crate::error::one_line;
use crate::units::format_bytes;

/// Queries in the chart of seconds.
const LONGEST: usize = 25;

const STYLE: &str = "
:root { color-scheme: light dark; --c0: #4269d0; --c1: #d98c00; --c2: #e0503a; --c3: #2f9e83; --c4: #8a5cc7; --c5: #7b7b7b;
  --line: #8884; --soft: #8882; }
@media (prefers-color-scheme: dark) { :root { --c0: #7f9cf0; --c1: #efb118; --c2: #ff8a75; --c3: #6cc5b0; --c4: #b99af0; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 70rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.notice { border-left: .25rem solid var(--c1); padding-left: .75rem; }
.bad { border-left: .25rem solid var(--c2); padding-left: .75rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child, .text { text-align: left; }
td.text { white-space: normal; min-width: 10rem; }
td.slower { color: var(--c2); } td.faster { color: var(--c3); } td.outcome { color: var(--c2); font-weight: bold; }
svg { display: block; width: 100%; max-width: 36rem; height: auto; margin: .5rem 0; font-size: 12px; }
svg text { fill: currentColor; } svg .label { text-anchor: end; } svg .tick { text-anchor: middle; font-size: 10px; }
svg .grid { stroke: var(--line); } svg .one { stroke: currentColor; } svg .band { fill: var(--soft); }
svg .leg { stroke: currentColor; stroke-width: 1.5; } svg circle { fill-opacity: .85; }
.legend span { margin-right: 1rem; white-space: nowrap; }
.legend i { display: inline-block; width: .8em; height: .8em; border-radius: 50%; margin-right: .35em; }
";

pub fn render(summary: &Summary) -> String {
    let heading = escape(&title(summary));
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{heading}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{heading}</h1>\n"
    );
    let _ = writeln!(out, "<p class=\"notice\">{}</p>", escape(&summary.notice));
    let _ = writeln!(out, "<p>Data: {}. Legs: {}.</p>", escape(&summary.data), escape(&summary.legs.join(", ")));
    settings(&mut out, summary);
    problems(&mut out, summary);
    ratios(&mut out, summary);
    longest(&mut out, summary);
    queries(&mut out, summary);
    let _ = writeln!(out, "<h2>How to read this</h2>\n<p>{}</p>", escape(METHOD));
    environment(&mut out, summary);
    out.push_str("</body>\n</html>\n");
    out
}

/// `text` for element content and attribute values.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A cell's class and text.
type Cell = (&'static str, String);

fn table(out: &mut String, titles: &[String], rows: impl IntoIterator<Item = Vec<Cell>>) {
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
    let rows: Vec<_> = rows.into_iter().collect();
    for (column, title) in titles.iter().enumerate() {
        let text = rows.first().is_some_and(|row| row.get(column).is_some_and(|cell| cell.0 == "text"));
        let _ = write!(out, "<th{}>{}</th>", if text { " class=\"text\"" } else { "" }, escape(title));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (class, text) in row {
            let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
            let _ = write!(out, "<td{class}>{}</td>", escape(&one_line(&text)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn titles(titles: &[&str]) -> Vec<String> {
    titles.iter().map(|title| (*title).to_owned()).collect()
}

fn settings(out: &mut String, summary: &Summary) {
    let _ = writeln!(out, "<h2>Settings</h2>\n<p>{}</p>", escape(&compared_text(summary)));
    let bars: Vec<Bar> = summary
        .settings
        .iter()
        .enumerate()
        .filter_map(|(index, setting)| {
            let value = setting.total_s?;
            Some(Bar { label: setting.name.clone(), value, legs: setting.legs_s.clone(), colour: colour(index) })
        })
        .collect();
    if !bars.is_empty() {
        out.push_str(&chart::bars("Total seconds by setting, with its legs as ticks", &bars));
    }
    let heads = [
        "Setting",
        "Engine",
        "Right",
        "On cluster",
        "Total s",
        "Geo. mean s",
        "Spread %",
        &format!("to {}", summary.baseline),
        "to single",
        "Remote",
        "Spilled",
        "CPU s",
        "Peak memory",
        "Notes",
    ];
    table(out, &titles(&heads), summary.settings.iter().map(setting_row));
}

fn setting_row(setting: &SettingFigures) -> Vec<Cell> {
    let plain = |text: String| ("", text);
    vec![
        plain(setting.name.clone()),
        plain(setting.engine.word().to_owned()),
        (if setting.comparable { "" } else { "outcome" }, format!("{} of {}", setting.correct, setting.queries)),
        plain(setting.distributed.to_string()),
        plain(optional(setting.total_s, seconds_text)),
        plain(optional(setting.geomean_s, seconds_text)),
        plain(optional(setting.spread_pct, |spread| format!("{spread:.1}"))),
        plain(optional(setting.ratio_to_baseline, |ratio| format!("{ratio:.2}"))),
        plain(optional(setting.ratio_to_single, |ratio| format!("{ratio:.2}"))),
        plain(format_bytes(setting.bytes_remote)),
        plain(format_bytes(setting.spilled_bytes)),
        plain(seconds_text(setting.cpu_s)),
        plain(format_bytes(setting.rss_peak)),
        ("text", notes(setting)),
    ]
}

fn problems(out: &mut String, summary: &Summary) {
    if summary.problems.is_empty() {
        return;
    }
    out.push_str("<h2>Not right</h2>\n<p class=\"bad\">These are in no total.</p>\n");
    let rows = summary.problems.iter().map(|problem| {
        vec![
            ("", problem.query.clone()),
            ("", problem.setting.clone()),
            ("", problem.leg.to_string()),
            ("outcome", problem.outcome.word().to_owned()),
            ("text", problem.message.clone()),
        ]
    });
    table(out, &titles(&["Query", "Setting", "Leg", "Outcome", "What"]), rows);
}

/// The settings that a chart shows beside the baseline, with their colours.
fn others(summary: &Summary) -> Vec<(&str, String)> {
    let coloured = summary.settings.iter().enumerate().map(|(index, setting)| (setting.name.as_str(), colour(index)));
    coloured.filter(|(name, _)| *name != summary.baseline).collect()
}

fn ratios(out: &mut String, summary: &Summary) {
    let others = others(summary);
    let rows: Vec<Dots> = summary
        .queries
        .chunk_by(|a, b| a.query == b.query)
        .map(|figures| Dots {
            label: figures[0].query.clone(),
            dots: others
                .iter()
                .filter_map(|(name, colour)| {
                    let figures = figures.iter().find(|figures| figures.setting == *name)?;
                    let ratio = figures.ratio_to_baseline?;
                    Some((ratio, colour.clone(), format!("{} {name}: {ratio:.2}", figures.query)))
                })
                .collect(),
        })
        .filter(|row| !row.dots.is_empty())
        .collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<h2>Each query against {}</h2>\n<p>To the right of 1: longer. Shaded: within 10 %.</p>",
        escape(&summary.baseline)
    );
    out.push_str(&chart::legend(others));
    let title = format!("Ratio of each query's seconds to {}", summary.baseline);
    out.push_str(&chart::dots(&title, &rows, "", Some((1.0 - MARK, 1.0 + MARK))));
}

fn longest(out: &mut String, summary: &Summary) {
    let mut queries: Vec<&[QueryFigures]> = summary.queries.chunk_by(|a, b| a.query == b.query).collect();
    let seconds = |figures: &[QueryFigures]| figures.iter().filter_map(|figures| figures.median_s).fold(0.0, f64::max);
    queries.retain(|figures| seconds(figures) > 0.0);
    queries.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    queries.truncate(LONGEST);
    if queries.is_empty() {
        return;
    }
    let rows: Vec<Dots> = queries
        .iter()
        .map(|figures| Dots {
            label: figures[0].query.clone(),
            dots: figures
                .iter()
                .enumerate()
                .filter_map(|(index, figures)| {
                    let seconds = figures.median_s?;
                    let told = format!("{} {}: {} s", figures.query, figures.setting, seconds_text(seconds));
                    Some((seconds, colour(index), told))
                })
                .collect(),
        })
        .collect();
    let _ = writeln!(out, "<h2>The longest queries</h2>\n<p>Seconds, on a logarithmic scale.</p>");
    let coloured = summary.settings.iter().enumerate().map(|(index, setting)| (setting.name.as_str(), colour(index)));
    out.push_str(&chart::legend(coloured));
    out.push_str(&chart::dots("Seconds of the longest queries by setting", &rows, " s", None));
}

fn queries(out: &mut String, summary: &Summary) {
    let _ = writeln!(
        out,
        "<h2>Queries</h2>\n<p>Seconds, and the ratio to {} where it is marked.</p>",
        escape(&summary.baseline)
    );
    let mut heads = titles(&["Query"]);
    heads.extend(summary.settings.iter().map(|setting| setting.name.clone()));
    heads.extend(titles(&["Rows", "Stages", "Remote", "Where"]));
    let rows = summary.queries.chunk_by(|a, b| a.query == b.query).map(|figures| {
        let shown = representative(summary, figures);
        let mut cells = vec![("", shown.query.clone())];
        cells.extend(figures.iter().map(|figures| (class(figures), figure(figures))));
        cells.push(("", shown.rows.to_string()));
        cells.push(("", shown.stages.to_string()));
        cells.push(("", format_bytes(shown.bytes_remote)));
        cells.push(("text", place(shown)));
        cells
    });
    table(out, &heads, rows);
}

fn class(figures: &QueryFigures) -> &'static str {
    use super::figures::Mark;
    match (figures.median_s, figures.mark) {
        (None, _) => "outcome",
        (_, Some(Mark::Slower)) => "slower",
        (_, Some(Mark::Faster)) => "faster",
        _ => "",
    }
}

fn environment(out: &mut String, summary: &Summary) {
    out.push_str("<h2>Environment</h2>\n");
    let rows =
        summary.environment.lines().into_iter().map(|(name, value)| vec![("", name.to_owned()), ("text", value)]);
    table(out, &titles(&["", "Value"]), rows);
}
