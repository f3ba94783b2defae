//! What users write for sizes, durations, names and lists of queries, and how we write them back.

use std::time::Duration;

use crate::error::CliError;

/// Words for sizes, largest first. `KB` is a thousand bytes, `KiB` 1,024; a bare letter means the binary one, as in
/// `ulimit` and Kubernetes' users' habit of `2G`.
const SIZE_UNITS: [(&str, u64); 15] = [
    ("TIB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("T", 1 << 40),
    ("GIB", 1 << 30),
    ("GB", 1_000_000_000),
    ("G", 1 << 30),
    ("MIB", 1 << 20),
    ("MB", 1_000_000),
    ("M", 1 << 20),
    ("KIB", 1 << 10),
    ("KB", 1_000),
    ("K", 1 << 10),
    ("BYTES", 1),
    ("B", 1),
    ("", 1),
];

/// Bytes of `512MiB`, `2GB`, `1.5GiB`, `64k` or plain `1048576`, in any case, with or without a space.
///
/// # Errors
/// `VOLLEY-SIZE`: no number, an unknown unit, less than one byte or more than 2^63.
pub fn parse_size(text: &str) -> Result<u64, CliError> {
    let bad = |why: &str| {
        CliError::usage(
            "VOLLEY-SIZE",
            format!("{text:?} is not a size: {why}"),
            "write a size such as 512MiB, 2GB, 1.5GiB or a number of bytes",
        )
    };
    let (number, unit) = number_and_unit(text);
    let number: f64 = number.parse().map_err(|_| bad("it does not begin with a number"))?;
    let unit = unit.to_ascii_uppercase();
    let Some((_, factor)) = SIZE_UNITS.iter().find(|(word, _)| *word == unit) else {
        return Err(bad("its unit is unknown"));
    };
    let bytes = (number * *factor as f64).round();
    if bytes < 1.0 {
        return Err(bad("it is less than one byte"));
    }
    if bytes > i64::MAX as f64 {
        return Err(bad("it is too large"));
    }
    Ok(bytes as u64)
}

/// `1.5 GiB`, `512 MiB`, `17 B`: three significant digits at most, binary units.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    // 1023.5 would be shown as 1024.
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 99.95 { 0 } else { 1 };
    let shown = format!("{value:.digits$}");
    format!("{} {}", shown.strip_suffix(".0").unwrap_or(&shown), UNITS[unit])
}

/// `90`, `90s`, `1.5m`, `2h`, `250ms`; a bare number is seconds.
///
/// # Errors
/// `VOLLEY-DURATION`: no number, an unknown unit, zero or more than a year.
pub fn parse_duration(text: &str) -> Result<Duration, CliError> {
    let bad = |why: &str| {
        CliError::usage(
            "VOLLEY-DURATION",
            format!("{text:?} is not a duration: {why}"),
            "write seconds, or a duration such as 250ms, 90s, 5m or 1h",
        )
    };
    let (number, unit) = number_and_unit(text);
    let number: f64 = number.parse().map_err(|_| bad("it does not begin with a number"))?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "ms" => 0.001,
        "" | "s" | "sec" | "seconds" => 1.0,
        "m" | "min" | "minutes" => 60.0,
        "h" | "hours" => 3600.0,
        _ => return Err(bad("its unit is unknown")),
    };
    let seconds = number * factor;
    if seconds <= 0.0 {
        return Err(bad("it is not above zero"));
    }
    if seconds > 366.0 * 24.0 * 3600.0 {
        return Err(bad("it is more than a year"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// `850 ms`, `12.3 s`, `4 min 05 s`, `2 h 03 min`.
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let whole = seconds.round() as u64;
    match seconds {
        s if s < 0.9995 => format!("{:.0} ms", s * 1000.0),
        s if s < 99.95 => format!("{s:.1} s"),
        s if s < 3599.5 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

/// The digits (and point, and sign) at the front, and the word behind them.
fn number_and_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    (text[..end].trim(), text[end..].trim())
}

/// The candidate that `name` was probably meant to be, the first of equally near ones; `None` if none is near: alike by
/// Jaro and Winkler's measure, which favours a common beginning, or one edit away, as short names are.
pub fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let mut nearest: Option<(f64, &str)> = None;
    for candidate in candidates {
        let lower = candidate.to_lowercase();
        let nearness = strsim::jaro_winkler(&name, &lower);
        let near = nearness > 0.75 || (name.len() > 1 && strsim::damerau_levenshtein(&name, &lower) == 1);
        if near && nearest.is_none_or(|(best, _)| nearness > best) {
            nearest = Some((nearness, candidate));
        }
    }
    nearest.map(|(_, candidate)| candidate)
}

/// What to do about an unknown `name`: the nearest of `candidates`, and what else there is.
pub fn did_you_mean(name: &str, candidates: &[&str]) -> String {
    let all = candidates.join(", ");
    match suggest(name, candidates.iter().copied()) {
        Some(near) => format!("did you mean {near}? There are: {all}"),
        None => format!("there are: {all}"),
    }
}

/// The names that `list` selects from `available`, in the order of `available`.
///
/// `q3,q7-q12,q14a`: names, `q` and leading zeros optional, and ranges by number, both ends included. A number without a
/// letter means all parts of that query: `q14` is `q14a` and `q14b` where those exist.
///
/// # Errors
/// `VOLLEY-QUERY`: a name that selects nothing, a range backwards, an empty list.
pub fn parse_queries(list: &str, available: &[&str]) -> Result<Vec<String>, CliError> {
    let mut chosen = vec![false; available.len()];
    for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let mut found = false;
        // A name is taken as it is, whatever it contains; only then does it mean a number or a range.
        for (place, name) in available.iter().enumerate() {
            if name.eq_ignore_ascii_case(item) || selects(item, name)? {
                chosen[place] = true;
                found = true;
            }
        }
        if !found {
            return Err(CliError::usage(
                "VOLLEY-QUERY",
                format!("{item:?} is no query"),
                did_you_mean(item, available),
            ));
        }
    }
    if !chosen.contains(&true) {
        return Err(CliError::usage("VOLLEY-QUERY", "no query is chosen", "name some, such as q3,q7-q12,q14a"));
    }
    Ok(available.iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(name, _)| (*name).to_owned()).collect())
}

