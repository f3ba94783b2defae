//! Inline SVG charts. 400 units wide, so that text is readable on a phone's width; colours and text follow the page's.

use std::fmt::Write;

use super::html::escape;
use super::seconds_text;

const WIDTH: f64 = 400.0;
/// Where the marks begin; labels are to the left.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 388.0;
const ROW: f64 = 17.0;

/// A class of marks with its colour, the page's `--cN`.
pub fn colour(index: usize) -> String {
    format!("var(--c{})", index % 6)
}

/// One bar a row, with the single legs as ticks.
pub struct Bar {
    pub label: String,
    pub value: f64,
    pub legs: Vec<f64>,
    pub colour: String,
}

/// Horizontal bars from zero.
pub fn bars(title: &str, bars: &[Bar]) -> String {
    let largest = bars.iter().flat_map(|bar| bar.legs.iter().copied().chain([bar.value])).fold(0.0, f64::max);
    let height = 26.0 * bars.len() as f64 + 4.0;
    // Room for the figure behind the longest bar.
    let x = |value: f64| LEFT + if largest > 0.0 { value / largest * (RIGHT - LEFT - 48.0) } else { 0.0 };
    let mut out = open(title, height);
    for (row, bar) in bars.iter().enumerate() {
        let y = 26.0 * row as f64 + 4.0;
        label(&mut out, &bar.label, y + 13.0);
        let _ = write!(
            out,
            "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"18\" rx=\"2\" fill=\"{}\"/>",
            x(bar.value) - LEFT,
            bar.colour
        );
        for leg in &bar.legs {
            let _ = write!(
                out,
                "<line class=\"leg\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1}\" y2=\"{2}\"><title>leg: {3} s</title></line>",
                x(*leg),
                y + 3.0,
                y + 15.0,
                seconds_text(*leg)
            );
        }
        let behind = bar.legs.iter().copied().fold(bar.value, f64::max);
        let _ =
            write!(out, "<text x=\"{:.1}\" y=\"{}\">{} s</text>", x(behind) + 5.0, y + 13.0, seconds_text(bar.value));
    }
    out.push_str("</svg>\n");
    out
}

/// One row of dots on a common logarithmic axis.
pub struct Dots {
    pub label: String,
    /// Value, colour and what is told when it is pointed at.
    pub dots: Vec<(f64, String, String)>,
}

/// Dots on a logarithmic axis. `band` shades a range of values, such as what counts as the same.
pub fn dots(title: &str, rows: &[Dots], unit: &str, band: Option<(f64, f64)>) -> String {
    let values = || rows.iter().flat_map(|row| row.dots.iter().map(|dot| dot.0)).filter(|value| *value > 0.0);
    let (mut low, mut high) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    if let Some(band) = band {
        (low, high) = (low.min(band.0 / 1.1), high.max(band.1 * 1.1));
    }
    if low > high {
        return String::new();
    }
    // A little room at both ends; at least a factor of two, so that equal values stand in the middle.
    let room = (high / low).max(2.0).powf(0.04);
    let middle = (low * high).sqrt();
    (low, high) = ((low / room).min(middle / 1.5), (high * room).max(middle * 1.5));
    let x = |value: f64| LEFT + (value.clamp(low, high) / low).ln() / (high / low).ln() * (RIGHT - LEFT);
    let height = ROW * rows.len() as f64 + 22.0;
    let bottom = height - 18.0;
    let mut out = open(title, height);
    if let Some((from, to)) = band {
        let _ = write!(
            out,
            "<rect class=\"band\" x=\"{:.1}\" y=\"0\" width=\"{:.1}\" height=\"{bottom:.1}\"/>",
            x(from),
            x(to) - x(from)
        );
    }
    for tick in ticks(low, high) {
        let class = if band.is_some() && tick == 1.0 { "one" } else { "grid" };
        let _ = write!(
            out,
            "<line class=\"{class}\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"0\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick\" x=\"{0:.1}\" y=\"{1:.1}\">{2}{unit}</text>",
            x(tick),
            height - 5.0,
            tick_text(tick)
        );
    }
    for (place, row) in rows.iter().enumerate() {
        let y = ROW * place as f64 + ROW / 2.0;
        label(&mut out, &row.label, y + 4.0);
        for (value, colour, told) in row.dots.iter().filter(|dot| dot.0 > 0.0) {
            let _ = write!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4.5\" fill=\"{colour}\"><title>{}</title></circle>",
                x(*value),
                escape(told)
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

/// Names of the colours.
pub fn legend<'a>(entries: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut out = String::from("<p class=\"legend\">");
    for (name, colour) in entries {
        let _ = write!(out, "<span><i style=\"background:{colour}\"></i>{}</span>", escape(name));
    }
    out.push_str("</p>\n");
    out
}

fn open(title: &str, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {WIDTH} {height}\"><title>{}</title>",
        escape(title)
    )
}

fn label(out: &mut String, text: &str, y: f64) {
    let shown: String =
        if text.chars().count() > 8 { text.chars().take(7).chain(['…']).collect() } else { text.to_owned() };
    let _ = write!(out, "<text class=\"label\" x=\"{}\" y=\"{y:.1}\">{}</text>", LEFT - 6.0, escape(&shown));
}

/// One, two and five times the powers of ten between `low` and `high`; fewer where they would touch.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let steps: &[f64] = if decades > 3.0 {
        &[1.0]
    } else if decades > 1.2 {
        &[1.0, 3.0]
    } else if decades > 0.45 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0, 8.0, 9.0]
    };
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    (first..=last)
        .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)))
        .filter(|tick| (low..=high).contains(tick))
        .collect()
}

fn tick_text(tick: f64) -> String {
    let text = format!("{tick:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_do_not_crowd() {
        let check = |low, high, expect: &str| {
            let texts: Vec<_> = ticks(low, high).into_iter().map(tick_text).collect();
            assert_eq!(texts.join(" "), expect);
        };
        check(0.02, 30.0, "0.1 1 10");
        check(0.4, 4.1, "0.5 1 2");
        check(0.4, 9.0, "1 3");
        check(0.8, 1.3, "0.8 0.9 1 1.2");
    }

    #[test]
    fn nothing_to_show_is_no_chart() {
        assert_eq!(dots("t", &[], "", None), "");
        let one =
            dots("t", &[Dots { label: "q1".to_owned(), dots: vec![(2.0, colour(0), "2".to_owned())] }], " s", None);
        assert!(one.contains("cx=\"225.0\""), "{one}");
    }
}
