//! What travels beside the Arrow messages of a stream, in their `app_metadata`.
//!
//! ```text
//! schema | data (note: sequence 0, crc) | data (note: sequence 1, crc) | … | no rows (note: digest)
//! ```
//!
//! A stream without its digest, or with other sums than it says, is truncated. Nothing follows the digest. To read a
//! partition, the digest is on a batch without rows, which every Flight client accepts; to upload, on a message
//! without data.

use bytes::Bytes;
use prost::Message;

use super::convert::{WireMessage, decode, invalid};
use super::proto;
use crate::error::{ErrorCode, Result, VolleyError};

/// A note of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamNote {
    /// On a message with data.
    Data {
        /// Messages with data before this one.
        sequence: u64,
        /// CRC-32 over the message's header and body.
        crc32: u32,
        /// The shuffle partition of the rows.
        partition: u32,
    },
    /// On the last message, which has no rows.
    Digest {
        /// Messages with data.
        messages: u64,
        /// Rows.
        rows: u64,
        /// Bytes of headers and bodies.
        bytes: u64,
        /// The checksums of all messages, combined; see [`StreamDigest`].
        checksum: u32,
    },
}

impl WireMessage for StreamNote {
    fn to_bytes(&self) -> Result<Bytes> {
        let kind = match *self {
            StreamNote::Data { sequence, crc32, partition } => {
                proto::NoteKind::Data(proto::DataNote { sequence, crc32, partition })
            }
            StreamNote::Digest { messages, rows, bytes, checksum } => {
                proto::NoteKind::Digest(proto::DigestNote { messages, rows, bytes, checksum })
            }
        };
        Ok(proto::Note { kind: Some(kind) }.encode_to_vec().into())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let note: proto::Note = decode(bytes, "a message's note")?;
        Ok(match note.kind.ok_or_else(|| invalid("a message's note"))? {
            proto::NoteKind::Data(data) => {
                Self::Data { sequence: data.sequence, crc32: data.crc32, partition: data.partition }
            }
            proto::NoteKind::Digest(digest) => Self::Digest {
                messages: digest.messages,
                rows: digest.rows,
                bytes: digest.bytes,
                checksum: digest.checksum,
            },
        })
    }
}

/// The running sums of a stream; sender and receiver keep one each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamDigest {
    messages: u64,
    rows: u64,
    bytes: u64,
    checksum: u32,
}

impl StreamDigest {
    /// Adds a message: its bytes, its CRC-32 and the rows that it completes. Returns its sequence number.
    pub fn add(&mut self, bytes: usize, crc32: u32, rows: u64) -> u64 {
        let sequence = self.messages;
        self.messages += 1;
        self.rows += rows;
        self.bytes += bytes as u64;
        // Rotation makes the order count.
        self.checksum = self.checksum.rotate_left(1) ^ crc32;
        sequence
    }

    /// Messages so far: the sequence number of the next.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The note of the last message.
    pub fn note(&self) -> StreamNote {
        let Self { messages, rows, bytes, checksum } = *self;
        StreamNote::Digest { messages, rows, bytes, checksum }
    }

    /// Compares with the digest that the sender sent.
    ///
    /// # Errors
    /// [`ErrorCode::Truncated`] or [`ErrorCode::Corrupt`].
    pub fn check(&self, sent: &StreamNote) -> Result<()> {
        let own = self.note();
        if own == *sent {
            return Ok(());
        }
        let StreamNote::Digest { messages, rows, .. } = *sent else {
            return Err(VolleyError::new(ErrorCode::Truncated, "a stream ended without its digest"));
        };
        if (messages, rows) == (self.messages, self.rows) {
            return Err(VolleyError::new(ErrorCode::Corrupt, "a stream's checksum differs from its digest"));
        }
        Err(VolleyError::new(
            ErrorCode::Truncated,
            format!(
                "a stream gave {} rows in {} messages; its digest says {rows} in {messages}",
                self.rows, self.messages
            ),
        ))
    }
}
