//! The block format: Arrow IPC messages, encoded and decoded.
//!
//! A block is the rows of one `RecordBatch`: one message per dictionary that the reader does not have yet, then
//! one with the rows. A message is a flatbuffer header and a body whose buffers start at multiples of 64 bytes,
//! compressed or not. In a stream a dictionary is sent again only when it changes; a block on disk has all of
//! its dictionaries ([`BlockEncoder::encode_whole`]).
//!
//! Decoding takes bytes from outside: [`check`](super::check) looks at every offset and length first, then arrow
//! validates the arrays in full. What still panics inside arrow is an error here, not a panic.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow_ipc::{CompressionType, MessageHeader, root_as_message};
use bytes::Bytes;
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::buffer::{Buffer, MutableBuffer};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;

use super::check;
use crate::config::BodyCodec;
use crate::error::{ErrorCode, Result, VolleyError};

/// One Arrow IPC message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedMessage {
    /// The flatbuffer, without length prefix.
    pub header: Bytes,
    /// The buffers.
    pub body: Bytes,
}

impl EncodedMessage {
    /// CRC-32 (IEEE) over header and body.
    pub fn crc32(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.header);
        hasher.update(&self.body);
        hasher.finalize()
    }

    /// Bytes of header and body.
    pub fn len(&self) -> usize {
        self.header.len() + self.body.len()
    }

    /// Whether the message has no bytes at all, which no valid one has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Encodes the batches of one stream. Keeps scratch memory of about one block.
pub struct BlockEncoder {
    schema: SchemaRef,
    schema_header: Bytes,
    generator: IpcDataGenerator,
    options: IpcWriteOptions,
    context: IpcWriteContext,
    tracker: DictionaryTracker,
    dictionaries: usize,
}

impl BlockEncoder {
    /// An encoder for batches of `schema`.
    ///
    /// # Errors
    /// A codec level that the library refuses.
    pub fn try_new(schema: SchemaRef, codec: BodyCodec) -> Result<Self> {
        let options = IpcWriteOptions::default();
        let options = match codec {
            BodyCodec::None => Ok(options),
            BodyCodec::Lz4 => options.try_with_compression(Some(CompressionType::LZ4_FRAME)),
            BodyCodec::Zstd { level } => options
                .try_with_compression(Some(CompressionType::ZSTD))
                .and_then(|options| options.try_with_compression_level(Some(level))),
        }
        .map_err(encode_error)?;
        let generator = IpcDataGenerator::default();
        let mut tracker = DictionaryTracker::new(false);
        let header = generator.schema_to_bytes_with_dictionary_tracker(&schema, &mut tracker, &options);
        let dictionaries = tracker.dict_id().len();
        let mut context = IpcWriteContext::default();
        context.set_reserve_scratch(true);
        let schema_header = Bytes::from(header.ipc_message);
        Ok(Self { schema, schema_header, generator, options, context, tracker, dictionaries })
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The message that opens a stream; it has no body.
    pub fn schema_message(&self) -> EncodedMessage {
        EncodedMessage { header: self.schema_header.clone(), body: Bytes::new() }
    }

    /// The messages of a batch: dictionaries that this stream has not had yet, then the rows.
    ///
    /// # Errors
    /// A batch that the format cannot hold.
    pub fn encode(&mut self, batch: &RecordBatch) -> Result<Vec<EncodedMessage>> {
        let (dictionaries, rows) =
            self.generator.encode(batch, &mut self.tracker, &self.options, &mut self.context).map_err(encode_error)?;
        Ok(dictionaries
            .into_iter()
            .chain([rows])
            .map(|data| EncodedMessage { header: data.ipc_message.into(), body: data.arrow_data.into() })
            .collect())
    }

    /// As [`encode`](Self::encode), each message with the rows that it completes: none for a dictionary.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_counted(
        &mut self,
        batch: &RecordBatch,
    ) -> Result<impl Iterator<Item = (EncodedMessage, u64)> + use<>> {
        let messages = self.encode(batch)?;
        let (last, rows) = (messages.len() - 1, batch.num_rows() as u64);
        Ok(messages.into_iter().enumerate().map(move |(at, message)| (message, if at == last { rows } else { 0 })))
    }

