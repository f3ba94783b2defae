//! The ticket: what a Flight `DoGet` of ours reads.
//!
//! ```text
//! b"VLY1"  protobuf (fields in ascending order, none unknown)
//!            1 query (16 bytes)   2 stage   3 outputs [(1 task, 2 attempt)]   4 first partition   5 end partition
//!            6 first block        7 codec as text
//! ```
//!
//! Ids only, never a path. The stream it names is, for each partition of the range, for each output in the ticket's
//! order, that output's blocks; `first_block` skips blocks at its start.

use std::ops::Range;

use bytes::Bytes;
use prost::Message;

use super::convert::{WireMessage, bytes_of, decode, id_of, invalid};
use super::proto;
use crate::config::BodyCodec;
use crate::error::Result;
use crate::ids::{AttemptId, QueryId, StageId, TaskAttempt, TaskId};

const MAGIC: &[u8; 4] = b"VLY1";
/// Largest ticket: more outputs than a stage has tasks.
const MAX_TICKET_BYTES: usize = 1 << 20;
const MAX_OUTPUTS: usize = 1 << 16;
/// Most shuffle partitions of a stage.
pub const MAX_PARTITIONS: u32 = 1 << 20;

/// Names blocks of one stage on one executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The query.
    pub query: QueryId,
    /// The stage.
    pub stage: StageId,
    /// The outputs to read, in the order of reading; at least one.
    pub outputs: Vec<(TaskId, AttemptId)>,
    /// The shuffle partitions to read; not empty.
    pub partitions: Range<u32>,
    /// Blocks to skip at the start of the stream.
    pub first_block: u64,
    /// How blocks that are in memory are encoded; blocks on disk are sent as they are.
    pub codec: BodyCodec,
}

impl Ticket {
    /// The outputs by their full names.
    pub fn attempts(&self) -> impl Iterator<Item = TaskAttempt> + '_ {
        let (query, stage) = (self.query, self.stage);
        self.outputs.iter().map(move |(task, attempt)| TaskAttempt { query, stage, task: *task, attempt: *attempt })
    }
}

impl WireMessage for Ticket {
    fn to_bytes(&self) -> Result<Bytes> {
        let output = |(task, attempt): &(TaskId, AttemptId)| proto::TicketOutput { task: task.0, attempt: attempt.0 };
        let ticket = proto::Ticket {
            query: bytes_of(self.query.0),
            stage: self.stage.0,
            outputs: self.outputs.iter().map(output).collect(),
            first_partition: self.partitions.start,
            end_partition: self.partitions.end,
            first_block: self.first_block,
            codec: self.codec.to_string(),
        };
        let mut bytes = MAGIC.to_vec();
        ticket.encode(&mut bytes).map_err(|error| invalid("a ticket").with_source(error))?;
        Ok(bytes.into())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        const WHAT: &str = "a ticket";
        let body =
            bytes.strip_prefix(MAGIC).filter(|_| bytes.len() <= MAX_TICKET_BYTES).ok_or_else(|| invalid(WHAT))?;
        let ticket: proto::Ticket = decode(body, WHAT)?;
        let partitions = ticket.first_partition..ticket.end_partition;
        if ticket.outputs.is_empty()
            || ticket.outputs.len() > MAX_OUTPUTS
            || partitions.is_empty()
            || partitions.end > MAX_PARTITIONS
            // Fields that are unknown, repeated or out of order: not what we wrote.
            || ticket.encode_to_vec() != body
        {
            return Err(invalid(WHAT));
        }
        Ok(Self {
            query: QueryId(id_of(&ticket.query, WHAT)?),
            stage: StageId(ticket.stage),
            outputs: ticket.outputs.iter().map(|output| (TaskId(output.task), AttemptId(output.attempt))).collect(),
            partitions,
            first_block: ticket.first_block,
            codec: ticket.codec.parse().map_err(|_| invalid(WHAT))?,
        })
    }
}
