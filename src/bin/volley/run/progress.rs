//! How far a run is, on stderr: one line that changes on a terminal, else a line every ten seconds.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::protocol::Progress;
use crate::units::{format_bytes, format_duration};

/// Between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

pub struct Display {
    bar: Option<ProgressBar>,
    next_line: Instant,
    legs: usize,
    leg: String,
    run: String,
    estimate: Estimate,
}

impl Display {
    /// For `legs` legs after leg 0.
    pub fn on_stderr(legs: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
            bar.set_style(
                ProgressStyle::with_template("{spinner} {wide_msg}").expect("a template that indicatif knows"),
            );
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Self {
            bar,
            next_line: Instant::now() + LINE_EVERY,
            legs,
            leg: String::new(),
            run: String::new(),
            estimate: Estimate::default(),
        }
    }

    /// A leg begins. `number` 0 is the pass that makes the reference rows.
    pub fn leg(&mut self, number: usize, setting: &str) {
        self.leg = match number {
            0 => "reference rows".to_owned(),
            _ => format!("leg {number} of {} ({setting})", self.legs),
        };
        self.run = "starting".to_owned();
        self.show(None);
    }

    /// A run begins: `q72, warm-up 1 of 1`.
    pub fn run(&mut self, run: String) {
        self.run = run;
        self.show(None);
    }

    /// The run goes on.
    pub fn progress(&mut self, progress: &Progress) {
        self.show(Some(progress));
    }

    /// What the time that is left is computed from.
    pub fn estimate(&mut self) -> &mut Estimate {
        &mut self.estimate
    }

    /// Something to keep on the screen.
    pub fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn show(&mut self, progress: Option<&Progress>) {
        let now = Instant::now();
        if self.bar.is_none() && now < self.next_line {
            return;
        }
        let mut text = format!("{}: {}", self.leg, self.run);
        if let Some(progress) = progress {
            if progress.stages > 0 {
                text.push_str(&format!(", stage {} of {}", progress.stages_done, progress.stages));
            }
            if progress.bytes > 0 {
                text.push_str(&format!(", {} shuffled", format_bytes(progress.bytes)));
            }
        }
        if let Some(left) = self.estimate.left() {
            text.push_str(&format!(", about {} left", format_duration(left)));
        }
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None => {
                eprintln!("{text}");
                self.next_line = now + LINE_EVERY;
            }
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The time that is left, from what each query took in leg 0 and how the runs since compare with it.
#[derive(Debug, Default)]
pub struct Estimate {
    /// Sum of leg 0's times over all runs that are to come.
    expected_left: f64,
    expected_done: f64,
    spent: f64,
}

impl Estimate {
    /// A run is to come that took `seconds` in leg 0.
    pub fn add(&mut self, seconds: f64) {
        self.expected_left += seconds;
    }

    /// A run that took `expected` in leg 0 took `spent`.
    pub fn done(&mut self, expected: f64, spent: f64) {
        self.expected_left = (self.expected_left - expected).max(0.0);
        self.expected_done += expected;
        self.spent += spent;
    }

    fn left(&self) -> Option<Duration> {
        if self.expected_left <= 0.0 {
            return None;
        }
        // Before there is much to go by, the runs are taken to be as fast as leg 0.
        let factor = if self.expected_done > 1.0 { self.spent / self.expected_done } else { 1.0 };
        Some(Duration::from_secs_f64(self.expected_left * factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_runs() {
        let mut estimate = Estimate::default();
        assert_eq!(estimate.left(), None);
        for _ in 0..4 {
            estimate.add(10.0);
        }
        assert_eq!(estimate.left(), Some(Duration::from_secs(40)));
        estimate.done(10.0, 15.0);
        assert_eq!(estimate.left(), Some(Duration::from_secs(45)));
        for _ in 0..3 {
            estimate.done(10.0, 15.0);
        }
        assert_eq!(estimate.left(), None);
    }
}