    /// As [`encode`](Self::encode), with all dictionaries: the block can be decoded by itself.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_whole(&mut self, batch: &RecordBatch) -> Result<Vec<EncodedMessage>> {
        self.forget_dictionaries();
        self.encode(batch)
    }

    /// Makes the next block bring its dictionaries, as after blocks from elsewhere went into the same stream.
    pub fn forget_dictionaries(&mut self) {
        if self.dictionaries > 0 {
            self.tracker.clear();
            for _ in 0..self.dictionaries {
                self.tracker.next_dict_id();
            }
        }
    }
}

impl fmt::Debug for BlockEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockEncoder").field("schema", &self.schema).finish_non_exhaustive()
    }
}

fn encode_error(error: ArrowError) -> VolleyError {
    VolleyError::new(ErrorCode::TaskFailed, "cannot encode rows for the shuffle").with_source(error)
}

/// What a decoder accepts.
#[derive(Clone, Copy, Debug)]
pub struct BlockLimits {
    /// Uncompressed bytes of one message. Bounds what compressed bytes may ask to allocate.
    pub max_message_bytes: usize,
}

impl Default for BlockLimits {
    /// 2 GiB: the largest column that 32-bit offsets can hold, so that no block of ours is refused.
    fn default() -> Self {
        Self { max_message_bytes: 2 << 30 }
    }
}

/// Decodes the messages of one stream.
#[derive(Debug)]
pub struct BlockDecoder {
    /// What batches get.
    schema: SchemaRef,
    /// The same, with the ids that dictionary messages use.
    ipc_schema: SchemaRef,
    dictionaries: HashMap<i64, ArrayRef>,
    limits: BlockLimits,
}

impl BlockDecoder {
    /// A decoder for batches that a [`BlockEncoder`] of `schema` wrote.
    ///
    /// # Errors
    /// A schema that the format cannot hold.
    pub fn try_new(schema: SchemaRef, limits: BlockLimits) -> Result<Self> {
        let encoder = BlockEncoder::try_new(Arc::clone(&schema), BodyCodec::None)?;
        let ipc_schema = parse_schema(&encoder.schema_header)?;
        Ok(Self { schema, ipc_schema, dictionaries: HashMap::new(), limits })
    }

