//! The Flight service of an executor: one address for data and control.
//!
//! ```text
//! DoGet     ticket -> schema | messages with data | digest            see `wire` for the notes beside them
//! DoPut     schema with the request | messages | digest -> one answer, after the commit
//! DoAction  volley.handshake, volley.launch, volley.lease, volley.free
//! GetFlightInfo, GetSchema   of a ticket (as a command descriptor)
//! ```
//!
//! Every call is checked for the token before anything else is looked at. What comes from the network is decoded
//! with bounds, and a wrong byte is an answer, never a panic. Encoding and decoding of rows run on the CPU runtime.
//! A response that is dropped (the client is gone, or cancels) stops what produces it.

mod data;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket as FlightTicket,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataMap;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::control::{Lease, TaskEvents};
use crate::error::{ErrorCode, Result, VolleyError};
use crate::exchange::MAX_MESSAGE_BYTES;
use crate::ids::{QueryId, StageId};
use crate::shuffle::ShuffleStore;
use crate::wire::{ExecutorInfo, QueryScope, TaskDefinition, Ticket, Token, WireMessage, action, to_status};

type FlightResult<T> = Result<Response<T>, Status>;
type FlightStream<T> = BoxStream<'static, Result<T, Status>>;

/// What the task runtime does for the server.
#[async_trait]
pub trait TaskHost: fmt::Debug + Send + Sync + 'static {
    /// Who this executor is.
    fn handshake(&self) -> ExecutorInfo;

    /// Starts an attempt. Returns at once: waiting for a slot is part of the events. Dropping the events cancels it.
    ///
    /// # Errors
    /// The executor drains, or refuses the task.
    async fn launch(&self, task: TaskDefinition) -> Result<TaskEvents>;

    /// Holds a query's state until the lease is dropped, and for the grace period after.
    ///
    /// # Errors
    /// The executor drains.
    fn lease(&self, query: QueryId) -> Result<Box<dyn Lease>>;

    /// Frees stored outputs; what is not stored is no error.
    ///
    /// # Errors
    /// None that are usual.
    async fn free(&self, query: QueryId, stage: Option<StageId>) -> Result<()>;
}

/// Limits of the server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// What callers must have.
    pub token: Token,
    /// Streams of one connection. 1,024: a reader opens at most 32 of data on one, a session one per task and query.
    pub max_concurrent_streams: u32,
    /// HTTP/2 window of an upload. Uploads are read without waiting for one another, so that the connection's window
    /// (16 times this) need not cover all of them.
    pub window_bytes: u32,
    /// Largest HTTP/2 frame to receive.
    pub frame_bytes: u32,
    /// A client that is silent is asked for a sign of life after this long, and is gone after twice this.
    pub keep_alive: Duration,
    /// After the shutdown signal: to finish answers that are under way.
    pub shutdown_grace: Duration,
}

impl ServerOptions {
    /// The defaults, for callers that have `token`.
    pub fn new(token: Token) -> Self {
        Self {
            token,
            max_concurrent_streams: 1_024,
            window_bytes: 1 << 20,
            frame_bytes: 256 << 10,
            keep_alive: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(2),
        }
    }
}

/// An executor's service, before it listens.
#[derive(Debug)]
pub struct FlightServer(Service);

impl FlightServer {
    /// A service over the executor's tasks and store. Rows are encoded and decoded on `cpu`.
    pub fn new(host: Arc<dyn TaskHost>, store: Arc<ShuffleStore>, cpu: Handle, options: ServerOptions) -> Self {
        Self(Service { host, store, cpu, options: Arc::new(options), closing: CancellationToken::new() })
    }
}

/// Apart from [`FlightServer`], whose public face shows no Flight types.
struct Service {
    host: Arc<dyn TaskHost>,
    store: Arc<ShuffleStore>,
    cpu: Handle,
    options: Arc<ServerOptions>,
    closing: CancellationToken,
}

impl Service {
    fn check(&self, metadata: &MetadataMap) -> Result<(), Status> {
        self.options.token.check(metadata).map_err(|error| to_status(&error))
    }

