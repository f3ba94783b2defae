//! Executors as child processes.
//!
//! Each child gets the token in its environment, prints one line `ready HOST:PORT` when it serves, and stops when its
//! standard input closes: so it cannot outlive this process, whatever ends this one.

use std::process::Stdio;
use std::time::Duration;

use futures::future::try_join_all;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::error::{ErrorCode, Result, VolleyError};

/// For a child to say that it serves.
const READY_DEADLINE: Duration = Duration::from_secs(30);
/// For a child to stop by itself.
const STOP_DEADLINE: Duration = Duration::from_secs(5);
/// The variable that holds a child's token.
pub(super) const TOKEN_VARIABLE: &str = "VOLLEY_TOKEN";

/// How to start a local cluster's executors.
#[derive(Clone, Debug)]
pub struct ExecutorCommand {
    program: std::path::PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    count: usize,
}

impl ExecutorCommand {
    /// `count` executors by `program` with `arguments`, such as the `volley` binary with
    /// `["executor", "--listen", "127.0.0.1:0", "--ready-stdout", "--exit-with-parent"]`.
    pub fn new(
        program: impl Into<std::path::PathBuf>,
        arguments: impl IntoIterator<Item = impl Into<String>>,
        count: usize,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { program: program.into(), arguments, environment: vec![], count }
    }

    /// Adds a variable to the children's environment.
    #[must_use]
    pub fn with_environment(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }
}

/// Running children; dropping kills them.
#[derive(Debug)]
pub(super) struct Children {
    children: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    endpoint: String,
    child: Child,
    stdin: Option<ChildStdin>,
    /// Kept open: a child that prints to a closed pipe would be killed.
    _stdout: BufReader<ChildStdout>,
}

impl Children {
    pub(super) async fn start(command: ExecutorCommand, token: &str) -> Result<Self> {
        if command.count == 0 {
            return Err(VolleyError::new(ErrorCode::InvalidOption, "a cluster needs at least 1 executor"));
        }
        // All start at once; an error drops, and so kills, those that run.
        let children = try_join_all((0..command.count).map(|_| start_one(&command, token))).await?;
        Ok(Self { children })
    }

    pub(super) fn endpoints(&self) -> Vec<String> {
        self.children.iter().map(|child| child.endpoint.clone()).collect()
    }

    pub(super) async fn stop(mut self) {
        for child in &mut self.children {
            drop(child.stdin.take());
        }
        for child in &mut self.children {
            if tokio::time::timeout(STOP_DEADLINE, child.child.wait()).await.is_err() {
                // Killed on drop as well; here it is also waited for.
                let _ = child.child.kill().await;
            }
        }
    }
}

async fn start_one(command: &ExecutorCommand, token: &str) -> Result<Running> {
    let program = command.program.display();
    let failed = |what: String| VolleyError::new(ErrorCode::NoExecutors, what);
    let mut child = Command::new(&command.program)
        .args(&command.arguments)
        .envs(command.environment.iter().map(|(name, value)| (name, value)))
        .env(TOKEN_VARIABLE, token)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed(format!("the executor {program} cannot be started: {error}")))?;
    let stdin = child.stdin.take();
    let Some(stdout) = child.stdout.take() else { return Err(failed(format!("{program} has no standard output"))) };
    let mut stdout = BufReader::new(stdout);
    let mut line = String::new();
    let endpoint = loop {
        line.clear();
        match tokio::time::timeout(READY_DEADLINE, stdout.read_line(&mut line)).await {
            Err(_) => return Err(failed(format!("{program} did not say that it is ready within {READY_DEADLINE:?}"))),
            Ok(Err(error)) => return Err(failed(format!("{program}: {error}"))),
            Ok(Ok(0)) => {
                let status = child.wait().await.map(|status| status.to_string()).unwrap_or_default();
                return Err(failed(format!("{program} ended before it was ready ({status}); its message is above")));
            }
            Ok(Ok(_)) => {
                if let Some(endpoint) = line.trim().strip_prefix("ready ") {
                    break endpoint.to_string();
                }
            }
        }
    };
    Ok(Running { endpoint, child, stdin, _stdout: stdout })
}
