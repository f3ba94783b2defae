//! Reading from peers over Flight.
//!
//! ```text
//! I/O runtime:  DoGet -> frames ----(2 deep)----> CPU runtime: verify, decode -> batches
//! ```
//!
//! The pump on the I/O runtime has the deadlines: to connect, to get an answer, and for each message that is waited
//! for. A reader that is slow is not an error; the pump then waits for it. Dropping the run ends the pump and with
//! it the peer's stream.

mod client;
mod upload;

use std::sync::Arc;
use std::time::Instant;

use arrow_flight::FlightData;
use arrow_flight::flight_service_client::FlightServiceClient;
use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tonic::Request;
use tonic::transport::Channel;

use super::totals::TotalsCounter;
use crate::error::{ErrorCode, Result, VolleyError};
use crate::ids::{PartitionId, TaskAttempt};
use crate::shuffle::{BlockDecoder, BlockLimits, EncodedMessage};
use crate::wire::{StreamDigest, StreamNote, Ticket, WireMessage, from_status};

pub use client::{ExchangeClient, ExchangeOptions};

/// Messages between network and decoder: one being decoded, one ready.
const QUEUE: usize = 2;
/// Largest message: gRPC's own length is 32 bits, Arrow's columns of 32-bit offsets are below 2 GiB.
pub(crate) const MAX_MESSAGE_BYTES: usize = (2 << 30) - 1;

/// One `DoGet`: the blocks of one partition that one peer holds of consecutive tasks.
pub(super) struct RemoteRun {
    frames: mpsc::Receiver<Result<FlightData>>,
    _pump: AbortOnDropHandle<()>,
    decoder: BlockDecoder,
    digest: StreamDigest,
    state: RunState,
    first_output: Option<TaskAttempt>,
    endpoint: Arc<str>,
    totals: Arc<TotalsCounter>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RunState {
    BeforeSchema,
    Data,
    Ended,
}

impl RemoteRun {
    /// Starts to fetch.
    pub(super) fn start(
        client: &Arc<ExchangeClient>,
        endpoint: Arc<str>,
        ticket: &Ticket,
        schema: SchemaRef,
        options: ExchangeOptions,
        totals: Arc<TotalsCounter>,
    ) -> Result<Self> {
        let first_output = ticket.attempts().next();
        let bytes = ticket.to_bytes()?;
        let (sender, frames) = mpsc::channel(QUEUE);
        let pump = pump(Arc::clone(client), Arc::clone(&endpoint), bytes, options, Arc::clone(&totals), sender);
        Ok(Self {
            frames,
            _pump: client.spawn(pump),
            decoder: BlockDecoder::try_new(schema, BlockLimits::default())?,
            digest: StreamDigest::default(),
            state: RunState::BeforeSchema,
            first_output,
            endpoint,
            totals,
        })
    }

