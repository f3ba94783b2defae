//! How far a generation is, on stderr: a bar on a terminal, else a line every ten seconds.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Rows done of rows expected. Shared by the generating threads.
pub struct Progress {
    show: Show,
    /// Begins each line: what is generated.
    what: String,
    /// Expected rows; an estimate, so the display never passes it.
    total: AtomicU64,
    done: AtomicU64,
}

enum Show {
    #[cfg_attr(not(test), allow(dead_code))]
    Nothing,
    Bar(ProgressBar),
    Lines {
        started: Instant,
        next: Mutex<Instant>,
    },
}

impl Progress {
    /// A bar if stderr is a terminal, else lines. `what` names the work: `tpcds data at scale 1`.
    pub fn on_stderr(what: impl Into<String>) -> Self {
        let show = if std::io::stderr().is_terminal() {
            Show::Bar(ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5)))
        } else {
            let now = Instant::now();
            Show::Lines { started: now, next: Mutex::new(now + LINE_EVERY) }
        };
        Self::new(show, what.into())
    }

    /// Shows nothing, for tests.
    #[cfg_attr(not(test), allow(dead_code))]
    pub fn silent() -> Self {
        Self::new(Show::Nothing, String::new())
    }

    fn new(show: Show, what: String) -> Self {
        Self { show, what, total: AtomicU64::new(0), done: AtomicU64::new(0) }
    }

    /// The work begins; about `rows` rows are expected.
    pub fn start(&self, rows: u64) {
        self.total.store(rows, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        match &self.show {
            Show::Nothing => {}
            Show::Bar(bar) => {
                let style = "{msg} {wide_bar} {percent}% {human_pos} of about {human_len} rows, {eta} left";
                bar.set_style(ProgressStyle::with_template(style).expect("a template that indicatif knows"));
                bar.set_length(rows);
                bar.set_message(self.what.clone());
            }
            Show::Lines { .. } => eprintln!("{}: about {} rows to make", self.what, millions(rows)),
        }
    }

    /// `rows` more are done.
    pub fn advance(&self, rows: u64) {
        let total = self.total.load(Ordering::Relaxed);
        let done = (self.done.fetch_add(rows, Ordering::Relaxed) + rows).min(total);
        match &self.show {
            Show::Nothing => {}
            Show::Bar(bar) => bar.set_position(done),
            Show::Lines { started, next } => {
                // Whoever holds the lock prints; the others have work to do.
                let Ok(mut next) = next.try_lock() else {
                    return;
                };
                let now = Instant::now();
                if now < *next {
                    return;
                }
                *next = now + LINE_EVERY;
                let spent = started.elapsed().as_secs_f64();
                let left = spent * (total - done) as f64 / done.max(1) as f64;
                eprintln!(
                    "{}: {} of about {} rows, about {left:.0} s left",
                    self.what,
                    millions(done),
                    millions(total)
                );
            }
        }
    }

    /// Something to say beside the figures, such as waiting for another process.
    pub fn note(&self, text: &str) {
        match &self.show {
            Show::Nothing => {}
            Show::Bar(bar) => bar.println(format!("{}: {text}", self.what)),
            Show::Lines { .. } => eprintln!("{}: {text}", self.what),
        }
    }

    /// The work ended, well or not. `last` is printed below a bar's place or as the last line.
    pub fn finish(&self, last: Option<&str>) {
        if let Show::Bar(bar) = &self.show {
            bar.finish_and_clear();
        }
        if let (Some(last), false) = (last, matches!(self.show, Show::Nothing)) {
            eprintln!("{}: {last}", self.what);
        }
    }
}

/// `12.3 M` or, below a million, all digits.
fn millions(rows: u64) -> String {
    if rows < 1_000_000 { rows.to_string() } else { format!("{:.1} M", rows as f64 / 1e6) }
}