    /// A decoder for the stream that this message opens.
    ///
    /// # Errors
    /// The message is not a schema.
    pub fn from_schema_message(header: &[u8], limits: BlockLimits) -> Result<Self> {
        let schema = parse_schema(header)?;
        Ok(Self { schema: Arc::clone(&schema), ipc_schema: schema, dictionaries: HashMap::new(), limits })
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Checks that a stream's schema message has the columns that this decoder expects.
    ///
    /// # Errors
    /// [`ErrorCode::Corrupt`] if not.
    pub fn check_schema_message(&self, header: &[u8]) -> Result<()> {
        let found = parse_schema(header)?;
        let same = found.fields().len() == self.schema.fields().len()
            && found
                .fields()
                .iter()
                .zip(self.schema.fields())
                .all(|(found, expected)| found.data_type().equals_datatype(expected.data_type()));
        if same {
            return Ok(());
        }
        Err(corrupt(format!("a stream has the columns {found}, expected {}", self.schema)))
    }

    /// Takes the next message; `None` for a dictionary.
    ///
    /// # Errors
    /// [`ErrorCode::Corrupt`]: the bytes are not a valid message of this stream. Nothing they say is trusted.
    pub fn decode(&mut self, message: &EncodedMessage) -> Result<Option<RecordBatch>> {
        let body = aligned(&message.body);
        let decoded = guarded(|| self.decode_checked(&message.header, &body))?;
        let Some(batch) = decoded else { return Ok(None) };
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), batch.columns().to_vec(), &rows)
            .map(Some)
            .map_err(|error| corrupt("rows do not fit the schema").with_source(error))
    }

    /// Takes all messages of a block.
    ///
    /// # Errors
    /// As [`decode`](Self::decode); a block that has not exactly one message with rows, at its end.
    pub fn decode_block(&mut self, messages: &[EncodedMessage]) -> Result<RecordBatch> {
        let Some((last, dictionaries)) = messages.split_last() else { return Err(corrupt("an empty block")) };
        for message in dictionaries {
            if self.decode(message)?.is_some() {
                return Err(corrupt("rows before the end of a block"));
            }
        }
        self.decode(last)?.ok_or_else(|| corrupt("a block without rows"))
    }

    fn decode_checked(&mut self, header: &[u8], body: &Buffer) -> Result<Option<RecordBatch>> {
        let message = root_as_message(header).map_err(|error| corrupt(format!("not an Arrow message: {error}")))?;
        let version = message.version();
        if version != arrow_ipc::MetadataVersion::V5 {
            return Err(corrupt("an Arrow message of another version"));
        }
        let unexpected = || corrupt("an Arrow message of an unexpected kind");
        match message.header_type() {
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().ok_or_else(unexpected)?;
                let types = self.ipc_schema.fields().iter().map(|field| field.data_type());
                check::check(&batch, types, body, self.limits.max_message_bytes).map_err(corrupt)?;
                RecordBatchDecoder::try_new(body, batch, Arc::clone(&self.ipc_schema), &self.dictionaries, &version)
                    .and_then(RecordBatchDecoder::read_record_batch)
                    .map(Some)
                    .map_err(|error| corrupt("invalid rows").with_source(error))
            }
            MessageHeader::DictionaryBatch => {
                let batch = message.header_as_dictionary_batch().ok_or_else(unexpected)?;
                let values = batch.data().ok_or_else(unexpected)?;
                #[expect(deprecated, reason = "there is no other way from a dictionary's id to its type")]
                let fields = self.ipc_schema.fields_with_dict_id(batch.id());
                let value_type = fields.first().and_then(|field| match field.data_type() {
                    datafusion::arrow::datatypes::DataType::Dictionary(_, values) => Some(values.as_ref()),
                    _ => None,
                });
                let value_type = value_type.ok_or_else(|| corrupt("a dictionary that no column has"))?;
                check::check(&values, [value_type].into_iter(), body, self.limits.max_message_bytes)
                    .map_err(corrupt)?;
                read_dictionary(body, batch, &self.ipc_schema, &mut self.dictionaries, &version)
                    .map(|()| None)
                    .map_err(|error| corrupt("an invalid dictionary").with_source(error))
            }
            _ => Err(unexpected()),
        }
    }
}

fn corrupt(message: impl Into<String>) -> VolleyError {
    VolleyError::new(ErrorCode::Corrupt, message)
}

fn parse_schema(header: &[u8]) -> Result<SchemaRef> {
    guarded(|| {
        arrow_ipc::convert::try_schema_from_flatbuffer_bytes(header)
            .map(Arc::new)
            .map_err(|error| corrupt("not an Arrow schema").with_source(error))
    })
}

/// Arrow asserts in places that the checks here may not know; bytes from outside must not end a task's thread.
fn guarded<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err(corrupt("an Arrow message that cannot be decoded")))
}