    /// The next batch; `None` at the end, once the digest is checked.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.state != RunState::Ended {
            let waiting = Instant::now();
            let frame = self.frames.recv().await;
            self.totals.waited(waiting.elapsed());
            let frame = match frame {
                Some(frame) => frame?,
                None => return Err(self.broken(ErrorCode::Truncated, "the stream ended without its digest")),
            };
            if let Some(batch) = self.take(frame).map_err(|error| self.blame(error))? {
                self.totals.remote_rows(batch.num_rows() as u64);
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    fn take(&mut self, frame: FlightData) -> Result<Option<RecordBatch>> {
        if self.state == RunState::BeforeSchema {
            self.decoder.check_schema_message(&frame.data_header)?;
            self.state = RunState::Data;
            return Ok(None);
        }
        let note = StreamNote::from_bytes(&frame.app_metadata)
            .map_err(|error| VolleyError::new(ErrorCode::Corrupt, "a message without its note").with_source(error))?;
        let (sequence, crc32) = match note {
            StreamNote::Digest { .. } => {
                self.digest.check(&note)?;
                self.state = RunState::Ended;
                return Ok(None);
            }
            StreamNote::Data { sequence, crc32, .. } => (sequence, crc32),
        };
        let message = EncodedMessage { header: frame.data_header, body: frame.data_body };
        self.totals.remote_bytes(message.len() as u64);
        if sequence != self.digest.messages() {
            return Err(VolleyError::new(
                ErrorCode::Truncated,
                format!("message {sequence} came in place of message {}", self.digest.messages()),
            ));
        }
        if message.crc32() != crc32 {
            return Err(VolleyError::new(ErrorCode::Corrupt, format!("message {sequence} fails its checksum")));
        }
        let batch = self.decoder.decode(&message)?;
        let rows = batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
        self.digest.add(message.len(), crc32, rows);
        Ok(batch)
    }

    fn broken(&self, code: ErrorCode, what: &str) -> VolleyError {
        self.blame(VolleyError::new(code, what))
    }

    /// Says where an error in the bytes comes from, and which output to make again.
    fn blame(&self, mut error: VolleyError) -> VolleyError {
        error.message = format!("from executor {}: {}", self.endpoint, error.message);
        if error.lost_output.is_none() {
            error.lost_output = self.first_output;
        }
        error
    }
}

/// The Flight client of a channel, without tonic's limit of 4 MiB.
fn flight_client(channel: Channel) -> FlightServiceClient<Channel> {
    FlightServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES)
}

async fn pump(
    client: Arc<ExchangeClient>,
    endpoint: Arc<str>,
    ticket: Bytes,
    options: ExchangeOptions,
    totals: Arc<TotalsCounter>,
    frames: mpsc::Sender<Result<FlightData>>,
) {
    if let Err(error) = receive(&client, &endpoint, ticket, options, &totals, &frames).await {
        if error.code == ErrorCode::Unreachable {
            client.forget(&endpoint);
        }
        // The reader may be gone, which is why we are here then.
        let _ = frames.send(Err(error)).await;
    }
}

async fn receive(
    client: &ExchangeClient,
    endpoint: &Arc<str>,
    ticket: Bytes,
    options: ExchangeOptions,
    totals: &TotalsCounter,
    frames: &mpsc::Sender<Result<FlightData>>,
) -> Result<()> {
    let stalled = |_| stalled(endpoint, &options);
    let failed = |status| from_status(status, endpoint);
    let lane = client.lane(endpoint, &options).await?;
    totals.channels(lane.channels_used);
    let mut request = Request::new(arrow_flight::Ticket { ticket });
    client.token().sign(request.metadata_mut());
    let mut flight = flight_client(lane.channel.clone());
    let answer = timeout(options.stall_timeout, flight.do_get(request)).await.map_err(stalled)?;
    let mut stream = answer.map_err(failed)?.into_inner();
    while let Some(frame) = timeout(options.stall_timeout, stream.message()).await.map_err(stalled)?.map_err(failed)? {
        if frames.send(Ok(frame)).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn stalled(endpoint: &str, options: &ExchangeOptions) -> VolleyError {
    VolleyError::new(
        ErrorCode::DeadlineExceeded,
        format!(
            "executor {endpoint} sent nothing for {} ms (volley.stall_timeout_ms)",
            options.stall_timeout.as_millis()
        ),
    )
}

/// A message with its note, counted in the stream's sums. Both directions of the wire are built from these.
pub(crate) fn frame(
    message: EncodedMessage,
    rows: u64,
    partition: PartitionId,
    sums: &mut StreamDigest,
) -> Result<FlightData> {
    let crc32 = message.crc32();
    let sequence = sums.add(message.len(), crc32, rows);
    let note = StreamNote::Data { sequence, crc32, partition: partition.0 };
    Ok(FlightData {
        flight_descriptor: None,
        data_header: message.header,
        app_metadata: note.to_bytes()?,
        data_body: message.body,
    })
}
