//! [`Cluster`]: the executors that sessions share.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::execution::object_store::ObjectStoreRegistry;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

use super::children::{Children, ExecutorCommand};
use crate::config::VolleyOptions;
use crate::control::{ControlOptions, ExecutorControl, FlightControl};
use crate::error::{ErrorClass, ErrorCode, Result, VolleyError};
use crate::exchange::ExchangeClient;
use crate::executor::{
    Executor, ExecutorExtensions, ExecutorOptions, UrlObjectStores, default_memory_bytes, default_shuffle_memory_bytes,
    default_slots,
};
use crate::scheduler::{CleanupTasks, ExecutorHandle, SlotPool};
use crate::shuffle::build_id;
use crate::wire::Token;

/// How long an answered handshake (or a resolved name) is trusted.
const FRESH: Duration = Duration::from_secs(5);
/// For clean-up of ended queries at [`Cluster::shutdown`].
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(5);

/// How to reach executors.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// The bearer token of the cluster.
    pub token: Option<String>,
}

impl ClusterOptions {
    /// The same with this token.
    #[must_use]
    pub fn with_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }
}

/// Executors that any number of sessions use. Cheap to clone; the executors of a local cluster stop with the last clone.
#[derive(Clone, Debug)]
pub struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    addresses: Vec<String>,
    token: Token,
    members: Mutex<Members>,
    client: Arc<ExchangeClient>,
    slots: Arc<SlotPool>,
    cleanup: Arc<CleanupTasks>,
    owned: Mutex<Owned>,
    /// Of the network part of everything this process asks executors; last, so that it ends last.
    io: Option<Runtime>,
}

/// The executors that end with the cluster.
#[derive(Debug, Default)]
struct Owned {
    in_process: Vec<Executor>,
    children: Option<Children>,
}

#[derive(Default)]
struct Members {
    resolved: Option<(Instant, Vec<String>)>,
    known: HashMap<String, Member>,
}

struct Member {
    checked: Instant,
    handle: ExecutorHandle,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(io) = self.io.take() {
            // May be dropped inside another runtime, where waiting is not allowed.
            io.shutdown_background();
        }
    }
}

impl Cluster {
    /// The executors at `addresses`: `host:port`, several with commas. A name that resolves to several addresses stands for
    /// an executor at each, and is resolved again as it changes.
    ///
    /// # Errors
    /// An address without a port; no executor answers; one is of another build or refuses the token.
    pub async fn connect(addresses: impl Into<String>, options: ClusterOptions) -> Result<Self> {
        let addresses: Vec<String> = addresses
            .into()
            .split(',')
            .map(|address| address.trim().trim_start_matches("http://").to_string())
            .filter(|address| !address.is_empty())
            .collect();
        for address in &addresses {
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            if port.is_none() {
                return Err(VolleyError::new(
                    ErrorCode::InvalidOption,
                    format!("'{address}' is no executor's address: write HOST:PORT, such as 127.0.0.1:50051"),
                ));
            }
        }
        let cluster = Self::new(addresses, options, Owned::default())?;
        cluster.live().await?;
        Ok(cluster)
    }

    /// `executors` in this process, which share its memory and CPUs evenly. They talk over loopback, as if they were
    /// apart: for tests and for trying things out.
    ///
    /// # Errors
    /// Zero executors; no port or work directory.
    pub async fn local(executors: usize) -> Result<Self> {
        if executors == 0 {
            return Err(VolleyError::new(ErrorCode::InvalidOption, "a cluster needs at least 1 executor"));
        }
        let memory_bytes = default_memory_bytes() / executors as u64;
        let options = ExecutorOptions {
            slots: (default_slots() / executors).max(1),
            memory_bytes,
            shuffle_memory_bytes: default_shuffle_memory_bytes(memory_bytes),
            ..ExecutorOptions::default()
        };
        Self::local_with(executors, options, ExecutorExtensions::default()).await
    }