    /// Ends an answer, with an error, when the server closes: leases and tasks would hold it open for ever.
    fn until_closing<T: Send + 'static>(
        &self,
        answers: impl futures::Stream<Item = Result<T>> + Send + 'static,
    ) -> FlightStream<T> {
        let closing = self.closing.clone();
        let end = stream::once(async move {
            closing.is_cancelled().then(|| Err(VolleyError::new(ErrorCode::Draining, "the executor is shutting down")))
        });
        answers
            .take_until(self.closing.clone().cancelled_owned())
            .chain(end.filter_map(std::future::ready))
            .map(|answer| answer.map_err(|error| to_status(&error)))
            .boxed()
    }

    async fn act(&self, name: &str, body: Bytes) -> Result<FlightStream<arrow_flight::Result>> {
        let one = |body: Bytes| self.until_closing(stream::iter([Ok(arrow_flight::Result { body })]));
        match name {
            action::HANDSHAKE => Ok(one(self.host.handshake().to_bytes()?)),
            action::LAUNCH => {
                let events = self.host.launch(TaskDefinition::from_bytes(&body)?).await?;
                let answers = events.map(|event| Ok(arrow_flight::Result { body: event?.to_bytes()? }));
                Ok(self.until_closing(answers))
            }
            action::LEASE => {
                let lease = self.host.lease(QueryScope::from_bytes(&body)?.query)?;
                // One answer, then silence with the lease held: the stream owns it.
                let answers = stream::unfold((lease, false), |(lease, answered)| async move {
                    if answered {
                        std::future::pending::<()>().await;
                    }
                    Some((Ok(arrow_flight::Result { body: Bytes::new() }), (lease, true)))
                });
                Ok(self.until_closing(answers))
            }
            action::FREE => {
                let QueryScope { query, stage } = QueryScope::from_bytes(&body)?;
                self.host.free(query, stage).await?;
                Ok(one(Bytes::new()))
            }
            other => Err(VolleyError::new(ErrorCode::InvalidRequest, format!("there is no action {other:?}"))),
        }
    }

    fn info(&self, descriptor: FlightDescriptor) -> Result<FlightInfo> {
        let ticket = Ticket::from_bytes(&descriptor.cmd)?;
        let parts = data::find(&self.store, &ticket)?;
        let rows: u64 = parts.iter().map(|part| part.blocks.summary.rows).sum();
        let schema = parts.first().map(|part| Arc::clone(&part.blocks.schema));
        let schema = schema.ok_or_else(|| VolleyError::internal("a ticket that names nothing"))?;
        let endpoint = FlightEndpoint::new().with_ticket(FlightTicket { ticket: descriptor.cmd.clone() });
        let info = FlightInfo::new()
            .try_with_schema(&schema)
            .map_err(|error| VolleyError::internal("a schema that cannot be sent").with_source(error))?;
        Ok(info
            .with_endpoint(endpoint)
            .with_total_records(i64::try_from(rows).unwrap_or(i64::MAX))
            .with_descriptor(descriptor)
            .with_ordered(true))
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("host", &self.host).field("store", &self.store).finish_non_exhaustive()
    }
}

/// Answers calls at `listener` until `shutdown` is ready; then ends open answers with an error that says so, and
/// returns after at most the grace period. Runs on the I/O runtime. Dropping the future closes the server at once.
///
/// # Errors
/// The listener fails.
pub async fn serve(
    listener: TcpListener,
    FlightServer(server): FlightServer,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let options = Arc::clone(&server.options);
    let closing = server.closing.clone();
    let signal = closing.clone();
    let flight = FlightServiceServer::new(server).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let serving = Server::builder()
        .max_concurrent_streams(options.max_concurrent_streams)
        .initial_stream_window_size(options.window_bytes)
        .initial_connection_window_size(options.window_bytes.saturating_mul(16).min((1 << 31) - 1))
        .max_frame_size(options.frame_bytes)
        .http2_keepalive_interval(Some(options.keep_alive))
        .http2_keepalive_timeout(Some(options.keep_alive))
        .add_service(flight)
        .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), async move {
            shutdown.await;
            signal.cancel();
        });
    // Whatever ends this future, dropping it included, ends the answers that connections still give.
    let _ended = closing.clone().drop_guard();
    tokio::select! {
        served = serving => served.map_err(|error| {
            VolleyError::new(ErrorCode::Unreachable, "the executor's server failed").with_source(error)
        }),
        () = async { closing.cancelled().await; tokio::time::sleep(options.shutdown_grace).await } => Ok(()),
    }
}

