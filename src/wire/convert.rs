//! Structs to protobuf bytes and back.
//!
//! Decoding is strict: what no correct peer sends (an id of another length, a missing part, an event of no known
//! kind) is [`ErrorCode::InvalidRequest`], never a default. Values of filter keys are leaves only: nested scalar
//! values carry Arrow messages of their own, which nobody would have checked.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::ScalarValue;
use datafusion_proto::generated::datafusion_common::scalar_value::Value;
use datafusion_proto::protobuf;
use prost::Message;
use prost::encoding::{WireType, decode_key};

use super::proto;
use super::task::{
    ColumnKeys, ExchangeTotals, ExecutorInfo, KeySummary, OperatorMetric, OutputLocation, OutputSummary,
    PartitionSummary, StageInput, TaskDefinition, TaskEvent, TaskReport,
};
use super::{QueryScope, UploadRequest};
use crate::error::{ErrorCode, Result, VolleyError};
use crate::ids::{AttemptId, ExecutorId, QueryId, StageId, TaskAttempt, TaskId};

/// A struct that crosses between processes as protobuf bytes.
pub trait WireMessage: Sized {
    /// The bytes.
    ///
    /// # Errors
    /// A value that has no form on the wire.
    fn to_bytes(&self) -> Result<Bytes>;

    /// The struct that these bytes are.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidRequest`]: no correct peer sends these bytes.
    fn from_bytes(bytes: &[u8]) -> Result<Self>;
}

pub(super) fn invalid(what: &str) -> VolleyError {
    VolleyError::new(ErrorCode::InvalidRequest, format!("{what} is not valid"))
}

pub(super) fn decode<P: Message + Default>(bytes: &[u8], what: &str) -> Result<P> {
    P::decode(bytes).map_err(|error| invalid(what).with_source(error))
}

pub(super) fn bytes_of(id: u128) -> Bytes {
    Bytes::copy_from_slice(&id.to_be_bytes())
}

pub(super) fn id_of(bytes: &[u8], what: &str) -> Result<u128> {
    bytes.try_into().map(u128::from_be_bytes).map_err(|_| invalid(what))
}

pub(super) fn attempt_to_proto(id: &TaskAttempt) -> proto::Attempt {
    proto::Attempt { query: bytes_of(id.query.0), stage: id.stage.0, task: id.task.0, attempt: id.attempt.0 }
}

pub(super) fn attempt_from_proto(id: Option<&proto::Attempt>) -> Result<TaskAttempt> {
    let id = id.ok_or_else(|| invalid("an attempt's id"))?;
    Ok(TaskAttempt {
        query: QueryId(id_of(&id.query, "a query id")?),
        stage: StageId(id.stage),
        task: TaskId(id.task),
        attempt: AttemptId(id.attempt),
    })
}

impl WireMessage for TaskDefinition {
    fn to_bytes(&self) -> Result<Bytes> {
        let pair = |(name, value): &(String, String)| proto::Pair { name: name.clone(), value: value.clone() };
        let task = proto::Task {
            id: Some(attempt_to_proto(&self.id)),
            plan: self.plan.clone(),
            options: self.options.iter().map(pair).collect(),
            inputs: self.inputs.iter().map(input_to_proto).collect(),
        };
        Ok(task.encode_to_vec().into())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let task: proto::Task = decode(bytes, "a task")?;
        Ok(Self {
            id: attempt_from_proto(task.id.as_ref())?,
            plan: task.plan,
            options: Arc::new(task.options.into_iter().map(|pair| (pair.name, pair.value)).collect()),
            inputs: task.inputs.into_iter().map(input_from_proto).collect::<Result<_>>()?,
        })
    }
}

fn input_to_proto(input: &StageInput) -> proto::Input {
    let location = |output: &OutputLocation| proto::Location {
        task: output.task.0,
        attempt: output.attempt.0,
        executor: bytes_of(output.executor.0),
        endpoint: output.endpoint.to_string(),
        rows: output.rows.to_vec(),
    };
    proto::Input { stage: input.stage.0, outputs: input.outputs.iter().map(location).collect() }
}