    /// `executors` in this process, each with `options` (its token is replaced by a random one).
    ///
    /// # Errors
    /// As [`Executor::start`].
    pub async fn local_with(
        executors: usize,
        options: ExecutorOptions,
        extensions: ExecutorExtensions,
    ) -> Result<Self> {
        let token = random_token();
        let options = ExecutorOptions { token: Some(token.clone()), ..options };
        let mut in_process = vec![];
        for _ in 0..executors {
            in_process.push(Executor::start(options.clone(), extensions.clone()).await?);
        }
        let addresses = in_process.iter().map(|executor| executor.endpoint().to_string()).collect();
        let owned = Owned { in_process, children: None };
        let cluster = Self::new(addresses, ClusterOptions::default().with_token(token), owned)?;
        cluster.live().await?;
        Ok(cluster)
    }

    /// Executors as child processes of this one; they end with the cluster, whatever ends it.
    ///
    /// # Errors
    /// A command that cannot be started, or does not say within its deadline that it is ready.
    pub async fn spawn(command: ExecutorCommand) -> Result<Self> {
        let token = random_token();
        let children = Children::start(command, &token).await?;
        let addresses = children.endpoints();
        let owned = Owned { in_process: vec![], children: Some(children) };
        let cluster = Self::new(addresses, ClusterOptions::default().with_token(token), owned)?;
        cluster.live().await?;
        Ok(cluster)
    }

    fn new(addresses: Vec<String>, options: ClusterOptions, owned: Owned) -> Result<Self> {
        if addresses.is_empty() {
            return Err(VolleyError::new(ErrorCode::NoExecutors, "no executor's address was given"));
        }
        let token = match &options.token {
            Some(token) => Token::new(token)?,
            None => Token::none(),
        };
        let io = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("volley-session-io")
            .enable_all()
            .build()
            .map_err(|error| VolleyError::internal("no threads for the network").with_source(error))?;
        let client = ExchangeClient::new(io.handle().clone(), token.clone());
        Ok(Self {
            inner: Arc::new(Inner {
                addresses,
                token,
                members: Mutex::default(),
                client,
                slots: SlotPool::new(),
                cleanup: Arc::new(CleanupTasks::new()),
                owned: Mutex::new(owned),
                io: Some(io),
            }),
        })
    }

    /// The executors that answered last.
    pub fn executors(&self) -> Vec<crate::wire::ExecutorInfo> {
        let members = self.inner.members.lock();
        let mut infos: Vec<_> = members.known.values().map(|member| member.handle.info.clone()).collect();
        infos.sort_by(|a, b| a.endpoint.cmp(&b.endpoint));
        infos
    }

    /// Slots of the executors that answered last.
    pub fn slots(&self) -> usize {
        self.inner.members.lock().known.values().map(|member| member.handle.info.slots as usize).sum()
    }

    /// Waits for the clean-up of ended queries and stops the executors that belong to this cluster.
    pub async fn shutdown(&self) {
        self.inner.cleanup.drain(SHUTDOWN_DEADLINE).await;
        let owned = std::mem::take(&mut *self.inner.owned.lock());
        join_all(owned.in_process.into_iter().map(|executor| executor.shutdown(Duration::ZERO))).await;
        if let Some(children) = owned.children {
            children.stop().await;
        }
    }

    /// Object stores that open by URL, with credentials from the environment, for a session's `RuntimeEnv`: the same that
    /// executors have.
    pub fn object_store_registry(&self) -> Arc<dyn ObjectStoreRegistry> {
        match &self.inner.io {
            Some(io) => Arc::new(UrlObjectStores::new(io.handle().clone())),
            None => Arc::new(datafusion::execution::object_store::DefaultObjectStoreRegistry::new()),
        }
    }

    pub(super) fn client(&self) -> &Arc<ExchangeClient> {
        &self.inner.client
    }

    pub(super) fn slot_pool(&self) -> &Arc<SlotPool> {
        &self.inner.slots
    }

    pub(super) fn cleanup(&self) -> &Arc<CleanupTasks> {
        &self.inner.cleanup
    }

