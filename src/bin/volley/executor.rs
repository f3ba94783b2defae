//! `volley executor`: one executor, until a signal or, as a child, the end of its stdin.

use std::io::Read;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use datafusion_volley::executor::{
    Executor, ExecutorExtensions, ExecutorOptions, default_memory_bytes, default_shuffle_memory_bytes, default_slots,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::cli::ExecutorArgs;
use crate::error::{CliError, ExitStatus};
use crate::failure;
use crate::run::options::token;
use crate::run::output::print;
use crate::units::{format_bytes, parse_duration, parse_size};

/// A child whose parent is gone ends by force after this long.
const ORPHAN_WITHIN: Duration = Duration::from_secs(4);

/// Serves until it is told to stop.
///
/// # Errors
/// Options that contradict each other, a port in use, a work directory that cannot be written.
pub async fn command(args: ExecutorArgs) -> Result<ExitStatus, CliError> {
    let drain = parse_duration(&args.drain)?;
    let options = options(&args)?;
    let mut signals = Signals::listen(args.exit_with_parent)?;
    // Before it serves: a parent may be gone by then.
    let work_path = Arc::new(OnceLock::new());
    let parent_gone = args.exit_with_parent.then(|| end_of_stdin(Arc::clone(&work_path)));

    let budget = budget(&options);
    let executor =
        Executor::start(options, ExecutorExtensions::default()).await.map_err(|error| failure::of_volley(&error))?;
    // Set once.
    let _ = work_path.set(executor.work_path().to_owned());
    if args.ready_stdout {
        print(&format!("ready {}\n", executor.endpoint()))?;
    } else {
        eprintln!("executor at {}: {budget}", executor.endpoint());
    }

    let drain = match parent_gone {
        None => {
            signals.recv().await;
            eprintln!("draining for up to {} s; a second signal ends it at once", drain.as_secs_f64());
            drain
        }
        Some(gone) => tokio::select! {
            // An error: the thread is gone, which means the same.
            _ = gone => Duration::ZERO,
            () = signals.recv() => drain,
        },
    };
    tokio::select! {
        () = executor.shutdown(drain) => Ok(ExitStatus::Right),
        () = signals.recv() => Ok(ExitStatus::Interrupted),
    }
}

fn options(args: &ExecutorArgs) -> Result<ExecutorOptions, CliError> {
    let defaults = ExecutorOptions::default();
    let memory_bytes = args.memory.as_deref().map(parse_size).transpose()?.unwrap_or_else(default_memory_bytes);
    let shuffle_memory_bytes = match &args.shuffle_memory {
        Some(text) => parse_size(text)?,
        None => default_shuffle_memory_bytes(memory_bytes),
    };
    let slots = match &args.slots {
        None => default_slots(),
        Some(text) => match text.parse::<usize>() {
            Ok(slots @ 1..=4096) => slots,
            _ => {
                return Err(CliError::usage(
                    "VOLLEY-USAGE",
                    format!("--slots {text:?} is not a whole number from 1 to 4096"),
                    "give the number of CPU threads",
                ));
            }
        },
    };
    Ok(ExecutorOptions {
        listen: listen(&args.listen)?,
        advertise: args.advertise.clone(),
        slots,
        memory_bytes,
        shuffle_memory_bytes,
        work_dir: args.work_dir.clone().unwrap_or(defaults.work_dir),
        disk_limit_bytes: args.disk_limit.as_deref().map(parse_size).transpose()?.unwrap_or(defaults.disk_limit_bytes),
        token: token(args.token_file.as_deref())?,
        insecure: args.insecure,
    })
}

fn listen(text: &str) -> Result<SocketAddr, CliError> {
    text.to_socket_addrs().ok().and_then(|mut found| found.next()).ok_or_else(|| {
        CliError::usage(
            "VOLLEY-ADDRESS",
            format!("--listen {text:?} is no address of this machine"),
            "write IP:PORT, such as 127.0.0.1:50051 or 0.0.0.0:50051",
        )
    })
}

/// Where memory and disk can go, as one line whose parts add up.
fn budget(options: &ExecutorOptions) -> String {
    let operators = options.memory_bytes.saturating_sub(options.shuffle_memory_bytes);
    format!(
        "{} slots, memory {} = {} operators + {} shuffles, disk up to {} below {}, {}",
        options.slots,
        format_bytes(options.memory_bytes),
        format_bytes(operators),
        format_bytes(options.shuffle_memory_bytes),
        format_bytes(options.disk_limit_bytes),
        options.work_dir.display(),
        if options.token.is_some() { "token required" } else { "no token" }
    )
}

/// SIGTERM, and SIGINT but for children: Ctrl-C on their parent's terminal is their parent's business.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    child: bool,
}

impl Signals {
    fn listen(child: bool) -> Result<Self, CliError> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                CliError::new("VOLLEY-LOCAL", ExitStatus::Local, format!("cannot listen for signals: {error}"), "")
            })
        };
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())?, child })
    }

    async fn recv(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => if !self.child { return },
            }
        }
    }
}

/// A thread of its own, so that a child ends with its parent even if all runtimes hang.
fn end_of_stdin(work_path: Arc<OnceLock<PathBuf>>) -> oneshot::Receiver<()> {
    let (ended, end) = oneshot::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        // An error is an end as well.
        while matches!(std::io::stdin().read(&mut buffer), Ok(1..)) {}
        let _ = ended.send(());
        std::thread::sleep(ORPHAN_WITHIN);
        if let Some(path) = work_path.get() {
            let _ = std::fs::remove_dir_all(path);
        }
        std::process::exit(ExitStatus::Right as i32);
    });
    end
}
