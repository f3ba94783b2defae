//! One contract over every way a partition reaches its reader: the own store in memory, the own store on disk, and
//! Flight over a loopback connection, with each codec; then what happens when the way is bad.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, Int64Array, RecordBatch, RecordBatchOptions, StringArray, StringViewArray,
};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{Int8Type, Schema, SchemaRef};
use datafusion_volley::config::{Bytes, VolleyOptions};
use datafusion_volley::control::{ControlOptions, ExecutorControl, FlightControl, Lease, TaskEvents};
use datafusion_volley::error::{ErrorClass, ErrorCode, Result, VolleyError};
use datafusion_volley::exchange::{ExchangeClient, ExchangeOptions, ShuffleSource, TaskExchange};
use datafusion_volley::executor::{FlightServer, ServerOptions, TaskHost, serve};
use datafusion_volley::ids::{AttemptId, ExecutorId, PartitionId, QueryId, StageId, TaskAttempt, TaskId};
use datafusion_volley::shuffle::{ShuffleStore, StoreOptions, WriterOptions};
use datafusion_volley::wire::{
    ExecutorInfo, OutputLocation, OutputSummary, StageInput, TaskDefinition, TaskEvent, TaskReport, Ticket, Token,
    UploadRequest, WireMessage,
};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

const QUERY: QueryId = QueryId(42);
const STAGE: StageId = StageId(3);
const STALL: Duration = Duration::from_secs(2);

fn attempt(task: u32) -> TaskAttempt {
    TaskAttempt { query: QUERY, stage: STAGE, task: TaskId(task), attempt: AttemptId(0) }
}

/// An executor's server without a task runtime: a launch reports progress and never ends.
#[derive(Debug)]
struct Host {
    store: Arc<ShuffleStore>,
    /// Leases held and tasks alive.
    held: watch::Sender<i32>,
}

#[derive(Debug)]
struct Held(watch::Sender<i32>);