fn input_from_proto(input: proto::Input) -> Result<StageInput> {
    let outputs = input
        .outputs
        .into_iter()
        .map(|output| {
            Ok(OutputLocation {
                task: TaskId(output.task),
                attempt: AttemptId(output.attempt),
                executor: ExecutorId(id_of(&output.executor, "an executor id")?),
                endpoint: output.endpoint.into(),
                rows: Arc::new(output.rows),
            })
        })
        .collect::<Result<Vec<_>>>()?;
    if !outputs.is_sorted_by(|a, b| a.task < b.task) {
        return Err(invalid("the order of a stage's outputs"));
    }
    Ok(StageInput { stage: StageId(input.stage), outputs })
}

impl WireMessage for TaskEvent {
    fn to_bytes(&self) -> Result<Bytes> {
        let kind = match self {
            TaskEvent::Progress { rows, bytes } => {
                proto::EventKind::Progress(proto::Progress { rows: *rows, bytes: *bytes })
            }
            TaskEvent::Finished(report) => proto::EventKind::Finished(report_to_proto(report)?),
            TaskEvent::Failed(error) => proto::EventKind::Failed(error_to_proto(error)),
        };
        Ok(proto::Event { kind: Some(kind) }.encode_to_vec().into())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let event: proto::Event = decode(bytes, "a task's event")?;
        match event.kind.ok_or_else(|| invalid("a task's event"))? {
            proto::EventKind::Progress(progress) => {
                Ok(TaskEvent::Progress { rows: progress.rows, bytes: progress.bytes })
            }
            proto::EventKind::Finished(report) => Ok(TaskEvent::Finished(Box::new(report_from_proto(report)?))),
            proto::EventKind::Failed(error) => Ok(TaskEvent::Failed(error_from_proto(error)?)),
        }
    }
}

fn report_to_proto(report: &TaskReport) -> Result<proto::Report> {
    let ExchangeTotals { local_bytes, remote_bytes, local_rows, remote_rows, channels, wait_ns, dropped_early } =
        report.exchange;
    let metric = |metric: &OperatorMetric| proto::Metric {
        operator: metric.operator,
        operator_name: metric.operator_name.clone(),
        name: metric.name.clone(),
        value: metric.value,
    };
    Ok(proto::Report {
        output: Some(output_to_proto(&report.output)),
        keys: report.keys.iter().map(keys_to_proto).collect::<Result<_>>()?,
        exchange: Some(proto::Exchange {
            local_bytes,
            remote_bytes,
            local_rows,
            remote_rows,
            channels,
            wait_ns,
            dropped_early,
        }),
        metrics: report.metrics.iter().map(metric).collect(),
        elapsed_ms: report.elapsed_ms,
        cpu_us: report.cpu_us,
        scanned_bytes: report.scanned_bytes,
    })
}

fn report_from_proto(report: proto::Report) -> Result<TaskReport> {
    let missing = || invalid("a task's report");
    let exchange = report.exchange.ok_or_else(missing)?;
    let metric = |metric: proto::Metric| OperatorMetric {
        operator: metric.operator,
        operator_name: metric.operator_name,
        name: metric.name,
        value: metric.value,
    };
    Ok(TaskReport {
        output: output_from_proto(report.output.ok_or_else(missing)?),
        keys: report.keys.into_iter().map(keys_from_proto).collect::<Result<_>>()?,
        exchange: ExchangeTotals {
            local_bytes: exchange.local_bytes,
            remote_bytes: exchange.remote_bytes,
            local_rows: exchange.local_rows,
            remote_rows: exchange.remote_rows,
            channels: exchange.channels,
            wait_ns: exchange.wait_ns,
            dropped_early: exchange.dropped_early,
        },
        metrics: report.metrics.into_iter().map(metric).collect(),
        elapsed_ms: report.elapsed_ms,
        cpu_us: report.cpu_us,
        scanned_bytes: report.scanned_bytes,
    })
}

fn output_to_proto(output: &OutputSummary) -> proto::Output {
    let partition = |p: &PartitionSummary| proto::Partition { rows: p.rows, bytes: p.bytes, blocks: p.blocks };
    proto::Output { partitions: output.partitions.iter().map(partition).collect(), spilled_bytes: output.spilled_bytes }
}

fn output_from_proto(output: proto::Output) -> OutputSummary {
    let partition = |p: proto::Partition| PartitionSummary { rows: p.rows, bytes: p.bytes, blocks: p.blocks };
    OutputSummary {
        partitions: output.partitions.into_iter().map(partition).collect(),
        spilled_bytes: output.spilled_bytes,
    }
}

impl WireMessage for OutputSummary {
    fn to_bytes(&self) -> Result<Bytes> {
        Ok(output_to_proto(self).encode_to_vec().into())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        decode(bytes, "an output's summary").map(output_from_proto)
    }
}