/// Whether `item`, a number with or without letter or a range of such, selects the query `name`.
fn selects(item: &str, name: &str) -> Result<bool, CliError> {
    let Some((number, part)) = query_number(name) else {
        return Ok(false);
    };
    if let Some((first, last)) = item.split_once('-')
        && let (Some(first), Some(last)) = (query_number(first.trim()), query_number(last.trim()))
    {
        if first.0 > last.0 {
            return Err(CliError::usage(
                "VOLLEY-QUERY",
                format!("the range {item:?} is backwards"),
                "write the smaller number first, as in q7-q12",
            ));
        }
        // An end with a letter is that part; without, all parts of its number.
        let from = (first.0, first.1);
        let to = (last.0, if last.1.is_empty() { "\u{10ffff}" } else { last.1 });
        return Ok(from <= (number, part) && (number, part) <= to);
    }
    let Some((wanted, wanted_part)) = query_number(item) else {
        return Ok(false);
    };
    Ok(wanted == number && (wanted_part.is_empty() || wanted_part.eq_ignore_ascii_case(part)))
}

/// `q014a` and `14a` are `(14, "a")`.
fn query_number(name: &str) -> Option<(u32, &str)> {
    let digits = name.strip_prefix(['q', 'Q']).unwrap_or(name);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let part = &digits[end..];
    if !part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_uppercase()) || part.len() > 1 {
        return None;
    }
    Some((digits[..end].parse().ok()?, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let check = |text: &str, bytes: Option<u64>| assert_eq!(parse_size(text).ok(), bytes, "{text}");
        check("512MiB", Some(512 << 20));
        check("2GB", Some(2_000_000_000));
        check("1.5GiB", Some(3 << 29));
        check(" 64 kib ", Some(65_536));
        check("2G", Some(2 << 30));
        check("1048576", Some(1 << 20));
        check("0", None);
        check("-1GB", None);
        check("GB", None);
        check("12 parsecs", None);
        check("1e5", None);
        check("99999999TiB", None);
        check("", None);
    }

    #[test]
    fn sizes_as_text() {
        let check = |bytes: u64, text: &str| assert_eq!(format_bytes(bytes), text);
        check(0, "0 B");
        check(1023, "1023 B");
        check(1024, "1 KiB");
        check(1536, "1.5 KiB");
        check((1 << 20) - 1, "1 MiB");
        check(418_000_000, "399 MiB");
        check(3 << 29, "1.5 GiB");
    }

    #[test]
    fn durations() {
        let check = |text: &str, seconds: Option<f64>| {
            assert_eq!(parse_duration(text).ok().map(|d| d.as_secs_f64()), seconds, "{text}");
        };
        check("90", Some(90.0));
        check("250ms", Some(0.25));
        check("1.5m", Some(90.0));
        check("2h", Some(7200.0));
        check("0", None);
        check("soon", None);
        check("3 fortnights", None);
        check("1000000h", None);
    }

    #[test]
    fn durations_as_text() {
        let check = |seconds: f64, text: &str| assert_eq!(format_duration(Duration::from_secs_f64(seconds)), text);
        check(0.85, "850 ms");
        check(12.34, "12.3 s");
        check(245.0, "4 min 05 s");
        check(7_384.0, "2 h 03 min");
    }

    #[test]
    fn the_nearest_name_is_suggested_if_it_is_near() {
        let names = ["channels", "codec", "message", "window", "partitions"];
        let check = |name: &str, near: Option<&str>| assert_eq!(suggest(name, names), near, "{name}");
        check("chanels", Some("channels"));
        check("Codecs", Some("codec"));
        check("partition", Some("partitions"));
        check("zzz", None);
        let names = ["single", "c1", "c2"];
        assert_eq!(suggest("c3", names), Some("c1"));
        assert_eq!(suggest("x9", names), None);
    }

    #[test]
    fn lists_of_queries() {
        let available = ["q01", "q03", "q07", "q08", "q12", "q14a", "q14b", "q15", "extra-1"];
        let check = |list: &str, expect: &str| {
            let got = match parse_queries(list, &available) {
                Ok(names) => names.join(" "),
                Err(error) => error.to_string(),
            };
            assert!(got.starts_with(expect), "{list}: {got}");
        };
        check("q3,q7-q12,q14a", "q03 q07 q08 q12 q14a");
        check("14", "q14a q14b");
        check("q12-q14", "q12 q14a q14b");
        check("q14b-q15", "q14b q15");
        check("Q3, extra-1", "q03 extra-1");
        check("q15,q1", "q01 q15");
        check("q99", "VOLLEY-QUERY: \"q99\" is no query; ");
        check("q12-q7", "VOLLEY-QUERY: the range \"q12-q7\" is backwards");
        check("", "VOLLEY-QUERY: no query is chosen");
        check("q14c", "VOLLEY-QUERY: \"q14c\" is no query");
    }
}
