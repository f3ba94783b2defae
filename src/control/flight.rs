//! [`ExecutorControl`] over Flight actions.
//!
//! Control has a connection of its own, so that a launch or a free never waits behind data. The streams run on the
//! I/O runtime: a session whose threads are busy computing still sees its tasks' signs of life.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::Action;
use arrow_flight::flight_service_client::FlightServiceClient;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, mpsc};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::Channel;
use tonic::{Request, Streaming};

use super::{ExecutorControl, Lease, TaskEvents};
use crate::config::VolleyOptions;
use crate::error::{ErrorCode, Result, VolleyError};
use crate::ids::{QueryId, StageId};
use crate::wire::{
    ChannelSettings, ExecutorInfo, QueryScope, TaskDefinition, TaskEvent, Token, WireMessage, action, connect,
    from_status,
};

/// Windows of the control connection. Events are small; plans go the other way, within the executor's windows.
/// Hundreds of tasks report on it, and none may starve another: reports of a task that nobody reads stay in its
/// stream's window.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;
const FRAME_BYTES: u32 = 64 << 10;
/// Reports can be large (metrics of a wide plan, keys for filters), not huge.
const MAX_EVENT_BYTES: usize = 256 << 20;
/// Events between network and scheduler.
const QUEUE: usize = 16;
/// Between tries to open a lost lease again; far below any grace period.
const LEASE_RETRY: Duration = Duration::from_millis(500);

/// Deadlines of control calls.
#[derive(Clone, Copy, Debug)]
pub struct ControlOptions {
    /// To connect and to shake hands.
    pub connect_timeout: Duration,
    /// Without an answer, or without a sign of life of a task.
    pub stall_timeout: Duration,
}

impl ControlOptions {
    /// The control's part of a session's options.
    pub fn of(options: &VolleyOptions) -> Self {
        Self {
            connect_timeout: options.connect_timeout_ms.duration(),
            stall_timeout: options.stall_timeout_ms.duration(),
        }
    }
}

/// One executor at an address.
pub struct FlightControl {
    shared: Arc<Shared>,
}

struct Shared {
    endpoint: Arc<str>,
    token: Token,
    io: Handle,
    options: ControlOptions,
    /// Replaced by a fresh cell when a connection breaks.
    channel: Mutex<Arc<OnceCell<Channel>>>,
}

impl FlightControl {
    /// The executor at `endpoint` (`host:port`). Connects at the first call; the network part runs on `io`.
    pub fn new(endpoint: Arc<str>, token: Token, io: Handle, options: ControlOptions) -> Self {
        let channel = Mutex::new(Arc::default());
        Self { shared: Arc::new(Shared { endpoint, token, io, options, channel }) }
    }

    /// The address.
    pub fn endpoint(&self) -> &Arc<str> {
        &self.shared.endpoint
    }
}

