//! [`Executor`]: both runtimes, the store, the task runtime and the server of one process.
//!
//! Start: (1) check the options, (2) bind, so that a used port fails before anything is made, (3) lock the work
//! directory, (4) serve. Shutdown: (1) no new tasks, (2) wait for queries' leases to end or the deadline, (3) close the
//! server, (4) stop both runtimes without waiting for blocking work.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{GreedyMemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion_proto::physical_plan::{DefaultPhysicalExtensionCodec, PhysicalExtensionCodec};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::host::Host;
use super::object_stores::UrlObjectStores;
use super::runner::{SessionTemplate, TaskRunner};
use super::server::{FlightServer, ServerOptions, TaskHost, serve};
use crate::config::VolleyOptions;
use crate::error::{ErrorCode, Result, VolleyError};
use crate::exchange::ExchangeClient;
use crate::ids::ExecutorId;
use crate::shuffle::{ShuffleStore, StoreOptions, build_id};
use crate::wire::{ExecutorInfo, Token};

/// Consumers of memory that an out-of-memory error names.
const NAMED_CONSUMERS: std::num::NonZeroUsize = std::num::NonZeroUsize::new(5).unwrap();

/// What an executor is given.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The `host:port` under which peers and sessions reach it; `None`: the address it listens on.
    pub advertise: Option<String>,
    /// CPU threads for tasks, and tasks that run at once.
    pub slots: usize,
    /// Memory in bytes of operators and stored shuffles together.
    pub memory_bytes: u64,
    /// The part of it in bytes for stored shuffles; past it they go to disk.
    pub shuffle_memory_bytes: u64,
    /// Parent of the directories for spilled data.
    pub work_dir: PathBuf,
    /// Bytes of stored shuffles on disk.
    pub disk_limit_bytes: u64,
    /// What callers must have.
    pub token: Option<String>,
    /// Whether to listen beyond loopback without a token.
    pub insecure: bool,
}

impl Default for ExecutorOptions {
    /// Loopback, a free port, all CPUs, 70 % of the memory there is (30 % of that for shuffles), the system's folder for
    /// temporary files.
    fn default() -> Self {
        let memory_bytes = default_memory_bytes();
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            advertise: None,
            slots: default_slots(),
            memory_bytes,
            shuffle_memory_bytes: default_shuffle_memory_bytes(memory_bytes),
            work_dir: std::env::temp_dir(),
            disk_limit_bytes: 100 << 30,
            token: None,
            insecure: false,
        }
    }
}

/// CPUs this process may use, by its affinity and quota.
pub fn default_slots() -> usize {
    std::thread::available_parallelism().map(usize::from).unwrap_or(1)
}

/// 70 % of the memory this process may use: the cgroup's limit, or the machine's memory. The rest is for what no pool
/// counts: decoded plans, network buffers, the allocator's slack.
pub fn default_memory_bytes() -> u64 {
    const FALLBACK_BYTES: u64 = 4 << 30;
    let read = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let cgroup = read("/sys/fs/cgroup/memory.max").or_else(|| read("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
    });
    let limit = match (cgroup, machine) {
        (Some(cgroup), Some(machine)) => cgroup.min(machine),
        (one, other) => one.or(other).unwrap_or(FALLBACK_BYTES),
    };
    limit / 10 * 7
}

/// The share of an executor's memory that stored shuffles get: 30 %.
pub fn default_shuffle_memory_bytes(memory_bytes: u64) -> u64 {
    memory_bytes / 10 * 3
}

/// What a user's own executor binary adds.
#[derive(Clone, Default)]
pub struct ExecutorExtensions {
    /// Decodes the user's plan nodes and functions.
    pub codec: Option<Arc<dyn PhysicalExtensionCodec>>,
    /// Registers the user's functions.
    pub template: Option<SessionTemplate>,
}

impl std::fmt::Debug for ExecutorExtensions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecutorExtensions").field("codec", &self.codec).finish_non_exhaustive()
    }
}

/// An executor that serves. Dropping it stops it at once.
#[derive(Debug)]
pub struct Executor {
    info: ExecutorInfo,
    /// The store's own directory.
    work_path: PathBuf,
    host: Arc<Host>,
    stop: CancellationToken,
    server: Option<JoinHandle<Result<()>>>,
    runtimes: Option<(Runtime, Runtime)>,
}