fn keys_to_proto(keys: &KeySummary) -> Result<proto::Keys> {
    let column = |column: &ColumnKeys| -> Result<proto::Column> {
        let range = match &column.range {
            Some((low, high)) => vec![scalar_to_bytes(low)?, scalar_to_bytes(high)?],
            None => vec![],
        };
        let values = match &column.values {
            Some(values) => Some(proto::Values { values: values.iter().map(scalar_to_bytes).collect::<Result<_>>()? }),
            None => None,
        };
        Ok(proto::Column { range, values })
    };
    Ok(proto::Keys { columns: keys.columns.iter().map(column).collect::<Result<_>>()? })
}

fn keys_from_proto(keys: proto::Keys) -> Result<KeySummary> {
    let column = |column: proto::Column| -> Result<ColumnKeys> {
        let range = match column.range.as_slice() {
            [] => None,
            [low, high] => Some((scalar_from_bytes(low)?, scalar_from_bytes(high)?)),
            _ => return Err(invalid("a range of keys")),
        };
        let values = match column.values {
            Some(values) => Some(values.values.iter().map(scalar_from_bytes).collect::<Result<_>>()?),
            None => None,
        };
        Ok(ColumnKeys { range, values })
    };
    Ok(KeySummary { columns: keys.columns.into_iter().map(column).collect::<Result<_>>()? })
}

/// Field numbers of `ScalarValue` that hold other values or Arrow messages: NULL of a type, lists, struct, map,
/// dictionary, union, run-end encoded.
const NESTED_SCALARS: [u32; 11] = [33, 16, 17, 18, 46, 47, 32, 41, 27, 42, 45];

/// A dictionary's value travels as the plain value.
fn scalar_to_bytes(value: &ScalarValue) -> Result<Bytes> {
    let mut value = value;
    while let ScalarValue::Dictionary(_, inner) = value {
        value = inner;
    }
    let encoded = protobuf::ScalarValue::try_from(value).map_err(|error| VolleyError::internal(error.to_string()))?;
    let bytes = Bytes::from(encoded.encode_to_vec());
    if !is_leaf(&bytes) {
        return Err(VolleyError::internal(format!("a key of type {} cannot be sent", value.data_type())));
    }
    Ok(bytes)
}

fn scalar_from_bytes(bytes: &Bytes) -> Result<ScalarValue> {
    const WHAT: &str = "a key's value";
    if !is_leaf(bytes) {
        return Err(invalid(WHAT));
    }
    let value: protobuf::ScalarValue = decode(bytes, WHAT)?;
    // DataFusion's conversion panics on a decimal of another length.
    let decimal = match &value.value {
        Some(Value::Decimal32Value(decimal)) => Some((decimal.value.len(), 4)),
        Some(Value::Decimal64Value(decimal)) => Some((decimal.value.len(), 8)),
        Some(Value::Decimal128Value(decimal)) => Some((decimal.value.len(), 16)),
        Some(Value::Decimal256Value(decimal)) => Some((decimal.value.len(), 32)),
        _ => None,
    };
    if decimal.is_some_and(|(length, expected)| length != expected) {
        return Err(invalid(WHAT));
    }
    ScalarValue::try_from(&value).map_err(|error| invalid(WHAT).with_source(error.to_string()))
}

/// Whether all fields of this `ScalarValue` are leaves. Looked at before decoding, which would recurse.
fn is_leaf(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let Ok((first, _)) = decode_key(&mut rest) else { return false };
    if NESTED_SCALARS.contains(&first) {
        return false;
    }
    // One field, and nothing after it that could replace it.
    let mut rest = bytes;
    let skipped = decode_key(&mut rest).is_ok_and(|(_, wire_type)| match wire_type {
        WireType::Varint => prost::encoding::decode_varint(&mut rest).is_ok(),
        WireType::SixtyFourBit => rest.split_off(..8).is_some(),
        WireType::ThirtyTwoBit => rest.split_off(..4).is_some(),
        WireType::LengthDelimited => prost::encoding::decode_varint(&mut rest)
            .is_ok_and(|length| usize::try_from(length).is_ok_and(|length| rest.split_off(..length).is_some())),
        _ => false,
    });
    skipped && rest.is_empty()
}

