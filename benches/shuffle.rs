//! Writing shuffle partitions, and encoding and decoding blocks.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::col;
use datafusion_volley::config::BodyCodec;
use datafusion_volley::ids::{AttemptId, QueryId, StageId, TaskAttempt, TaskId};
use datafusion_volley::shuffle::{
    BlockDecoder, BlockEncoder, BlockLimits, RowPartitioner, ShuffleStore, StoreOptions, WriterOptions,
};

const ROWS: usize = 8_192;

/// Ten columns of whole numbers and ten of strings.
fn frame() -> RecordBatch {
    let mut fields = vec![];
    let mut columns: Vec<ArrayRef> = vec![];
    for column in 0..10 {
        fields.push(Field::new(format!("i{column}"), DataType::Int32, false));
        columns.push(Arc::new(Int32Array::from_iter_values((0..ROWS).map(|row| (row * 31 + column * 7) as i32))));
        fields.push(Field::new(format!("s{column}"), DataType::Utf8, false));
        columns.push(Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("value {}", row % 977)))));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("a frame")
}

fn write(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a folder");
    let store = ShuffleStore::try_new(StoreOptions {
        memory_bytes: 4 << 30,
        work_dir: dir.path().to_path_buf(),
        disk_limit_bytes: 1 << 30,
    })
    .expect("a store");
    let batch = frame();
    let mut group = c.benchmark_group("write");
    let batches = 32;
    group.throughput(Throughput::Elements((batches * ROWS) as u64)).sample_size(10);
    for partitions in [2usize, 16, 200] {
        group.bench_function(BenchmarkId::from_parameter(partitions), |b| {
            b.iter(|| {
                let query = QueryId::random();
                let attempt = TaskAttempt { query, stage: StageId(0), task: TaskId(0), attempt: AttemptId(0) };
                let output =
                    store.writer(attempt, batch.schema(), partitions, 1, WriterOptions::default()).expect("an output");
                let mut producer = output.producer(0).expect("a producer");
                let keys = vec![col("i0", &batch.schema()).expect("a column")];
                let mut partitioner =
                    RowPartitioner::try_new(&Partitioning::Hash(keys, partitions), Default::default()).expect("a hash");
                for _ in 0..batches {
                    partitioner.route(batch.clone(), |partition, rows| producer.push(partition, rows)).expect("room");
                }
                producer.finish().expect("room");
                black_box(output.commit().expect("a commit"));
                store.free(query, None);
            });
        });
    }
    group.finish();
}

fn blocks(c: &mut Criterion) {
    let batch = frame();
    let mut group = c.benchmark_group("block");
    for codec in [BodyCodec::None, BodyCodec::Lz4, BodyCodec::Zstd { level: 1 }] {
        let mut encoder = BlockEncoder::try_new(batch.schema(), codec).expect("an encoder");
        let messages = encoder.encode(&batch).expect("a block");
        group.throughput(Throughput::Bytes(messages.iter().map(|message| message.len() as u64).sum()));
        group.bench_function(BenchmarkId::new("encode", codec), |b| {
            b.iter(|| black_box(encoder.encode(&batch).expect("a block")));
        });
        let mut decoder = BlockDecoder::try_new(batch.schema(), BlockLimits::default()).expect("a decoder");
        group.bench_function(BenchmarkId::new("decode verified", codec), |b| {
            b.iter(|| {
                for message in &messages {
                    black_box(decoder.decode(message).expect("rows"));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, write, blocks);
criterion_main!(benches);
