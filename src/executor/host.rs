//! The task runtime behind the server: slots, attempts, leases.
//!
//! A launched attempt waits for a slot (reported as progress, so that waiting is no silence), is decoded, runs and
//! reports. Its events end with exactly one final event. Dropping them cancels it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::TaskHost;
use super::runner::TaskRunner;
use crate::config::VolleyOptions;
use crate::control::{Lease, TaskEvents};
use crate::error::{ErrorCode, Result, VolleyError};
use crate::exchange::{ExchangeClient, ExchangeOptions, TaskExchange};
use crate::ids::{QueryId, StageId};
use crate::wire::{ExecutorInfo, TaskDefinition, TaskEvent, TaskReport};

/// Between signs of life.
const PROGRESS: Duration = Duration::from_secs(1);

/// The executor's tasks and what holds their queries.
#[derive(Debug)]
pub(super) struct Host {
    shared: Arc<Shared>,
}

struct Shared {
    info: ExecutorInfo,
    runner: TaskRunner,
    client: Arc<ExchangeClient>,
    cpu: Handle,
    io: Handle,
    slots: Semaphore,
    draining: AtomicBool,
    grace: Duration,
    leases: Mutex<HashMap<QueryId, LeaseState>>,
    /// Grace periods that run; ended with the host.
    graces: Mutex<JoinSet<()>>,
    /// Attempts that run, by query: what a query's end aborts.
    attempts: Mutex<HashMap<QueryId, Vec<tokio::task::AbortHandle>>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("info", &self.info).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct LeaseState {
    holders: usize,
    /// Counts openings: a grace period that an opening overtook does nothing.
    openings: u64,
}

impl Host {
    pub(super) fn new(
        info: ExecutorInfo,
        runner: TaskRunner,
        client: Arc<ExchangeClient>,
        cpu: Handle,
        io: Handle,
        grace: Duration,
    ) -> Self {
        let slots = Semaphore::new(info.slots.max(1) as usize);
        Self {
            shared: Arc::new(Shared {
                info,
                runner,
                client,
                cpu,
                io,
                slots,
                draining: AtomicBool::new(false),
                grace,
                leases: Mutex::default(),
                graces: Mutex::default(),
                attempts: Mutex::default(),
            }),
        }
    }

    /// Takes no new tasks from now on.
    pub(super) fn drain(&self) {
        self.shared.draining.store(true, Ordering::Release);
    }

    /// Queries that hold a lease.
    pub(super) fn queries(&self) -> usize {
        self.shared.leases.lock().values().filter(|lease| lease.holders > 0).count()
    }
}

impl Shared {
    fn refuse_when_draining(&self) -> Result<()> {
        match self.draining.load(Ordering::Acquire) {
            true => Err(VolleyError::new(ErrorCode::Draining, format!("{} is shutting down", self.info.endpoint))),
            false => Ok(()),
        }
    }

    /// Ends everything of a query here.
    fn end_query(&self, query: QueryId) {
        for attempt in self.attempts.lock().remove(&query).unwrap_or_default() {
            attempt.abort();
        }
        let freed = self.runner.store().free(query, None);
        self.runner.forget(query);
        tracing::debug!(%query, freed, "query ended");
    }

    async fn attempt(self: Arc<Self>, task: TaskDefinition, events: mpsc::Sender<Result<TaskEvent>>) {
        let last = match self.watch(task, &events).await {
            Ok(report) => TaskEvent::Finished(Box::new(report)),
            Err(error) => TaskEvent::Failed(error),
        };
        // Nobody listens if the events were dropped.
        let _ = events.send(Ok(last)).await;
    }