impl Executor {
    /// Starts an executor in this process, on runtimes of its own.
    ///
    /// # Errors
    /// Options that contradict each other, a port in use, a work directory that cannot be written.
    pub async fn start(options: ExecutorOptions, extensions: ExecutorExtensions) -> Result<Self> {
        check(&options)?;
        let token = match &options.token {
            Some(token) => Token::new(token)?,
            None => Token::none(),
        };
        let listener = bind(options.listen).await?;
        let listening = listener.local_addr().map_err(|error| bind_error(options.listen, &error))?;
        let endpoint: Arc<str> = options.advertise.clone().unwrap_or_else(|| listening.to_string()).into();
        std::fs::create_dir_all(&options.work_dir).map_err(|error| {
            VolleyError::new(
                ErrorCode::Disk,
                format!("the work directory {} cannot be made: {error}", options.work_dir.display()),
            )
        })?;
        let store = ShuffleStore::try_new(StoreOptions {
            memory_bytes: options.shuffle_memory_bytes,
            work_dir: options.work_dir.clone(),
            disk_limit_bytes: options.disk_limit_bytes,
        })?;
        let work_path = store.path().to_path_buf();
        let runtimes = runtimes(options.slots)?;
        let (cpu, io) = (runtimes.0.handle().clone(), runtimes.1.handle().clone());
        let environment = runtime_env(&options, store.path(), io.clone())?;
        let codec = extensions.codec.clone().unwrap_or_else(|| Arc::new(DefaultPhysicalExtensionCodec {}));
        let runner = TaskRunner::new(Arc::clone(&store), environment, codec, extensions.template.clone());
        let info = ExecutorInfo {
            id: ExecutorId::random(),
            endpoint,
            slots: u32::try_from(options.slots).unwrap_or(u32::MAX),
            build: build_id(),
            pid: std::process::id(),
            functions: runner.functions(),
        };
        let client = ExchangeClient::new(io.clone(), token.clone());
        let grace = VolleyOptions::default().lease_grace_ms.duration();
        let host = Arc::new(Host::new(info.clone(), runner, client, cpu.clone(), io.clone(), grace));
        let server = FlightServer::new(Arc::clone(&host) as Arc<dyn TaskHost>, store, cpu, ServerOptions::new(token));
        let stop = CancellationToken::new();
        // A listener belongs to the runtime that made it; the server's is the I/O runtime.
        let listener = listener.into_std().map_err(|error| bind_error(options.listen, &error))?;
        let shutdown = stop.clone();
        let server = io.spawn(async move {
            let listener = TcpListener::from_std(listener).map_err(|error| bind_error(options.listen, &error))?;
            serve(listener, server, async move { shutdown.cancelled().await }).await
        });
        Ok(Self { info, work_path, host, stop, server: Some(server), runtimes: Some(runtimes) })
    }

    /// The address under which it is reached, `host:port`.
    pub fn endpoint(&self) -> &Arc<str> {
        &self.info.endpoint
    }

    /// What it says of itself.
    pub fn info(&self) -> &ExecutorInfo {
        &self.info
    }

    /// The directory of its spilled data. Removed when the executor ends, but for a process that is killed.
    pub fn work_path(&self) -> &Path {
        &self.work_path
    }

    /// Takes no new tasks, waits at most `deadline` for queries to end, and stops.
    pub async fn shutdown(mut self, deadline: Duration) {
        self.host.drain();
        let end = Instant::now() + deadline;
        while self.host.queries() > 0 && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.stop.cancel();
        if let Some(server) = self.server.take() {
            // It ends by itself within its own grace period.
            let _ = tokio::time::timeout(Duration::from_secs(5), server).await;
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some((cpu, io)) = self.runtimes.take() {
            cpu.shutdown_background();
            io.shutdown_background();
        }
        // Tasks that have not seen yet that they are aborted keep the store, and a process that ends now never drops it.
        // Their open files stay readable; what they still write fails.
        let _ = std::fs::remove_dir_all(&self.work_path);
    }
}

fn check(options: &ExecutorOptions) -> Result<()> {
    let bad = |message: String| Err(VolleyError::new(ErrorCode::InvalidOption, message));
    if options.slots == 0 {
        return bad("slots: an executor without slots runs nothing; at least 1".into());
    }
    if options.shuffle_memory_bytes >= options.memory_bytes {
        return bad(format!(
            "shuffle memory ({} bytes) must be less than memory ({} bytes): operators need the rest",
            options.shuffle_memory_bytes, options.memory_bytes
        ));
    }
    if !options.listen.ip().is_loopback() && options.token.is_none() && !options.insecure {
        return bad(format!(
            "listening on {} without a token lets anyone who reaches it run queries: give a token, or say --insecure",
            options.listen
        ));
    }
    if options.listen.ip().is_unspecified() && options.advertise.is_none() {
        return bad(format!(
            "{} is no address that peers can reach: say under which HOST:PORT they do with --advertise",
            options.listen
        ));
    }
    Ok(())
}

async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| bind_error(address, &error))
}

fn bind_error(address: SocketAddr, error: &std::io::Error) -> VolleyError {
    VolleyError::new(
        ErrorCode::Bind,
        format!("cannot listen on {address}: {error}; choose another port, or 0 for a free one"),
    )
}

/// The CPU runtime, whose threads are the slots, and the I/O runtime.
fn runtimes(slots: usize) -> Result<(Runtime, Runtime)> {
    let failed = |error: std::io::Error| VolleyError::internal("no threads for a runtime").with_source(error);
    let cpu = Builder::new_multi_thread()
        .worker_threads(slots)
        .thread_name("volley-cpu")
        .enable_all()
        .build()
        .map_err(failed)?;
    let io =
        Builder::new_multi_thread().worker_threads(2).thread_name("volley-io").enable_all().build().map_err(failed)?;
    Ok((cpu, io))
}

/// Operators spill below `spill_dir`, the store's own locked directory: one thing to remove, whatever ends the process.
fn runtime_env(options: &ExecutorOptions, spill_dir: &Path, io: Handle) -> Result<Arc<RuntimeEnv>> {
    let operators = options.memory_bytes - options.shuffle_memory_bytes;
    let pool = GreedyMemoryPool::new(usize::try_from(operators).unwrap_or(usize::MAX));
    let disk = DiskManagerBuilder::default()
        .with_mode(DiskManagerMode::Directories(vec![spill_dir.to_owned()]))
        .with_max_temp_directory_size(options.disk_limit_bytes);
    RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(TrackConsumersPool::new(pool, NAMED_CONSUMERS)))
        .with_disk_manager_builder(disk)
        .with_object_store_registry(Arc::new(UrlObjectStores::new(io)))
        .build_arc()
        .map_err(VolleyError::from)
}
