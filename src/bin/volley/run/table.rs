//! The figures as a table of text, for the end of a run.

use crate::report::{Outcome, Summary, notice};

/// Problems that are shown; the report has all.
const SHOWN: usize = 20;

pub fn render(summary: &Summary) -> String {
    let number =
        |value: Option<f64>, digits: usize| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"));
    let mut rows = vec![
        ["setting", "right", "on cluster", "total s", "geomean s", "spread %", "to baseline", "to single"]
            .map(str::to_owned),
    ];
    for setting in &summary.settings {
        let mark = if setting.name == summary.baseline { " *" } else { "" };
        rows.push([
            format!("{}{mark}", setting.name),
            format!("{}/{}", setting.correct, setting.queries),
            setting.distributed.to_string(),
            number(setting.total_s, 2),
            number(setting.geomean_s, 3),
            number(setting.spread_pct, 1),
            number(setting.ratio_to_baseline, 3),
            number(setting.ratio_to_single, 3),
        ]);
    }
    let mut text = columns(&rows);
    let queries = summary.settings.first().map_or(0, |setting| setting.queries);
    text.push_str(&format!(
        "* baseline. Legs {}; totals over the {} of {queries} queries that are right in every leg.\n",
        summary.legs.join(","),
        summary.compared.len()
    ));
    for setting in &summary.settings {
        if let Some(label) = &setting.label {
            text.push_str(&format!("{}: {label}\n", setting.name));
        }
        if !setting.comparable {
            text.push_str(&format!("{}: not comparable, some queries were not right\n", setting.name));
        }
    }
    for problem in summary.problems.iter().take(SHOWN) {
        let what = if problem.outcome == Outcome::NotRun { "" } else { ": " };
        text.push_str(&format!(
            "{} in leg {} ({}): {}{what}{}\n",
            problem.query,
            problem.leg,
            problem.setting,
            problem.outcome.word(),
            problem.message.replace('\n', " | ")
        ));
    }
    if summary.problems.len() > SHOWN {
        text.push_str(&format!("and {} more; see the report\n", summary.problems.len() - SHOWN));
    }
    text.push_str(&notice(summary.suite));
    text
}

/// The first column to the left, the others to the right.
fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let cells: Vec<_> = row
            .iter()
            .enumerate()
            .map(|(column, cell)| {
                let width = widths[column];
                if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["a", "1"], ["long", "22"]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows), "a      1\nlong  22\n");
    }
}