impl Shared {
    /// Runs a call on the I/O runtime; dropping the future ends the call.
    async fn on_io<T: Send + 'static>(&self, call: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        AbortOnDropHandle::new(self.io.spawn(call))
            .await
            .unwrap_or_else(|error| Err(VolleyError::internal("a control call panicked").with_source(error)))
    }

    async fn channel(&self) -> Result<Channel> {
        let cell = Arc::clone(&self.channel.lock());
        cell.get_or_try_init(|| self.connect()).await.cloned()
    }

    async fn connect(&self) -> Result<Channel> {
        let settings = ChannelSettings {
            connect_timeout: self.options.connect_timeout,
            stream_window_bytes: STREAM_WINDOW_BYTES,
            connection_window_bytes: CONNECTION_WINDOW_BYTES,
            frame_bytes: FRAME_BYTES,
        };
        connect(&self.endpoint, settings).await
    }

    /// Starts an action, with a deadline for its first answer.
    async fn act(&self, name: &str, body: Bytes, deadline: Duration) -> Result<Streaming<arrow_flight::Result>> {
        let channel = self.channel().await?;
        let mut request = Request::new(Action { r#type: name.to_owned(), body });
        self.token.sign(request.metadata_mut());
        let mut client = FlightServiceClient::new(channel).max_decoding_message_size(MAX_EVENT_BYTES);
        let answer = timeout(deadline, client.do_action(request)).await.map_err(|_| self.silent(name, deadline))?;
        answer.map(tonic::Response::into_inner).map_err(|status| self.failed(status))
    }

    async fn next(&self, stream: &mut Streaming<arrow_flight::Result>) -> Result<Option<Bytes>> {
        let answer = stream.message().await.map_err(|status| self.failed(status))?;
        Ok(answer.map(|answer| answer.body))
    }

    /// The one answer of an action that has one.
    async fn ask(&self, name: &str, body: Bytes, deadline: Duration) -> Result<Bytes> {
        let call = async {
            let mut stream = self.act(name, body, deadline).await?;
            self.next(&mut stream).await?.ok_or_else(|| {
                VolleyError::new(ErrorCode::Unreachable, format!("executor {} gave no answer to {name}", self.endpoint))
            })
        };
        timeout(deadline, call).await.unwrap_or_else(|_| Err(self.silent(name, deadline)))
    }

    fn failed(&self, status: tonic::Status) -> VolleyError {
        let error = from_status(status, &self.endpoint);
        if error.code == ErrorCode::Unreachable {
            *self.channel.lock() = Arc::default();
        }
        error
    }

    fn silent(&self, name: &str, deadline: Duration) -> VolleyError {
        VolleyError::new(
            ErrorCode::DeadlineExceeded,
            format!("executor {} did not answer {name} within {} ms", self.endpoint, deadline.as_millis()),
        )
    }

    /// Forwards a task's events until the final one. Every way out but that one is an error in the queue.
    async fn follow(&self, mut stream: Streaming<arrow_flight::Result>, events: mpsc::Sender<Result<TaskEvent>>) {
        let stall = self.options.stall_timeout;
        let lost = |why: String| VolleyError::new(ErrorCode::AttemptLost, why);
        loop {
            let event = match timeout(stall, self.next(&mut stream)).await {
                Ok(Ok(Some(body))) => TaskEvent::from_bytes(&body),
                Ok(Ok(None)) => Err(lost(format!("executor {} ended a task without its result", self.endpoint))),
                // The executor's own verdict (draining, refused) stands; a broken connection loses the attempt.
                Ok(Err(error)) if error.code != ErrorCode::Unreachable => Err(error),
                Ok(Err(error)) => Err(lost(format!("a task's stream broke: {}", error.message)).with_source(error)),
                Err(_) => Err(lost(format!(
                    "executor {} gave no sign of life of a task for {} ms (volley.stall_timeout_ms)",
                    self.endpoint,
                    stall.as_millis()
                ))),
            };
            let last = !matches!(event, Ok(TaskEvent::Progress { .. }));
            if events.send(event).await.is_err() || last {
                return;
            }
        }
    }

    /// Holds a lease, opening it again when it is lost, until it is dropped. Nobody waits for it.
    async fn hold(&self, query: QueryId, mut stream: Streaming<arrow_flight::Result>) {
        loop {
            while let Ok(Some(_)) = self.next(&mut stream).await {}
            tracing::debug!(%query, endpoint = %self.endpoint, "lease lost, opening it again");
            stream = loop {
                sleep(LEASE_RETRY).await;
                match self.open_lease(query).await {
                    Ok(stream) => break stream,
                    Err(error) => tracing::debug!(%query, endpoint = %self.endpoint, %error, "no lease"),
                }
            };
        }
    }

    async fn open_lease(&self, query: QueryId) -> Result<Streaming<arrow_flight::Result>> {
        let body = QueryScope { query, stage: None }.to_bytes()?;
        let deadline = self.options.stall_timeout;
        let opening = async {
            let mut stream = self.act(action::LEASE, body, deadline).await?;
            // The executor answers once when it holds the query's state.
            match self.next(&mut stream).await? {
                Some(_) => Ok(stream),
                None => Err(VolleyError::new(ErrorCode::Unreachable, "the executor ended a lease at once")),
            }
        };
        timeout(deadline, opening).await.unwrap_or_else(|_| Err(self.silent(action::LEASE, deadline)))
    }
}

#[async_trait]
impl ExecutorControl for FlightControl {
    /// Over a fresh connection: what an old one said proves nothing about who answers at the address now.
    async fn handshake(&self) -> Result<ExecutorInfo> {
        let shared = Arc::clone(&self.shared);
        self.shared
            .on_io(async move {
                *shared.channel.lock() = Arc::default();
                let answer = shared.ask(action::HANDSHAKE, Bytes::new(), shared.options.connect_timeout).await?;
                ExecutorInfo::from_bytes(&answer)
            })
            .await
    }

    async fn launch(&self, task: TaskDefinition) -> Result<TaskEvents> {
        let shared = Arc::clone(&self.shared);
        let body = task.to_bytes()?;
        let opening = Arc::clone(&shared);
        let stream =
            shared.on_io(async move { opening.act(action::LAUNCH, body, opening.options.stall_timeout).await }).await?;
        let (sender, events) = mpsc::channel(QUEUE);
        let following = Arc::clone(&shared);
        let pump = AbortOnDropHandle::new(shared.io.spawn(async move { following.follow(stream, sender).await }));
        // The pump lives as long as the stream: dropping it resets the HTTP/2 stream, which cancels the task.
        let events = stream::unfold((events, pump), |(mut events, pump)| async move {
            let event = events.recv().await?;
            Some((event, (events, pump)))
        });
        Ok(events.boxed())
    }

    async fn lease(&self, query: QueryId) -> Result<Box<dyn Lease>> {
        let shared = Arc::clone(&self.shared);
        let stream = self.shared.on_io(async move { shared.open_lease(query).await }).await?;
        let shared = Arc::clone(&self.shared);
        let holder = AbortOnDropHandle::new(self.shared.io.spawn(async move { shared.hold(query, stream).await }));
        Ok(Box::new(FlightLease { query, _holder: holder }))
    }

    async fn free(&self, query: QueryId, stage: Option<StageId>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let body = QueryScope { query, stage }.to_bytes()?;
        self.shared
            .on_io(async move { shared.ask(action::FREE, body, shared.options.stall_timeout).await.map(|_| ()) })
            .await
    }
}

impl fmt::Debug for FlightControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlightControl").field("endpoint", &self.shared.endpoint).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct FlightLease {
    #[expect(dead_code, reason = "for Debug")]
    query: QueryId,
    _holder: AbortOnDropHandle<()>,
}

impl Lease for FlightLease {}
