//! The runner's hold on an engine process: starting, running queries, stopping. The messages: [`super::protocol`].
//!
//! The process leads a group of its own, so that Ctrl-C on a terminal reaches the runner alone, and so that all that is left
//! of it can be ended at once. It ends by itself when the pipe to it closes.

use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::ipc::reader::StreamReader;
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::processes::is_alive;
use super::protocol::{
    DataSpec, Done, ENGINE_COMMAND, EngineSpec, Failure, Process, Progress, QueryText, Reply, Request,
};
use crate::compare::Rows;
use crate::error::{CliError, ExitStatus};
use crate::failure;
use crate::report::Engine;

/// To start a cluster and to register the tables, statistics of their files included.
const START_WITHIN: Duration = Duration::from_secs(300);
/// After a cancellation: to answer. Past it the process is ended.
const CANCEL_WITHIN: Duration = Duration::from_secs(5);
/// To exit after its stdin closed, and for its executors after that.
const EXIT_WITHIN: Duration = Duration::from_secs(10);
/// Lines of the engine's stderr that are kept, to say why it died.
const KEPT_LINES: usize = 20;

pub struct EngineProcess {
    child: Child,
    /// Its process group, as long as it has not been waited for.
    group: Option<i32>,
    stdin: Option<ChildStdin>,
    incoming: mpsc::Receiver<Incoming>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    /// Readers of its stdout and stderr; aborted with it.
    _readers: JoinSet<()>,
    processes: Vec<Process>,
    last_id: u64,
}

enum Incoming {
    Reply(Reply, Vec<u8>),
    Unreadable(String),
}

/// How a run ended.
pub enum RunEnd {
    Done(Box<Done>, Rows),
    Failed(Failure),
    TimedOut,
    /// The process ended; it cannot be used any more.
    Died(String),
    Interrupted,
}

