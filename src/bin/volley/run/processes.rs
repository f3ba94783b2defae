//! CPU time and memory of other processes, as `/proc` tells. Where there is no `/proc`, figures are zero or left out.

use std::collections::BTreeMap;
use std::fs;

use super::protocol::Process;

/// Seconds of CPU, user and system, that `processes` have used since they started, their ended threads included.
///
/// Counted in clock ticks, usually of 10 ms: the difference of two calls is that coarse for each process.
pub fn cpu_seconds(processes: &[Process]) -> f64 {
    let ticks: u64 = processes.iter().filter_map(|process| cpu_ticks(process.pid)).sum();
    ticks as f64 / ticks_per_second()
}

fn cpu_ticks(pid: u32) -> Option<u64> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// `utime` and `stime`, fields 14 and 15. The name before them may contain spaces and parentheses.
fn parse_stat(stat: &str) -> Option<u64> {
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn ticks_per_second() -> f64 {
    // SAFETY: no pointers; any argument gives a number.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

/// The highest resident bytes of each process since it started or since [`reset_peaks`].
pub fn rss_peaks(processes: &[Process]) -> BTreeMap<String, u64> {
    let peak = |process: &Process| {
        let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).ok()?;
        Some((process.name.clone(), parse_peak(&status)?))
    };
    processes.iter().filter_map(peak).collect()
}

fn parse_peak(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Begins a new peak for each process, where the system allows it; elsewhere peaks are since the start.
pub fn reset_peaks(processes: &[Process]) {
    for process in processes {
        let _ = fs::write(format!("/proc/{}/clear_refs", process.pid), "5");
    }
}

/// Whether a process of that id runs (a zombie does not).
pub fn is_alive(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    stat.rsplit_once(')').is_some_and(|(_, rest)| !matches!(rest.trim_start().chars().next(), Some('Z' | 'X') | None))
}

/// Bytes of memory that this process may still use: what the system has free, within the control group's limit.
pub fn available_memory() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_files_are_read() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 3 0 1000 1 2";
        assert_eq!(parse_stat(stat), Some(300));
        assert_eq!(parse_stat("42"), None);
        assert_eq!(parse_peak("Name:\tx\nVmHWM:\t    1024 kB\n"), Some(1 << 20));
        assert_eq!(parse_peak("Name:\tx\n"), None);
    }

    #[test]
    fn this_process_uses_cpu_and_memory() {
        let me = [Process { name: "me".to_owned(), pid: std::process::id() }];
        let before = cpu_seconds(&me);
        let end = std::time::Instant::now() + std::time::Duration::from_millis(60);
        let mut sum = 0_u64;
        while std::time::Instant::now() < end {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_seconds(&me) > before);
        assert!(rss_peaks(&me)["me"] > 0);
        assert!(is_alive(me[0].pid));
        assert!(!is_alive(u32::MAX));
    }
}
