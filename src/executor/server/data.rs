//! Rows out of and into the store.

use std::sync::Arc;

use arrow_flight::FlightData;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use futures::Stream;
use futures::stream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tonic::Streaming;

use crate::error::{ErrorCode, Result, VolleyError};
use crate::exchange::frame;
use crate::ids::PartitionId;
use crate::shuffle::{
    BlockDecoder, BlockEncoder, BlockLimits, EncodedMessage, LoadedBlock, PartitionBlocks, ShuffleStore, WriterOptions,
};
use crate::wire::{OutputSummary, StreamDigest, StreamNote, Ticket, UploadRequest, WireMessage, from_status};

/// Messages between encoder and network: one being sent, one ready.
const QUEUE: usize = 2;

/// Blocks of one output's partition.
pub(super) struct Part {
    partition: PartitionId,
    pub(super) blocks: PartitionBlocks,
}

/// What a ticket names, in the order of reading; at least one part.
pub(super) fn find(store: &ShuffleStore, ticket: &Ticket) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for partition in ticket.partitions.clone().map(PartitionId) {
        for attempt in ticket.attempts() {
            parts.push(Part { partition, blocks: store.read(attempt, partition)? });
        }
    }
    Ok(parts)
}

/// The messages of a `DoGet`. All that the ticket names is there before the first is sent.
pub(super) fn get(
    store: &ShuffleStore,
    cpu: &Handle,
    ticket: Ticket,
) -> Result<impl Stream<Item = Result<FlightData>> + Send + use<>> {
    let parts = find(store, &ticket)?;
    let schema = parts.first().map(|part| Arc::clone(&part.blocks.schema));
    let schema = schema.ok_or_else(|| VolleyError::internal("a ticket that names nothing"))?;
    let (sender, messages) = mpsc::channel(QUEUE);
    let encoding = AbortOnDropHandle::new(cpu.spawn(async move {
        if let Err(error) = encode(parts, schema, ticket, &sender).await {
            // The client may be gone; then nobody needs to know.
            let _ = sender.send(Err(error)).await;
        }
    }));
    Ok(stream::unfold((messages, encoding), |(mut messages, encoding)| async move {
        let message = messages.recv().await?;
        Some((message, (messages, encoding)))
    }))
}

async fn encode(
    parts: Vec<Part>,
    schema: SchemaRef,
    ticket: Ticket,
    messages: &mpsc::Sender<Result<FlightData>>,
) -> Result<()> {
    let mut encoder = BlockEncoder::try_new(Arc::clone(&schema), ticket.codec)?;
    let last_partition = PartitionId(ticket.partitions.end.saturating_sub(1));
    let mut sums = StreamDigest::default();
    let first = FlightData { data_header: encoder.schema_message().header, ..FlightData::default() };
    if messages.send(Ok(first)).await.is_err() {
        return Ok(());
    }
    let mut skip = ticket.first_block;
    for Part { partition, blocks } in parts {
        for block in blocks.blocks {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let encoded: Vec<(EncodedMessage, u64)> = match block.load_async().await? {
                LoadedBlock::Batch(batch) => encoder.encode_counted(&batch)?.collect(),
                LoadedBlock::Messages(messages) => {
                    // It brings its own dictionaries, which replace those that the encoder has sent.
                    encoder.forget_dictionaries();
                    let last = messages.len().saturating_sub(1);
                    let rows = |at| if at == last { block.rows() } else { 0 };
                    messages.into_iter().enumerate().map(|(at, message)| (message, rows(at))).collect()
                }
            };
            for (message, rows) in encoded {
                let message = frame(message, rows, partition, &mut sums)?;
                if messages.send(Ok(message)).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
    // The digest rides on a batch without rows: a message without data at all ends a C++ client's stream, but is an
    // error to a Rust one.
    let mut last: Vec<_> = encoder.encode_counted(&RecordBatch::new_empty(schema))?.collect();
    let digest = last.pop().map(|(message, _)| message);
    for (dictionary, rows) in last {
        if messages.send(Ok(frame(dictionary, rows, last_partition, &mut sums)?)).await.is_err() {
            return Ok(());
        }
    }
    let digest = digest.ok_or_else(|| VolleyError::internal("a batch without a message"))?;
    let digest = FlightData {
        data_header: digest.header,
        app_metadata: sums.note().to_bytes()?,
        data_body: digest.body,
        ..FlightData::default()
    };
    let _ = messages.send(Ok(digest)).await;
    Ok(())
}

/// Takes a `DoPut`. The output is committed after the digest is checked; a stream that ends before leaves nothing.
///
/// There is no deadline between messages: a session may compute for long before it has rows. The connection's
/// keep-alive finds a session that is gone, and a session that gives up resets the stream.
pub(super) async fn put(
    store: Arc<ShuffleStore>,
    cpu: &Handle,
    messages: Streaming<FlightData>,
) -> Result<OutputSummary> {
    AbortOnDropHandle::new(cpu.spawn(receive(store, messages)))
        .await
        .unwrap_or_else(|error| Err(VolleyError::internal("storing an upload panicked").with_source(error)))
}

async fn receive(store: Arc<ShuffleStore>, mut messages: Streaming<FlightData>) -> Result<OutputSummary> {
    let failed = |status| from_status(status, "an upload");
    let invalid = |what: &str| VolleyError::new(ErrorCode::InvalidRequest, format!("an upload {what}"));
    let first = messages.message().await.map_err(failed)?.ok_or_else(|| invalid("without messages"))?;
    let descriptor = first.flight_descriptor.ok_or_else(|| invalid("without a descriptor"))?;
    let UploadRequest { attempt, partitions } = UploadRequest::from_bytes(&descriptor.cmd)?;
    let mut decoder = BlockDecoder::from_schema_message(&first.data_header, BlockLimits::default())?;
    let schema = Arc::clone(decoder.schema());
    let output = store.writer(attempt, schema, partitions as usize, 1, WriterOptions::default())?;
    let mut producer = output.producer(0)?;
    let mut sums = StreamDigest::default();
    while let Some(message) = messages.message().await.map_err(failed)? {
        let note = StreamNote::from_bytes(&message.app_metadata)?;
        let StreamNote::Data { sequence, crc32, partition } = note else {
            sums.check(&note)?;
            producer.finish()?;
            return output.commit();
        };
        let message = EncodedMessage { header: message.data_header, body: message.data_body };
        if message.crc32() != crc32 || sequence != sums.messages() {
            return Err(VolleyError::new(ErrorCode::Corrupt, "a message of an upload fails its checksum"));
        }
        let batch = decoder.decode(&message)?;
        let rows = batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
        sums.add(message.len(), crc32, rows);
        if let Some(batch) = batch {
            if partition >= partitions {
                return Err(invalid(&format!("to partition {partition} of {partitions}")));
            }
            producer.push(PartitionId(partition), batch)?;
        }
    }
    Err(VolleyError::new(ErrorCode::Truncated, "an upload ended without its digest"))
}