#[async_trait]
impl FlightService for Service {
    type HandshakeStream = FlightStream<HandshakeResponse>;
    type ListFlightsStream = FlightStream<FlightInfo>;
    type DoGetStream = FlightStream<FlightData>;
    type DoPutStream = FlightStream<PutResult>;
    type DoActionStream = FlightStream<arrow_flight::Result>;
    type ListActionsStream = FlightStream<ActionType>;
    type DoExchangeStream = FlightStream<FlightData>;

    async fn do_get(&self, request: Request<FlightTicket>) -> FlightResult<Self::DoGetStream> {
        self.check(request.metadata())?;
        let messages = Ticket::from_bytes(&request.into_inner().ticket)
            .and_then(|ticket| data::get(&self.store, &self.cpu, ticket))
            .map_err(|error| to_status(&error))?;
        Ok(Response::new(self.until_closing(messages)))
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> FlightResult<Self::DoPutStream> {
        self.check(request.metadata())?;
        let messages = request.into_inner();
        let summary = data::put(Arc::clone(&self.store), &self.cpu, messages)
            .await
            .and_then(|summary| summary.to_bytes())
            .map_err(|error| to_status(&error))?;
        Ok(Response::new(stream::iter([Ok(PutResult { app_metadata: summary })]).boxed()))
    }

    async fn do_action(&self, request: Request<Action>) -> FlightResult<Self::DoActionStream> {
        self.check(request.metadata())?;
        let Action { r#type, body } = request.into_inner();
        self.act(&r#type, body).await.map(Response::new).map_err(|error| to_status(&error))
    }

    async fn list_actions(&self, request: Request<Empty>) -> FlightResult<Self::ListActionsStream> {
        self.check(request.metadata())?;
        let actions = [
            (action::HANDSHAKE, "who this executor is"),
            (action::LAUNCH, "runs a task; the answer is its life"),
            (action::LEASE, "keeps a query's state while the answer is open"),
            (action::FREE, "frees stored outputs"),
        ];
        let actions = actions.map(|(name, what)| Ok(ActionType { r#type: name.into(), description: what.into() }));
        Ok(Response::new(stream::iter(actions).boxed()))
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> FlightResult<FlightInfo> {
        self.check(request.metadata())?;
        self.info(request.into_inner()).map(Response::new).map_err(|error| to_status(&error))
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> FlightResult<SchemaResult> {
        self.check(request.metadata())?;
        let info = self.info(request.into_inner()).map_err(|error| to_status(&error))?;
        Ok(Response::new(SchemaResult { schema: info.schema }))
    }

    async fn list_flights(&self, request: Request<Criteria>) -> FlightResult<Self::ListFlightsStream> {
        self.check(request.metadata())?;
        Err(Status::unimplemented("outputs are named by tickets, not listed"))
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> FlightResult<PollInfo> {
        self.check(request.metadata())?;
        Err(Status::unimplemented("outputs are complete when they are visible"))
    }

    async fn handshake(&self, request: Request<Streaming<HandshakeRequest>>) -> FlightResult<Self::HandshakeStream> {
        self.check(request.metadata())?;
        Err(Status::unimplemented("send the token with each call, as 'authorization: Bearer TOKEN'"))
    }

    async fn do_exchange(&self, request: Request<Streaming<FlightData>>) -> FlightResult<Self::DoExchangeStream> {
        self.check(request.metadata())?;
        Err(Status::unimplemented("there is no exchange of rows in both directions"))
    }
}