pub(super) fn error_to_proto(error: &VolleyError) -> proto::Error {
    let error = error.clone_without_source();
    proto::Error {
        code: error.code.as_str().into(),
        message: error.message,
        lost_output: error.lost_output.as_ref().map(attempt_to_proto),
    }
}

pub(super) fn error_from_proto(error: proto::Error) -> Result<VolleyError> {
    let lost_output = match &error.lost_output {
        Some(output) => Some(attempt_from_proto(Some(output))?),
        None => None,
    };
    // A code that we do not know comes from another version, which the handshake should have refused.
    let code = ErrorCode::parse(&error.code).unwrap_or(ErrorCode::Internal);
    Ok(VolleyError { code, message: error.message, lost_output, source: None })
}

impl WireMessage for ExecutorInfo {
    fn to_bytes(&self) -> Result<Bytes> {
        let info = proto::Info {
            id: bytes_of(self.id.0),
            endpoint: self.endpoint.to_string(),
            slots: self.slots,
            build: self.build.clone(),
            pid: self.pid,
            functions: self.functions.clone(),
        };
        Ok(info.encode_to_vec().into())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let info: proto::Info = decode(bytes, "an executor's handshake")?;
        Ok(Self {
            id: ExecutorId(id_of(&info.id, "an executor id")?),
            endpoint: info.endpoint.into(),
            slots: info.slots,
            build: info.build,
            pid: info.pid,
            functions: info.functions,
        })
    }
}

impl WireMessage for QueryScope {
    fn to_bytes(&self) -> Result<Bytes> {
        let scope = proto::QueryScope { query: bytes_of(self.query.0), stage: self.stage.map(|stage| stage.0) };
        Ok(scope.encode_to_vec().into())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let scope: proto::QueryScope = decode(bytes, "a query's name")?;
        Ok(Self { query: QueryId(id_of(&scope.query, "a query id")?), stage: scope.stage.map(StageId) })
    }
}

impl WireMessage for UploadRequest {
    fn to_bytes(&self) -> Result<Bytes> {
        let upload = proto::Upload { attempt: Some(attempt_to_proto(&self.attempt)), partitions: self.partitions };
        Ok(upload.encode_to_vec().into())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let upload: proto::Upload = decode(bytes, "an upload")?;
        if !(1..=super::ticket::MAX_PARTITIONS).contains(&upload.partitions) {
            return Err(invalid("the number of an upload's partitions"));
        }
        Ok(Self { attempt: attempt_from_proto(upload.attempt.as_ref())?, partitions: upload.partitions })
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::config::BodyCodec;
    use crate::wire::{StreamNote, Ticket};

    fn attempt() -> TaskAttempt {
        TaskAttempt { query: QueryId(1 << 100), stage: StageId(3), task: TaskId(4), attempt: AttemptId(5) }
    }

    fn definition() -> TaskDefinition {
        let output = |task| OutputLocation {
            task: TaskId(task),
            attempt: AttemptId(1),
            executor: ExecutorId(99),
            endpoint: "127.0.0.1:50051".into(),
            rows: Arc::new(vec![1, 0, u64::MAX]),
        };
        TaskDefinition {
            id: attempt(),
            plan: Bytes::from_static(b"plan"),
            options: Arc::new(vec![("volley.codec".into(), "lz4".into())]),
            inputs: vec![StageInput { stage: StageId(2), outputs: vec![output(0), output(7)] }],
        }
    }

    fn report() -> TaskReport {
        let value = |v: i64| ScalarValue::Int64(Some(v));
        let columns = vec![
            ColumnKeys { range: Some((value(-1), value(9))), values: Some(vec![value(-1), value(9)]) },
            ColumnKeys { range: None, values: Some(vec![]) },
            ColumnKeys {
                range: Some((ScalarValue::Decimal128(Some(1), 10, 2), ScalarValue::Decimal128(Some(2), 10, 2))),
                values: None,
            },
            ColumnKeys {
                range: Some((ScalarValue::from("a"), ScalarValue::Utf8View(Some("b".into())))),
                values: Some(vec![ScalarValue::Boolean(Some(false)), ScalarValue::Float64(Some(0.0))]),
            },
        ];
        TaskReport {
            output: OutputSummary {
                partitions: vec![PartitionSummary { rows: 1, bytes: 2, blocks: 3 }, PartitionSummary::default()],
                spilled_bytes: 4,
            },
            keys: vec![KeySummary { columns }],
            exchange: ExchangeTotals { local_bytes: 1, remote_bytes: 2, channels: 3, ..Default::default() },
            metrics: vec![OperatorMetric {
                operator: 1,
                operator_name: "FilterExec".into(),
                name: "output_rows".into(),
                value: 7,
            }],
            elapsed_ms: 5,
            cpu_us: 6,
            scanned_bytes: 7,
        }
    }

    /// Bytes of every kind of message, and what decodes them.
    #[expect(clippy::type_complexity, reason = "a table of a test")]
    fn samples() -> Vec<(Bytes, Box<dyn Fn(&[u8]) -> Option<Bytes>>)> {
        fn of<M: WireMessage + 'static>(message: M) -> (Bytes, Box<dyn Fn(&[u8]) -> Option<Bytes>>) {
            let decode = |bytes: &[u8]| M::from_bytes(bytes).ok().map(|again| again.to_bytes().unwrap());
            (message.to_bytes().unwrap(), Box::new(decode))
        }
        let error = VolleyError::new(ErrorCode::OutputLost, "gone").with_lost_output(attempt());
        let ticket = Ticket {
            query: QueryId(5),
            stage: StageId(1),
            outputs: vec![(TaskId(0), AttemptId(0)), (TaskId(1), AttemptId(2))],
            partitions: 3..5,
            first_block: 2,
            codec: BodyCodec::Zstd { level: 3 },
        };
        vec![
            of(definition()),
            of(TaskEvent::Progress { rows: 1, bytes: 2 }),
            of(TaskEvent::Finished(Box::new(report()))),
            of(TaskEvent::Failed(error)),
            of(ExecutorInfo {
                id: ExecutorId(3),
                endpoint: "host:1".into(),
                slots: 4,
                build: "b".into(),
                pid: 5,
                functions: vec!["abs".into()],
            }),
            of(QueryScope { query: QueryId(8), stage: Some(StageId(0)) }),
            of(UploadRequest { attempt: attempt(), partitions: 7 }),
            of(report().output),
            of(ticket),
            of(StreamNote::Data { sequence: 3, crc32: 4, partition: 5 }),
            of(StreamNote::Digest { messages: 1, rows: 2, bytes: 3, checksum: 4 }),
        ]
    }