    /// Runs the attempt on the CPU runtime while it sends signs of life.
    async fn watch(
        self: &Arc<Self>,
        task: TaskDefinition,
        events: &mpsc::Sender<Result<TaskEvent>>,
    ) -> Result<TaskReport> {
        let mut tick = tokio::time::interval(PROGRESS);
        let permit = loop {
            tokio::select! {
                permit = self.slots.acquire() => {
                    break permit.map_err(|_| VolleyError::new(ErrorCode::Draining, "the executor has stopped"))?;
                }
                _ = tick.tick() => {
                    let _ = events.try_send(Ok(TaskEvent::Progress { rows: 0, bytes: 0 }));
                }
            }
        };
        let written = Arc::new(Mutex::new(None));
        let (host, output, query) = (Arc::clone(self), Arc::clone(&written), task.id.query);
        self.attempts.lock().entry(query).or_default();
        let work = self.cpu.spawn(async move {
            let exchange = Arc::new(host.exchange(&task));
            let totals = exchange.totals();
            let prepared = host.runner.prepare(&task, exchange, &host.info.endpoint)?;
            *output.lock() = Some(prepared.output());
            let id = task.id;
            let mut report = prepared.run().await?;
            // The query may have ended, and its outputs been freed, while this one was being committed.
            if !host.attempts.lock().contains_key(&query) {
                host.runner.store().free_attempt(id);
                return Err(VolleyError::new(ErrorCode::Cancelled, "the query ended while the task ran"));
            }
            report.exchange = totals.snapshot();
            Ok::<_, VolleyError>(report)
        });
        {
            let mut attempts = self.attempts.lock();
            let running = attempts.entry(query).or_default();
            running.retain(|attempt| !attempt.is_finished());
            running.push(work.abort_handle());
        }
        let mut work = AbortOnDropHandle::new(work);
        let result = loop {
            tokio::select! {
                joined = &mut work => break joined,
                _ = tick.tick() => {
                    let progress = written.lock().as_ref().map(|output| (output.rows(), output.bytes()));
                    let (rows, bytes) = progress.unwrap_or_default();
                    let _ = events.try_send(Ok(TaskEvent::Progress { rows, bytes }));
                }
            }
        };
        drop(permit);
        match result {
            Ok(result) => result,
            Err(error) if error.is_panic() => {
                Err(VolleyError::new(ErrorCode::TaskPanicked, format!("the task panicked: {}", panic_text(error))))
            }
            Err(_) => Err(VolleyError::new(ErrorCode::Cancelled, "the query ended while the task ran")),
        }
    }

    fn exchange(&self, task: &TaskDefinition) -> TaskExchange {
        let mut options = VolleyOptions::default();
        for (key, value) in task.options.iter() {
            if let Some(name) = key.strip_prefix("volley.") {
                // Checked by the session that sent them; an unknown one fails the decoding that follows.
                let _ = options.set_text(name, value);
            }
        }
        TaskExchange::new(
            Arc::clone(&self.client),
            Some((self.info.id, Arc::clone(self.runner.store()))),
            task.id.query,
            task.inputs.clone(),
            ExchangeOptions::of(&options),
        )
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let panic = error.into_panic();
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_string())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_string())
}

#[async_trait]
impl TaskHost for Host {
    fn handshake(&self) -> ExecutorInfo {
        self.shared.info.clone()
    }

    async fn launch(&self, task: TaskDefinition) -> Result<TaskEvents> {
        self.shared.refuse_when_draining()?;
        let (sender, receiver) = mpsc::channel(4);
        let attempt = self.shared.io.spawn(Arc::clone(&self.shared).attempt(task, sender));
        let attempt = AbortOnDropHandle::new(attempt);
        let events = stream::unfold((receiver, attempt), |(mut receiver, attempt)| async move {
            let event = receiver.recv().await?;
            Some((event, (receiver, attempt)))
        });
        Ok(events.boxed())
    }

    fn lease(&self, query: QueryId) -> Result<Box<dyn Lease>> {
        self.shared.refuse_when_draining()?;
        let mut leases = self.shared.leases.lock();
        let lease = leases.entry(query).or_default();
        lease.holders += 1;
        lease.openings += 1;
        Ok(Box::new(HostLease { query, shared: Arc::clone(&self.shared) }))
    }

    async fn free(&self, query: QueryId, stage: Option<StageId>) -> Result<()> {
        match stage {
            Some(_) => {
                self.shared.runner.store().free(query, stage);
            }
            None => self.shared.end_query(query),
        }
        Ok(())
    }
}

/// Held by the stream that the session keeps open.
struct HostLease {
    query: QueryId,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for HostLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostLease").field("query", &self.query).finish_non_exhaustive()
    }
}

impl Lease for HostLease {}

impl Drop for HostLease {
    fn drop(&mut self) {
        let openings = {
            let mut leases = self.shared.leases.lock();
            let Some(lease) = leases.get_mut(&self.query) else { return };
            lease.holders -= 1;
            if lease.holders > 0 {
                return;
            }
            lease.openings
        };
        let shared = Arc::downgrade(&self.shared);
        let (query, grace) = (self.query, self.shared.grace);
        let mut graces = self.shared.graces.lock();
        while graces.try_join_next().is_some() {}
        graces.spawn_on(
            async move {
                tokio::time::sleep(grace).await;
                let Some(shared) = shared.upgrade() else { return };
                {
                    let mut leases = shared.leases.lock();
                    match leases.get(&query) {
                        Some(lease) if lease.holders == 0 && lease.openings == openings => leases.remove(&query),
                        _ => return,
                    };
                }
                shared.end_query(query);
            },
            &self.shared.io,
        );
    }
}
