//! The machine and the build that figures come from. What the system does not tell is left out, never guessed.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Environment {
    /// Model name.
    pub cpu: Option<String>,
    /// Threads that this process may use.
    pub cores: usize,
    pub memory_bytes: Option<u64>,
    /// Name and release.
    pub kernel: Option<String>,
    pub cgroup: Cgroup,
    pub volley: String,
    pub datafusion: String,
    pub rustc: Option<String>,
    /// Of the source this was built from; `+` behind it if that had changes.
    pub commit: Option<String>,
    pub command_line: String,
    /// UTC, `2026-01-31T12:00:00Z`.
    pub started: String,
}

/// Limits of the control group, where there are any.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cgroup {
    /// CPUs' worth of time.
    pub cpus: Option<f64>,
    pub memory_bytes: Option<u64>,
}

impl Environment {
    /// Looks at this machine now. `started` is when the command began.
    pub fn collect(started: SystemTime) -> Self {
        Self {
            cpu: cpu_model(&read("/proc/cpuinfo").unwrap_or_default()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory(&read("/proc/meminfo").unwrap_or_default()),
            kernel: kernel(),
            cgroup: Cgroup::collect(),
            volley: env!("CARGO_PKG_VERSION").to_owned(),
            datafusion: datafusion::DATAFUSION_VERSION.to_owned(),
            rustc: option_env!("VOLLEY_RUSTC").map(str::to_owned),
            commit: commit(),
            command_line: std::env::args().map(|word| quoted(&word)).collect::<Vec<_>>().join(" "),
            started: utc(started),
        }
    }

    /// Name and value, in the order in which a report shows them.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        use crate::units::format_bytes;
        let unknown = || "unknown".to_owned();
        let mut limits = Vec::new();
        if let Some(cpus) = self.cgroup.cpus {
            limits.push(format!("{cpus} CPUs"));
        }
        if let Some(bytes) = self.cgroup.memory_bytes {
            limits.push(format_bytes(bytes));
        }
        let limits = if limits.is_empty() { "none".to_owned() } else { limits.join(", ") };
        vec![
            ("CPU", self.cpu.clone().unwrap_or_else(unknown)),
            ("Cores", self.cores.to_string()),
            ("Memory", self.memory_bytes.map_or_else(unknown, format_bytes)),
            ("Kernel", self.kernel.clone().unwrap_or_else(unknown)),
            ("Control group limits", limits),
            ("volley", self.volley.clone()),
            ("DataFusion", self.datafusion.clone()),
            ("rustc", self.rustc.clone().unwrap_or_else(unknown)),
            ("Commit", self.commit.clone().unwrap_or_else(unknown)),
            ("Command", self.command_line.clone()),
            ("Started", self.started.clone()),
        ]
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// From `/proc/cpuinfo`; some architectures name no model.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    };
    value("model name").or_else(|| value("Model")).or_else(|| value("Hardware"))
}

/// From `/proc/meminfo`, in bytes.
fn memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

fn kernel() -> Option<String> {
    let name = read("/proc/sys/kernel/ostype")?;
    let release = read("/proc/sys/kernel/osrelease")?;
    Some(format!("{} {}", name.trim(), release.trim()))
}

impl Cgroup {
    /// The limits of this process's group (version 2, or version 1 as a container sees it), nearest first.
    fn collect() -> Self {
        let own = read("/proc/self/cgroup")
            .and_then(|text| text.lines().find_map(|line| line.strip_prefix("0::/").map(str::to_owned)))
            .unwrap_or_default();
        let v2 = |file: &str| {
            read(&format!("/sys/fs/cgroup/{own}/{file}")).or_else(|| read(&format!("/sys/fs/cgroup/{file}")))
        };
        let v1 = |file: &str| read(&format!("/sys/fs/cgroup/{file}"));
        let cpus = v2("cpu.max").as_deref().and_then(cpu_max).or_else(|| {
            let quota: f64 = v1("cpu/cpu.cfs_quota_us")?.trim().parse().ok()?;
            let period: f64 = v1("cpu/cpu.cfs_period_us")?.trim().parse().ok()?;
            (quota > 0.0 && period > 0.0).then(|| quota / period)
        });
        let memory = v2("memory.max").or_else(|| v1("memory/memory.limit_in_bytes"));
        Self { cpus, memory_bytes: memory.as_deref().and_then(memory_max) }
    }
}

/// `200000 100000` is two CPUs, `max 100000` no limit.
fn cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period) = (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?);
    (period > 0.0).then(|| quota / period)
}

/// A number of bytes; `max`, and version 1's page-rounded 2^63, mean none.
fn memory_max(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok().filter(|bytes| *bytes < 1 << 60)
}

/// Known at build time, or asked of git where `cargo run` says the source is.
fn commit() -> Option<String> {
    if let Some(commit) = option_env!("VOLLEY_COMMIT") {
        return Some(commit.to_owned());
    }
    let source = std::env::var_os("CARGO_MANIFEST_DIR")?;
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&source).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|changes| !changes.is_empty());
    Some(if changed { format!("{commit}+") } else { commit })
}

/// As a shell would take it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Seconds in UTC as RFC 3339.
pub fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days as i64);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second % 3600 / 60, second % 60)
}

/// Year, month and day of a day since 1970-01-01, by Howard Hinnant's `civil_from_days`.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Years begin in March here.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let check = |seconds: u64, text: &str| assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(1_798_761_599, "2026-12-31T23:59:59Z");
    }

    #[test]
    fn the_systems_files_are_read() {
        assert_eq!(cpu_model("processor : 0\nmodel name\t: Some CPU @ 2 GHz\n").as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(cpu_model("processor : 0\n"), None);
        assert_eq!(memory("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(cpu_max("150000 100000\n"), Some(1.5));
        assert_eq!(cpu_max("max 100000\n"), None);
        assert_eq!(memory_max("max\n"), None);
        assert_eq!(memory_max("9223372036854771712\n"), None);
        assert_eq!(memory_max("1048576\n"), Some(1 << 20));
    }

    #[test]
    fn a_command_line_can_be_pasted() {
        assert_eq!(quoted("--query=q3,q7-q12"), "--query=q3,q7-q12");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn this_machine_has_cores() {
        let environment = Environment::collect(UNIX_EPOCH);
        assert!(environment.cores > 0);
        assert_eq!(environment.lines().len(), 11);
    }
}