    fn same<T: Debug>(a: &T, b: &T) {
        assert_eq!(format!("{a:?}"), format!("{b:?}"));
    }

    #[test]
    fn structs_round_trip() {
        let task = definition();
        same(&TaskDefinition::from_bytes(&task.to_bytes().unwrap()).unwrap(), &task);
        let event = TaskEvent::Finished(Box::new(report()));
        same(&TaskEvent::from_bytes(&event.to_bytes().unwrap()).unwrap(), &event);
        for (bytes, decode) in samples() {
            assert_eq!(decode(&bytes), Some(bytes));
        }
    }

    #[test]
    fn nested_keys_are_refused_before_they_are_decoded() {
        let list = ScalarValue::List(ScalarValue::new_list_nullable(
            &[ScalarValue::Int64(Some(1))],
            &datafusion::arrow::datatypes::DataType::Int64,
        ));
        assert!(scalar_to_bytes(&list).is_err());
        let nested = protobuf::ScalarValue::try_from(&list).unwrap().encode_to_vec();
        assert!(scalar_from_bytes(&nested.into()).is_err());
        let dictionary = ScalarValue::Dictionary(
            Box::new(datafusion::arrow::datatypes::DataType::Int8),
            Box::new(ScalarValue::from("x")),
        );
        assert_eq!(scalar_from_bytes(&scalar_to_bytes(&dictionary).unwrap()).unwrap(), ScalarValue::from("x"));
    }

    #[test]
    fn random_and_damaged_bytes_never_panic() {
        let mut random = StdRng::seed_from_u64(2);
        for (sample, decode) in samples() {
            for round in 0..20_000 {
                let mut bytes = if round % 4 == 0 {
                    (0..random.random_range(0..64)).map(|_| random.random()).collect()
                } else {
                    sample.to_vec()
                };
                for _ in 0..random.random_range(0..4) {
                    if bytes.is_empty() {
                        break;
                    }
                    let at = random.random_range(0..bytes.len());
                    match random.random_range(0..3) {
                        0 => bytes[at] = random.random(),
                        1 => bytes.truncate(at),
                        _ => bytes.insert(at, random.random()),
                    }
                }
                decode(&bytes);
            }
        }
    }
}