impl Held {
    fn new(counter: &watch::Sender<i32>) -> Self {
        counter.send_modify(|count| *count += 1);
        Self(counter.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Lease for Held {}

#[async_trait]
impl TaskHost for Host {
    fn handshake(&self) -> ExecutorInfo {
        ExecutorInfo {
            id: ExecutorId(1),
            endpoint: "here".into(),
            slots: 2,
            build: "test".into(),
            pid: 1,
            functions: vec!["abs".into()],
        }
    }

    async fn launch(&self, task: TaskDefinition) -> Result<TaskEvents> {
        let held = Held::new(&self.held);
        let progress = || Ok(TaskEvent::Progress { rows: 1, bytes: 2 });
        Ok(match task.plan.as_ref() {
            b"finish" => {
                let report = TaskReport { elapsed_ms: 5, ..TaskReport::default() };
                stream::iter([progress(), Ok(TaskEvent::Finished(Box::new(report)))]).boxed()
            }
            b"refuse" => return Err(VolleyError::new(ErrorCode::DecodePlan, "cannot")),
            b"vanish" => stream::iter([progress()]).boxed(),
            _ => stream::iter([progress()])
                .chain(stream::pending())
                .map(move |event| {
                    let _ = &held;
                    event
                })
                .boxed(),
        })
    }

    fn lease(&self, _query: QueryId) -> Result<Box<dyn Lease>> {
        Ok(Box::new(Held::new(&self.held)))
    }

    async fn free(&self, query: QueryId, stage: Option<StageId>) -> Result<()> {
        self.store.free(query, stage);
        Ok(())
    }
}

struct Executor {
    store: Arc<ShuffleStore>,
    endpoint: Arc<str>,
    held: watch::Receiver<i32>,
    tasks: JoinSet<()>,
    _dir: tempfile::TempDir,
}

const TOKEN: &str = "the-token";

impl Executor {
    async fn start(memory_bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { memory_bytes, work_dir: dir.path().into(), disk_limit_bytes: 1 << 30 };
        let store = ShuffleStore::try_new(options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = listener.local_addr().unwrap().to_string().into();
        let (sender, held) = watch::channel(0);
        let host = Arc::new(Host { store: Arc::clone(&store), held: sender });
        let options = ServerOptions::new(Token::new(TOKEN).unwrap());
        let server = FlightServer::new(host, Arc::clone(&store), Handle::current(), options);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { serve(listener, server, std::future::pending()).await.unwrap() });
        Self { store, endpoint, held, tasks, _dir: dir }
    }

    /// Stores tasks, each with the batches of its partitions.
    fn store(&self, tasks: &[Vec<Vec<RecordBatch>>], schema: &SchemaRef) -> Vec<OutputSummary> {
        let mut summaries = vec![];
        for (task, partitions) in tasks.iter().enumerate() {
            let writer = self
                .store
                .writer(attempt(task as u32), Arc::clone(schema), partitions.len(), 1, WriterOptions::default())
                .unwrap();
            let mut producer = writer.producer(0).unwrap();
            for (partition, batches) in partitions.iter().enumerate() {
                for batch in batches {
                    producer.push(PartitionId(partition as u32), batch.clone()).unwrap();
                }
            }
            producer.finish().unwrap();
            summaries.push(writer.commit().unwrap());
        }
        summaries
    }
}

fn locations(summaries: &[OutputSummary], endpoint: &Arc<str>) -> Vec<StageInput> {
    let outputs = summaries
        .iter()
        .enumerate()
        .map(|(task, summary)| OutputLocation {
            task: TaskId(task as u32),
            attempt: AttemptId(0),
            executor: ExecutorId(1),
            endpoint: Arc::clone(endpoint),
            rows: Arc::new(summary.partitions.iter().map(|partition| partition.rows).collect()),
        })
        .collect();
    vec![StageInput { stage: STAGE, outputs }]
}

fn options(codec: &str) -> ExchangeOptions {
    let options =
        VolleyOptions { codec: codec.parse().unwrap(), message_bytes: Bytes::kib(64), ..VolleyOptions::default() };
    ExchangeOptions { stall_timeout: STALL, connect_timeout: STALL, ..ExchangeOptions::of(&options) }
}

fn client(token: &str) -> Arc<ExchangeClient> {
    ExchangeClient::new(Handle::current(), Token::new(token).unwrap())
}

fn remote(inputs: Vec<StageInput>, codec: &str) -> TaskExchange {
    TaskExchange::new(client(TOKEN), None, QUERY, inputs, options(codec))
}

async fn read(exchange: &TaskExchange, partition: u32, schema: &SchemaRef) -> Result<RecordBatch> {
    let stream = exchange.read(STAGE, PartitionId(partition), Arc::clone(schema))?;
    let batches: Vec<RecordBatch> = stream.try_collect().await.map_err(VolleyError::from)?;
    Ok(concat_batches(schema, &batches).unwrap())
}

fn plain(first: i64, rows: usize) -> RecordBatch {
    let numbers = || first..first + rows as i64;
    let text = |v: i64| (v % 5 != 0).then(|| format!("text {} that is longer than a view", v));
    let dictionary: DictionaryArray<Int8Type> = numbers().map(|v| Some(["a", "b", "c"][v as usize % 3])).collect();
    let columns: [(&str, ArrayRef); 5] = [
        ("n", Arc::new(Int64Array::from_iter_values(numbers()))),
        ("b", Arc::new(BooleanArray::from_iter(numbers().map(|v| (v % 3 != 0).then_some(v % 2 == 0))))),
        ("s", Arc::new(StringArray::from_iter(numbers().map(text)))),
        ("v", Arc::new(StringViewArray::from_iter(numbers().map(text)))),
        ("d", Arc::new(dictionary)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

fn without_columns(rows: usize) -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap()
}

fn large_string() -> RecordBatch {
    let text: ArrayRef = Arc::new(StringViewArray::from(vec!["x".repeat(5 << 20), "small".into()]));
    RecordBatch::try_from_iter([("t", text)]).unwrap()
}

/// What the tasks wrote is read, equal and in order, by every way.
async fn check(tasks: Vec<Vec<Vec<RecordBatch>>>, schema: SchemaRef) {
    for memory in [1 << 30, 0] {
        let executor = Executor::start(memory).await;
        let summaries = executor.store(&tasks, &schema);
        let inputs = locations(&summaries, &executor.endpoint);
        let own = Some((ExecutorId(1), Arc::clone(&executor.store)));
        let mut ways = vec![TaskExchange::new(client(TOKEN), own, QUERY, inputs.clone(), options("none"))];
        ways.extend(["none", "lz4", "zstd(3)"].map(|codec| remote(inputs.clone(), codec)));
        for (way, exchange) in ways.iter().enumerate() {
            let mut rows = 0;
            for partition in 0..tasks[0].len() {
                let expected: Vec<_> = tasks.iter().flat_map(|partitions| &partitions[partition]).collect();
                let expected = concat_batches(&schema, expected.iter().copied()).unwrap();
                let found = read(exchange, partition as u32, &schema).await.unwrap();
                assert_eq!(found, expected, "memory {memory}, way {way}, partition {partition}");
                rows += found.num_rows() as u64;
            }
            let totals = exchange.totals().snapshot();
            let (local, remote) = if way == 0 { (rows, 0) } else { (0, rows) };
            assert_eq!((totals.local_rows, totals.remote_rows, totals.dropped_early), (local, remote, 0));
            for task in exchange.tasks(STAGE).unwrap() {
                let stream = exchange.read_task(STAGE, task, PartitionId(0), Arc::clone(&schema)).unwrap();
                let found: Vec<_> = stream.try_collect().await.unwrap();
                let expected = concat_batches(&schema, &tasks[task.index()][0]).unwrap();
                assert_eq!(concat_batches(&schema, &found).unwrap(), expected);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_equal_and_ordered_by_every_way() {
    let schema = plain(0, 1).schema();
    let task = |task: i64| {
        let base = task * 1_000_000;
        let batches = |from: i64| (0..6).map(|step| plain(base + from + step * 5_000, 3_000 + step as usize)).collect();
        vec![batches(0), vec![], batches(100_000), vec![plain(base, 1)]]
    };
    check((0..3).map(task).collect(), schema).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_without_columns_and_large_strings() {
    let rows = without_columns(10_000);
    check(vec![vec![vec![rows.clone(), without_columns(1)]], vec![vec![rows.clone()]]], rows.schema()).await;
    let large = large_string();
    check(vec![vec![vec![large.clone()], vec![large.clone()]]], large.schema()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_unread_streams_do_not_starve_the_one_that_is_read() {
    let schema = plain(0, 1).schema();
    let executor = Executor::start(1 << 30).await;
    let partitions: Vec<_> = (0..80).map(|p| (0..16).map(|b| plain(p * 1_000 + b, 2_000)).collect()).collect();
    let summaries = executor.store(&[partitions], &schema);
    let exchange = remote(locations(&summaries, &executor.endpoint), "none");
    let mut streams = vec![];
    for partition in 0..80 {
        let mut stream = exchange.read(STAGE, PartitionId(partition), Arc::clone(&schema)).unwrap();
        let first = stream.next().await.unwrap().unwrap();
        streams.push((first.num_rows(), stream));
    }
    assert!(exchange.totals().snapshot().channels > 1, "80 open streams need more than one channel");
    while let Some((mut rows, mut stream)) = streams.pop() {
        while let Some(batch) = stream.next().await {
            rows += batch.unwrap().num_rows();
        }
        assert_eq!(rows, 32_000);
    }
    let mut early = exchange.read(STAGE, PartitionId(0), Arc::clone(&schema)).unwrap();
    early.next().await.unwrap().unwrap();
    drop(early);
    assert_eq!(exchange.totals().snapshot().dropped_early, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stock_flight_client_reads_a_partition() {
    let schema = plain(0, 1).schema();
    let executor = Executor::start(1 << 30).await;
    let batches: Vec<_> = (0..5).map(|step| plain(step * 10_000, 8_000)).collect();
    executor.store(&[vec![batches.clone(), vec![]]], &schema);
    let ticket = |partition: u32| Ticket {
        query: QUERY,
        stage: STAGE,
        outputs: vec![(TaskId(0), AttemptId(0))],
        partitions: partition..partition + 1,
        first_block: 0,
        codec: "lz4".parse().unwrap(),
    };
    let ticket = |partition| arrow_flight::Ticket { ticket: ticket(partition).to_bytes().unwrap() };
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", executor.endpoint))
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut flight = arrow_flight::FlightClient::new(channel);
    flight.add_header("authorization", &format!("Bearer {TOKEN}")).unwrap();
    let descriptor = arrow_flight::FlightDescriptor::new_cmd(ticket(0).ticket);
    let info = flight.get_flight_info(descriptor).await.unwrap();
    assert_eq!((info.total_records, info.clone().try_decode_schema().unwrap().fields().len()), (40_000, 5));
    let found: Vec<RecordBatch> = flight.do_get(ticket(0)).await.unwrap().try_collect().await.unwrap();
    assert_eq!(concat_batches(&schema, &found).unwrap(), concat_batches(&schema, &batches).unwrap());
    let found: Vec<RecordBatch> = flight.do_get(ticket(1)).await.unwrap().try_collect().await.unwrap();
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_outputs_and_wrong_counts_are_typed() {
    let schema = plain(0, 1).schema();
    let executor = Executor::start(1 << 30).await;
    let summaries = executor.store(&[vec![vec![plain(0, 100)]], vec![vec![plain(0, 100)]]], &schema);
    let inputs = locations(&summaries, &executor.endpoint);
    let own = || Some((ExecutorId(1), Arc::clone(&executor.store)));
    let local = |inputs| TaskExchange::new(client(TOKEN), own(), QUERY, inputs, options("none"));

    let mut wrong = inputs.clone();
    wrong[0].outputs[1].rows = Arc::new(vec![99]);
    for exchange in [remote(wrong.clone(), "none"), local(wrong)] {
        let error = read(&exchange, 0, &schema).await.unwrap_err();
        assert_eq!((error.code, error.class()), (ErrorCode::Truncated, ErrorClass::RerunProducer));
        assert!(error.lost_output.is_some());
    }

    executor.store.free_attempt(attempt(1));
    for exchange in [remote(inputs.clone(), "none"), local(inputs.clone())] {
        let error = read(&exchange, 0, &schema).await.unwrap_err();
        assert_eq!((error.code, error.lost_output), (ErrorCode::OutputLost, Some(attempt(1))));
    }

    let stranger = TaskExchange::new(client("another"), None, QUERY, inputs, options("none"));
    let error = read(&stranger, 0, &schema).await.unwrap_err();
    assert_eq!((error.code, error.class()), (ErrorCode::Unauthenticated, ErrorClass::Fatal));
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Flips a bit of the payload.
    Flip,
    /// Closes the connection.
    Cut,
    /// Keeps it open and forwards nothing more.
    Silence,
}

/// Forwards to `target`; after 2 MiB from it, the fault.
async fn proxy(target: Arc<str>, fault: Fault) -> (Arc<str>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string().into();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&*target).await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            connections.spawn(async move {
                let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
            });
            connections.spawn(async move {
                let (mut forwarded, mut done) = (0, false);
                let mut buffer = vec![0; 64 << 10];
                while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
                    if forwarded > 2 << 20 && !done {
                        match fault {
                            Fault::Flip => {
                                if let Some(byte) = buffer[..length].iter_mut().find(|byte| **byte == b'x') {
                                    *byte = b'y';
                                    done = true;
                                }
                            }
                            Fault::Cut => return,
                            Fault::Silence => std::future::pending().await,
                        }
                    }
                    forwarded += length;
                    if to_client.write_all(&buffer[..length]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (endpoint, tasks)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_connections_give_typed_errors_within_the_deadline() {
    let large = large_string();
    let executor = Executor::start(1 << 30).await;
    let summaries = executor.store(&[vec![vec![large.clone()]]], &large.schema());
    for (fault, expect) in [
        (Fault::Flip, ErrorCode::Corrupt),
        (Fault::Cut, ErrorCode::Unreachable),
        (Fault::Silence, ErrorCode::DeadlineExceeded),
    ] {
        let (endpoint, _proxy) = proxy(Arc::clone(&executor.endpoint), fault).await;
        let exchange = remote(locations(&summaries, &endpoint), "none");
        let started = Instant::now();
        let error = read(&exchange, 0, &large.schema()).await.unwrap_err();
        assert_eq!(error.code, expect, "{fault:?}: {error}");
        assert_eq!(error.lost_output.is_some(), fault == Fault::Flip);
        assert!(started.elapsed() < STALL * 2, "{fault:?} took {:?}", started.elapsed());
    }
    // A peer that is killed.
    let mut executor = executor;
    let inputs = locations(&summaries, &executor.endpoint);
    executor.tasks.shutdown().await;
    let error = read(&remote(inputs, "none"), 0, &large.schema()).await.unwrap_err();
    assert_eq!((error.code, error.class()), (ErrorCode::Unreachable, ErrorClass::RetryTask));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_are_committed_whole_or_not_at_all() {
    let schema = plain(0, 1).schema();
    let executor = Executor::start(1 << 30).await;
    let upload = |task, rows: Vec<Result<(PartitionId, RecordBatch)>>| {
        let request = UploadRequest { attempt: attempt(task), partitions: 2 };
        let (endpoint, schema) = (Arc::clone(&executor.endpoint), Arc::clone(&schema));
        async move { client(TOKEN).upload(endpoint, request, schema, stream::iter(rows).boxed(), options("lz4")).await }
    };
    let rows = || (0..10).map(|step| Ok((PartitionId(step % 2), plain(step as i64 * 10_000, 9_000))));
    let summary = upload(0, rows().collect()).await.unwrap();
    assert_eq!(summary.partitions.iter().map(|p| p.rows).collect::<Vec<_>>(), [45_000, 45_000]);
    let exchange = remote(locations(&[summary], &executor.endpoint), "none");
    let expected: Vec<_> = rows().filter_map(Result::ok).filter(|(p, _)| p.0 == 1).map(|(_, batch)| batch).collect();
    assert_eq!(read(&exchange, 1, &schema).await.unwrap(), concat_batches(&schema, &expected).unwrap());

    let error = upload(1, rows().chain([Err(VolleyError::new(ErrorCode::TaskFailed, "own"))]).collect()).await;
    assert_eq!(error.unwrap_err().code, ErrorCode::TaskFailed);
    let error = upload(2, vec![Ok((PartitionId(7), plain(0, 1)))]).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidRequest);
    let error = upload(0, vec![]).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Internal, "the attempt has an output");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(executor.store.stats().outputs, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_launches_cancels_leases_and_frees() {
    let mut executor = Executor::start(1 << 30).await;
    let deadlines = ControlOptions { connect_timeout: STALL, stall_timeout: STALL };
    let control = |endpoint: &Arc<str>, token: &str| {
        FlightControl::new(Arc::clone(endpoint), Token::new(token).unwrap(), Handle::current(), deadlines)
    };
    let launch = |plan: &'static [u8]| TaskDefinition {
        id: attempt(0),
        plan: plan.into(),
        options: Arc::default(),
        inputs: vec![],
    };
    let session = control(&executor.endpoint, TOKEN);
    assert_eq!(session.handshake().await.unwrap().slots, 2);
    assert_eq!(control(&executor.endpoint, "x").handshake().await.unwrap_err().code, ErrorCode::Unauthenticated);
    assert_eq!(control(&"127.0.0.1:1".into(), "x").handshake().await.unwrap_err().code, ErrorCode::Unreachable);

    let events: Vec<_> = session.launch(launch(b"finish")).await.unwrap().collect().await;
    assert!(
        matches!(events.as_slice(), [Ok(TaskEvent::Progress { .. }), Ok(TaskEvent::Finished(report))] if report.elapsed_ms == 5)
    );
    let refused = session.launch(launch(b"refuse")).await.err().unwrap();
    assert_eq!((refused.code, refused.class()), (ErrorCode::DecodePlan, ErrorClass::RunInSession));
    let events: Vec<_> = session.launch(launch(b"vanish")).await.unwrap().collect().await;
    assert!(matches!(events.last(), Some(Err(error)) if error.code == ErrorCode::AttemptLost));

    // A dropped stream cancels its task; a dropped lease ends.
    let mut events = session.launch(launch(b"run")).await.unwrap();
    events.next().await.unwrap().unwrap();
    let lease = session.lease(QUERY).await.unwrap();
    assert_eq!(*executor.held.borrow(), 2);
    drop((events, lease));
    let none_held = executor.held.wait_for(|count| *count == 0);
    tokio::time::timeout(Duration::from_secs(1), none_held).await.unwrap().unwrap();

    // A silent task is lost after the deadline.
    let started = Instant::now();
    let events: Vec<_> = session.launch(launch(b"run")).await.unwrap().collect().await;
    assert!(matches!(events.last(), Some(Err(error)) if error.code == ErrorCode::AttemptLost));
    assert!(started.elapsed() >= STALL && started.elapsed() < STALL * 2);

    let schema = plain(0, 1).schema();
    executor.store(&[vec![vec![plain(0, 5)]]], &schema);
    session.free(QUERY, Some(StageId(99))).await.unwrap();
    assert_eq!(executor.store.stats().outputs, 1);
    session.free(QUERY, None).await.unwrap();
    assert_eq!(executor.store.stats().outputs, 0);

    // Closing the server ends what is open, promptly and with a reason.
    let mut events = session.launch(launch(b"run")).await.unwrap();
    events.next().await.unwrap().unwrap();
    executor.tasks.abort_all();
    let last = tokio::time::timeout(Duration::from_secs(1), events.next()).await.unwrap().unwrap();
    assert_eq!(last.unwrap_err().class(), ErrorClass::RetryTask);
}