impl EngineProcess {
    /// Starts a process with what `spec` says and the tables of `data`.
    ///
    /// # Errors
    /// Whatever keeps it from being ready, with an exit status that fits; `VOLLEY-INTERRUPTED`.
    pub async fn start(spec: &EngineSpec, data: &DataSpec, interrupt: &CancellationToken) -> Result<Self, CliError> {
        let local = |what: &str, error: std::io::Error| {
            CliError::new(
                "VOLLEY-LOCAL",
                ExitStatus::Local,
                format!("cannot {what}: {error}"),
                "check the limits of this user",
            )
        };
        let program = std::env::current_exe().map_err(|error| local("find this program", error))?;
        let mut child = Command::new(program)
            .arg(ENGINE_COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| local("start an engine process", error))?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(local("start an engine process", std::io::Error::other("it has no pipes")));
        };
        let (to_us, incoming) = mpsc::channel(16);
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let mut readers = JoinSet::new();
        readers.spawn(read_replies(stdout, to_us));
        readers.spawn(keep_lines(stderr, Arc::clone(&kept)));
        let mut engine = Self {
            group: child.id().and_then(|id| i32::try_from(id).ok()),
            child,
            stdin: Some(stdin),
            incoming,
            stderr: kept,
            _readers: readers,
            processes: Vec::new(),
            last_id: 0,
        };
        match engine.until_ready(spec, data, interrupt).await {
            Ok(()) => Ok(engine),
            Err(error) => {
                engine.stop().await;
                Err(error)
            }
        }
    }

    async fn until_ready(
        &mut self,
        spec: &EngineSpec,
        data: &DataSpec,
        interrupt: &CancellationToken,
    ) -> Result<(), CliError> {
        let no_engine = match spec.engine {
            Engine::Cluster => ExitStatus::NoCluster,
            Engine::Single => ExitStatus::Failed,
        };
        let died = |why: String| {
            CliError::new("VOLLEY-ENGINE", no_engine, format!("the engine process ended while it started: {why}"), "")
        };
        if self.say(&Request::Start { spec: spec.clone(), data: data.clone() }).await.is_err() {
            return Err(died(self.last_words().await));
        }
        let incoming = tokio::select! {
            incoming = self.incoming.recv() => incoming,
            () = interrupt.cancelled() => return Err(CliError::interrupted("interrupted while an engine started", "")),
            () = tokio::time::sleep(START_WITHIN) => {
                let message = format!("the engine was not ready within {} s", START_WITHIN.as_secs());
                return Err(CliError::new("VOLLEY-DEADLINE", no_engine, message, ""));
            }
        };
        match incoming {
            Some(Incoming::Reply(Reply::Ready { processes }, _)) => {
                self.processes = processes;
                Ok(())
            }
            Some(Incoming::Reply(Reply::Failed { failure, .. }, _)) => {
                Err(failure::of_text(&failure.code, &failure.message, &failure.remedy, no_engine))
            }
            Some(_) => Err(died("it spoke out of turn".to_owned())),
            None => Err(died(self.last_words().await)),
        }
    }

    /// Those whose CPU time and memory count: the session's, then local executors.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Whether all of [`processes`](Self::processes) run.
    pub fn is_whole(&self) -> bool {
        self.processes.iter().all(|process| is_alive(process.pid))
    }

    /// Runs `query`; `progress` is called about twice a second.
    ///
    /// Not to be dropped halfway: the engine would answer a run that nobody knows.
    pub async fn run(
        &mut self,
        query: QueryText,
        timeout: Duration,
        interrupt: &CancellationToken,
        mut progress: impl FnMut(Progress),
    ) -> RunEnd {
        self.last_id += 1;
        let id = self.last_id;
        if self.say(&Request::Run { id, query }).await.is_err() {
            return RunEnd::Died(self.last_words().await);
        }
        let mut deadline = tokio::time::Instant::now() + timeout;
        // Why it was cancelled.
        let mut cancelled = None;
        loop {
            let incoming = tokio::select! {
                incoming = self.incoming.recv() => incoming,
                () = tokio::time::sleep_until(deadline) => {
                    if cancelled.is_some() {
                        return RunEnd::Died("it did not stop a query that was cancelled".to_owned());
                    }
                    cancelled = Some(RunEnd::TimedOut);
                    deadline = tokio::time::Instant::now() + CANCEL_WITHIN;
                    let _ = self.say(&Request::Cancel { id }).await;
                    continue;
                }
                () = interrupt.cancelled() => return RunEnd::Interrupted,
            };
            match incoming {
                Some(Incoming::Reply(Reply::Progress { id: of, progress: now }, _)) if of == id => progress(now),
                Some(Incoming::Reply(Reply::Done { id: of, done }, bytes)) if of == id => {
                    return cancelled.unwrap_or_else(|| match read_rows(&bytes) {
                        Ok(rows) => RunEnd::Done(Box::new(done), rows),
                        Err(error) => RunEnd::Died(format!("its rows cannot be read: {error}")),
                    });
                }
                Some(Incoming::Reply(Reply::Failed { id: of, failure }, _)) if of == id => {
                    return cancelled.unwrap_or(RunEnd::Failed(failure));
                }
                Some(Incoming::Reply(..)) => {}
                Some(Incoming::Unreadable(why)) => return RunEnd::Died(why),
                None => return RunEnd::Died(self.last_words().await),
            }
        }
    }

    /// Ends the process and its executors; by force what is not gone in time.
    pub async fn stop(mut self) {
        self.stdin = None;
        let _ = tokio::time::timeout(EXIT_WITHIN, self.child.wait()).await;
        let executors = self.processes.iter().skip(1).map(|process| process.pid).collect::<Vec<_>>();
        let until = Instant::now() + EXIT_WITHIN;
        while executors.iter().any(|pid| is_alive(*pid)) && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if self.child.id().is_none() && !executors.iter().any(|pid| is_alive(*pid)) {
            self.group = None;
        }
    }

    async fn say(&mut self, request: &Request) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        let stdin = self.stdin.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?;
        stdin.write_all(&line).await?;
        stdin.flush().await
    }

    /// Why it ended: its exit status and the last line it wrote to stderr.
    async fn last_words(&mut self) -> String {
        let status = match tokio::time::timeout(Duration::from_secs(2), self.child.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            _ => "it closed its output".to_owned(),
        };
        match self.stderr.lock().back() {
            Some(line) => format!("{status}, {line}"),
            None => status,
        }
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // SAFETY: no pointers. The group is the child's, which has not been seen to be gone with all its members.
            unsafe { libc::killpg(group, libc::SIGKILL) };
        }
    }
}

async fn read_replies(stdout: ChildStdout, to_engine: mpsc::Sender<Incoming>) {
    let mut stdout = BufReader::with_capacity(1 << 16, stdout);
    let mut line = String::new();
    loop {
        line.clear();
        match stdout.read_line(&mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let incoming = match serde_json::from_str(&line) {
            Ok(reply) => {
                let mut bytes = Vec::new();
                if let Reply::Done { done, .. } = &reply
                    && (&mut stdout).take(done.result_bytes).read_to_end(&mut bytes).await.is_err()
                {
                    return;
                }
                Incoming::Reply(reply, bytes)
            }
            Err(error) => Incoming::Unreadable(format!("it wrote what is no reply: {error}")),
        };
        if to_engine.send(incoming).await.is_err() {
            return;
        }
    }
}

async fn keep_lines(stderr: ChildStderr, kept: Arc<Mutex<VecDeque<String>>>) {
    // Who asks for the log wants to see it.
    let show = std::env::var_os("RUST_LOG").is_some();
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if show {
            eprintln!("{line}");
        }
        let mut kept = kept.lock();
        if kept.len() == KEPT_LINES {
            kept.pop_front();
        }
        kept.push_back(line);
    }
}

fn read_rows(bytes: &[u8]) -> Result<Rows, datafusion::arrow::error::ArrowError> {
    let reader = StreamReader::try_new(bytes, None)?;
    let schema = reader.schema();
    Ok(Rows::new(schema, reader.collect::<Result<_, _>>()?))
}