/// The body at an address that every Arrow type accepts; copied where it is not.
fn aligned(body: &Bytes) -> Buffer {
    const ALIGNMENT: usize = 16;
    if (body.as_ptr() as usize).is_multiple_of(ALIGNMENT) {
        return Buffer::from(body.clone());
    }
    let mut copy = MutableBuffer::with_capacity(body.len());
    copy.extend_from_slice(body);
    copy.into()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Int32Array, Int64Array, ListArray, NullArray,
        StringArray, StringViewArray, StructArray,
    };
    use datafusion::arrow::datatypes::{DataType, Field, Int8Type, Int32Type, Schema};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    const CODECS: [BodyCodec; 3] = [BodyCodec::None, BodyCodec::Lz4, BodyCodec::Zstd { level: 1 }];

    fn columns(rows: usize) -> Vec<(&'static str, ArrayRef)> {
        let text = |row: usize| (!row.is_multiple_of(5)).then(|| "x".repeat(row % 30));
        let dictionary: DictionaryArray<Int8Type> =
            (0..rows).map(|row| ["red", "green", "blue"][row % 3]).collect::<Vec<_>>().into_iter().map(Some).collect();
        let inner: ArrayRef = Arc::new(Int32Array::from_iter((0..rows as i32).map(|v| (v % 3 != 0).then_some(v))));
        vec![
            ("int", Arc::new(Int64Array::from_iter((0..rows as i64).map(|v| (v % 4 != 0).then_some(v)))) as ArrayRef),
            ("bool", Arc::new(BooleanArray::from_iter((0..rows).map(|row| Some(row % 2 == 0))))),
            ("text", Arc::new(StringArray::from_iter((0..rows).map(text)))),
            ("view", Arc::new(StringViewArray::from_iter((0..rows).map(text)))),
            (
                "decimal",
                Arc::new(
                    Decimal128Array::from_iter_values((0..rows as i128).map(|v| v * 1_001))
                        .with_precision_and_scale(38, 2)
                        .unwrap(),
                ),
            ),
            ("dictionary", Arc::new(dictionary)),
            (
                "list",
                Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
                    (0..rows as i32).map(|v| (v % 7 != 0).then(|| vec![Some(v); v as usize % 4])),
                )),
            ),
            (
                "struct",
                Arc::new(StructArray::from(vec![(Arc::new(Field::new("inner", DataType::Int32, true)), inner)])),
            ),
            ("null", Arc::new(NullArray::new(rows))),
        ]
    }

    fn batch(rows: usize) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns(rows).into_iter().map(|(name, c)| (name, c, true))).unwrap()
    }

    #[test]
    fn batches_come_back_equal() {
        let empty = RecordBatch::try_new_with_options(
            Arc::new(Schema::empty()),
            vec![],
            &RecordBatchOptions::new().with_row_count(Some(77)),
        )
        .unwrap();
        for codec in CODECS {
            for batch in [batch(0), batch(1), batch(1_000), batch(1_000).slice(13, 500), empty.clone()] {
                let mut encoder = BlockEncoder::try_new(batch.schema(), codec).unwrap();
                let mut decoder = BlockDecoder::try_new(batch.schema(), BlockLimits::default()).unwrap();
                decoder.check_schema_message(&encoder.schema_message().header).unwrap();
                for _ in 0..2 {
                    let messages = encoder.encode(&batch).unwrap();
                    assert_eq!(decoder.decode_block(&messages).unwrap(), batch, "{codec}");
                }
                let whole = encoder.encode_whole(&batch).unwrap();
                let mut fresh = BlockDecoder::try_new(batch.schema(), BlockLimits::default()).unwrap();
                assert_eq!(fresh.decode_block(&whole).unwrap(), batch, "{codec}");
            }
        }
    }

    #[test]
    fn a_dictionary_is_sent_once() {
        let batch = batch(100);
        let mut encoder = BlockEncoder::try_new(batch.schema(), BodyCodec::None).unwrap();
        let counts: Vec<usize> = (0..2).map(|_| encoder.encode(&batch).unwrap().len()).collect();
        assert_eq!((counts, encoder.encode_whole(&batch).unwrap().len()), (vec![2, 1], 2));
    }

    /// Damaged messages give an error or other rows (the checksum's business), never a panic or an abort.
    #[test]
    fn damaged_messages_do_no_harm() {
        let mut random = StdRng::seed_from_u64(55);
        let batch = batch(200);
        for codec in CODECS {
            let mut encoder = BlockEncoder::try_new(batch.schema(), codec).unwrap();
            let messages = encoder.encode_whole(&batch).unwrap();
            for _ in 0..3_000 {
                let mut decoder =
                    BlockDecoder::try_new(batch.schema(), BlockLimits { max_message_bytes: 1 << 20 }).unwrap();
                for message in &messages {
                    let mut header = message.header.to_vec();
                    let mut body = message.body.to_vec();
                    match random.random_range(0..4) {
                        0 => body.truncate(random.random_range(0..=body.len())),
                        1 if !body.is_empty() => {
                            let at = random.random_range(0..body.len());
                            body[at] ^= 1 << random.random_range(0..8);
                        }
                        2 => {
                            // A hostile announced length: the first 8 bytes of a compressed buffer.
                            let at = random.random_range(0..=body.len().saturating_sub(8)) / 64 * 64;
                            if body.len() >= at + 8 {
                                body[at..at + 8].copy_from_slice(&i64::MAX.to_le_bytes());
                            }
                        }
                        _ => {
                            let at = random.random_range(0..header.len());
                            header[at] = random.random();
                        }
                    }
                    let _ = decoder.decode(&EncodedMessage { header: header.into(), body: body.into() });
                }
            }
        }
    }
}