    /// The executors that answer now, in the order of their addresses.
    ///
    /// # Errors
    /// None answers; one is of another build or refuses the token.
    pub(super) async fn live(&self) -> Result<Vec<ExecutorHandle>> {
        let endpoints = self.resolve().await?;
        let answers = join_all(endpoints.iter().map(|endpoint| self.member(endpoint))).await;
        let mut live = vec![];
        let mut last = None;
        for answer in answers {
            match answer {
                Ok(handle) => live.push(handle),
                Err(error) if error.class() == ErrorClass::RetryTask => {
                    tracing::warn!(%error, "an executor does not answer");
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        // Two addresses may lead to one process.
        let mut seen = std::collections::HashSet::new();
        live.retain(|handle: &ExecutorHandle| seen.insert(handle.info.id));
        match (live.is_empty(), last) {
            (false, _) => Ok(live),
            (true, last) => Err(VolleyError::new(
                ErrorCode::NoExecutors,
                format!(
                    "no executor answers at {}{}; start one with `volley executor --listen HOST:PORT`",
                    self.inner.addresses.join(", "),
                    last.map(|error| format!(" ({error})")).unwrap_or_default()
                ),
            )),
        }
    }

    async fn member(&self, endpoint: &str) -> Result<ExecutorHandle> {
        if let Some(member) = self.inner.members.lock().known.get(endpoint)
            && member.checked.elapsed() < FRESH
        {
            return Ok(member.handle.clone());
        }
        let control = self.control(endpoint)?;
        let info = match control.handshake().await {
            Ok(info) => info,
            Err(error) => {
                self.inner.members.lock().known.remove(endpoint);
                return Err(error);
            }
        };
        if info.build != build_id() {
            return Err(VolleyError::new(
                ErrorCode::VersionMismatch,
                format!(
                    "the executor at {endpoint} is '{}', this session is '{}': run the same build everywhere",
                    info.build,
                    build_id()
                ),
            ));
        }
        let handle = ExecutorHandle { info, control };
        let member = Member { checked: Instant::now(), handle: handle.clone() };
        self.inner.members.lock().known.insert(endpoint.to_string(), member);
        Ok(handle)
    }

    /// The control of an endpoint: the known one, or a new one.
    fn control(&self, endpoint: &str) -> Result<Arc<dyn ExecutorControl>> {
        if let Some(member) = self.inner.members.lock().known.get(endpoint) {
            return Ok(Arc::clone(&member.handle.control));
        }
        let Some(io) = &self.inner.io else { return Err(VolleyError::internal("the cluster has ended")) };
        let options = ControlOptions::of(&VolleyOptions::default());
        Ok(Arc::new(FlightControl::new(endpoint.into(), self.inner.token.clone(), io.handle().clone(), options)))
    }

    /// Every address that the given ones stand for.
    async fn resolve(&self) -> Result<Vec<String>> {
        if let Some((when, endpoints)) = &self.inner.members.lock().resolved
            && when.elapsed() < FRESH
        {
            return Ok(endpoints.clone());
        }
        let mut endpoints = vec![];
        for address in &self.inner.addresses {
            if address.parse::<std::net::SocketAddr>().is_ok() {
                endpoints.push(address.clone());
                continue;
            }
            match tokio::time::timeout(FRESH, tokio::net::lookup_host(address)).await {
                Ok(Ok(resolved)) => {
                    let mut resolved: Vec<String> = resolved.map(|address| address.to_string()).collect();
                    resolved.sort();
                    endpoints.extend(resolved);
                }
                Ok(Err(error)) => tracing::warn!(%address, %error, "the name does not resolve"),
                Err(_) => tracing::warn!(%address, "the name server does not answer"),
            }
        }
        endpoints.dedup();
        if endpoints.is_empty() {
            return Err(VolleyError::new(
                ErrorCode::NoExecutors,
                format!("no address of {} resolves", self.inner.addresses.join(", ")),
            ));
        }
        let mut members = self.inner.members.lock();
        members.known.retain(|endpoint, _| endpoints.contains(endpoint));
        members.resolved = Some((Instant::now(), endpoints.clone()));
        Ok(endpoints)
    }
}

fn random_token() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
