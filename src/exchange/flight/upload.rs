//! Storing a session's rows on an executor, as the output of a task attempt.
//!
//! 1. The schema, with the [`UploadRequest`] as the descriptor's command.
//! 2. Messages with data; the note names the shuffle partition. Rows of a partition keep the order of sending.
//! 3. The digest. Only now does the executor commit, and answer with the [`OutputSummary`]. A stream that ends
//!    before, or is cancelled, leaves nothing there, so an upload can be repeated as another attempt.

use std::sync::Arc;

use arrow_flight::flight_descriptor::DescriptorType;
use arrow_flight::{FlightData, FlightDescriptor};
use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use futures::stream::{BoxStream, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;

use super::client::{ExchangeClient, ExchangeOptions};
use super::{flight_client, stalled};
use crate::error::{ErrorCode, Result, VolleyError};
use crate::ids::PartitionId;
use crate::shuffle::{BlockEncoder, split_into_blocks};
use crate::wire::{OutputSummary, StreamDigest, UploadRequest, WireMessage, from_status};

/// Messages between encoder and network.
const QUEUE: usize = 2;
/// Rows of a message: the store's own block size.
const BATCH_ROWS: usize = 8_192;

impl ExchangeClient {
    /// Stores `rows` on the executor at `endpoint`. Encoding happens where this is polled, sending on the I/O
    /// runtime. Dropping the future before it is done leaves nothing on the executor.
    ///
    /// # Errors
    /// `rows` fails (its own error); the executor cannot be reached, stalls, or cannot store the rows.
    pub async fn upload(
        self: &Arc<Self>,
        endpoint: Arc<str>,
        request: UploadRequest,
        schema: SchemaRef,
        mut rows: BoxStream<'static, Result<(PartitionId, RecordBatch)>>,
        options: ExchangeOptions,
    ) -> Result<OutputSummary> {
        let mut encoder = BlockEncoder::try_new(schema, options.codec)?;
        let (frames, queue) = mpsc::channel(QUEUE);
        let (answer_sender, answer) = oneshot::channel();
        let client = Arc::clone(self);
        let peer = Arc::clone(&endpoint);
        let _sending = self.spawn(async move {
            let sent = send(&client, &peer, queue, options).await;
            if sent.as_ref().is_err_and(|error| error.code == ErrorCode::Unreachable) {
                client.forget(&peer);
            }
            let _ = answer_sender.send(sent);
        });
        let first = FlightData {
            flight_descriptor: Some(FlightDescriptor {
                r#type: DescriptorType::Cmd as i32,
                cmd: request.to_bytes()?,
                path: vec![],
            }),
            data_header: encoder.schema_message().header,
            ..FlightData::default()
        };
        let mut sums = StreamDigest::default();
        // A closed queue means that sending has failed; the answer says why.
        let mut open = push(&frames, first, &endpoint, &options).await?;
        while open && let Some(next) = rows.next().await {
            let (partition, batch) = next?;
            let blocks = split_into_blocks(&batch, options.message_bytes, BATCH_ROWS)
                .map_err(|error| VolleyError::new(ErrorCode::TaskFailed, "cannot split rows").with_source(error))?;
            for block in blocks {
                for (message, block_rows) in encoder.encode_counted(&block)? {
                    let frame = super::frame(message, block_rows, partition, &mut sums)?;
                    open = open && push(&frames, frame, &endpoint, &options).await?;
                }
            }
        }
        if open {
            let digest = FlightData { app_metadata: sums.note().to_bytes()?, ..FlightData::default() };
            push(&frames, digest, &endpoint, &options).await?;
        }
        drop(frames);
        // What is under way is a few messages and the commit.
        let deadline = options.stall_timeout + options.connect_timeout;
        timeout(deadline, answer)
            .await
            .map_err(|_| stalled(&endpoint, &options))?
            .unwrap_or_else(|error| Err(VolleyError::internal("sending rows panicked").with_source(error)))
    }
}

/// Whether the queue is still open.
async fn push(
    frames: &mpsc::Sender<FlightData>,
    frame: FlightData,
    endpoint: &str,
    options: &ExchangeOptions,
) -> Result<bool> {
    // Generous: the connection and the answer have deadlines of their own, this one is against a peer that reads
    // nothing.
    let deadline = options.stall_timeout + options.connect_timeout;
    timeout(deadline, frames.send(frame)).await.map(|sent| sent.is_ok()).map_err(|_| stalled(endpoint, options))
}

async fn send(
    client: &ExchangeClient,
    endpoint: &Arc<str>,
    queue: mpsc::Receiver<FlightData>,
    options: ExchangeOptions,
) -> Result<OutputSummary> {
    let failed = |status| from_status(status, endpoint);
    let lane = client.lane(endpoint, &options).await?;
    let mut request = Request::new(ReceiverStream::new(queue));
    client.token().sign(request.metadata_mut());
    let mut flight = flight_client(lane.channel.clone());
    // The server answers after the last message, which may be long from now: the queue's sender has the deadline
    // while rows flow, keep-alive finds a dead peer, and the sender drops us if its own source ends.
    let mut answers = flight.do_put(request).await.map_err(failed)?.into_inner();
    let answer = answers.message().await.map_err(failed)?;
    let answer: Bytes = answer.map(|result| result.app_metadata).unwrap_or_default();
    if answer.is_empty() {
        return Err(VolleyError::new(ErrorCode::Truncated, format!("executor {endpoint} did not confirm an upload")));
    }
    OutputSummary::from_bytes(&answer)
}
