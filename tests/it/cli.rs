//! The `volley` command from outside: bad input, exit statuses, what it leaves behind.
#![cfg(feature = "cli")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

fn volley(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_volley"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_remove("VOLLEY_TOKEN").env_remove("RUST_LOG");
    command
}

fn output(arguments: &[&str]) -> Output {
    volley(arguments).output().expect("volley can be started")
}

/// Runs `volley` and expects an exit status, and a line on stderr that has all of `words`.
#[track_caller]
fn check(arguments: &[&str], status: i32, words: &[&str]) {
    let output = output(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {stderr}");
    let found = stderr.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(found, "{arguments:?}: no line has {words:?} in {stderr}");
    for trace in ["panicked at", "stack backtrace", "RUST_BACKTRACE"] {
        assert!(!stderr.contains(trace), "{arguments:?}: {stderr}");
    }
}

/// TPC-H at scale 0.01, made once by the command itself, and a folder to write in.
struct Data {
    _dir: TempDir,
    root: PathBuf,
}

static DATA: LazyLock<Data> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let root = dir.path().to_owned();
    let data = root.join("tpch");
    let made = output(&["data", "tpch", "--scale", "0.01", "--data", &text(&data), "--verify"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Data { _dir: dir, root }
});

fn text(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}

impl Data {
    fn tpch(&self) -> String {
        text(&self.root.join("tpch"))
    }

    /// A folder with one file.
    fn folder(&self, name: &str, file: &str, contents: &str) -> String {
        let dir = self.root.join(name);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(file), contents).unwrap();
        text(&dir)
    }

    /// A copy of the tables, to be damaged.
    fn copy(&self, name: &str) -> PathBuf {
        let to = self.root.join(name);
        let from = self.root.join("tpch");
        for entry in fs::read_dir(&from).unwrap() {
            let path = entry.unwrap().path();
            let target = to.join(path.file_name().unwrap());
            if path.is_dir() {
                fs::create_dir_all(&target).unwrap();
                for file in fs::read_dir(&path).unwrap() {
                    let file = file.unwrap().path();
                    fs::copy(&file, target.join(file.file_name().unwrap())).unwrap();
                }
            } else {
                fs::create_dir_all(&to).unwrap();
                fs::copy(&path, &target).unwrap();
            }
        }
        to
    }
}

#[test]
fn what_cannot_be_understood_is_refused_with_what_there_is() {
    let tpch = DATA.tpch();
    let run = |more: &[&str], words: &[&str]| {
        let mut arguments = vec!["tpch", "--scale", "0.01", "--data", tpch.as_str()];
        arguments.extend(more);
        check(&arguments, 2, words);
    };
    run(&["--setting", "x=chanels:2"], &["VOLLEY-SETTING", "chanels", "did you mean channels?"]);
    run(&["--setting", "x=codec:snappy"], &["VOLLEY-SETTING", "snappy", "lz4"]);
    run(&["--setting", "x=datafusion.execution.batchsize:1"], &["did you mean datafusion.execution.batch_size?"]);
    run(&["--legs", "c1,singel"], &["VOLLEY-LEG", "singel", "did you mean single?"]);
    run(&["--legs", "c1", "--baseline", "c2"], &["VOLLEY-LEG", "no leg"]);
    run(&["--query", "q23"], &["VOLLEY-QUERY", "q23", "q22"]);
    run(&["--query", "q9-q3"], &["VOLLEY-QUERY", "backwards"]);
    run(&["--memory", "12 parsecs"], &["VOLLEY-SIZE", "512MiB"]);
    run(&["--timeout", "soon"], &["VOLLEY-DURATION", "soon"]);
    run(&["--local", "0"], &["VOLLEY-USAGE", "--local", "--legs single"]);
    run(&["--iterations", "0"], &["VOLLEY-USAGE", "at least 1"]);
    run(&["--executors", "somewhere"], &["VOLLEY-ADDRESS", "HOST:PORT"]);
    run(&["--executors", "127.0.0.1:1", "--local", "2"], &["VOLLEY-USAGE", "cannot be used with"]);
    run(&["--queries", "/nowhere"], &["VOLLEY-QUERY", "/nowhere"]);
    run(&["--qurey", "q1"], &["VOLLEY-USAGE", "--qurey", "--query"]);
    check(&["tpcx"], 2, &["VOLLEY-USAGE", "tpcx", "tpch"]);
    check(&["tpch", "--scale", "-1"], 2, &["VOLLEY-USAGE"]);
    check(&["tpch", "--scale", "large"], 2, &["VOLLEY-SCALE"]);
    check(&["executor", "--slots", "0"], 2, &["VOLLEY-USAGE", "--slots"]);
    check(&["executor", "--listen", "nowhere"], 2, &["VOLLEY-ADDRESS", "IP:PORT"]);
    check(&["executor", "--listen", "0.0.0.0:0"], 2, &["VOLLEY-OPTION", "token", "--insecure"]);
    check(&["executor", "--token-file", "/nowhere"], 2, &["VOLLEY-TOKEN", "/nowhere"]);
    check(&["sql", "-f", "/nowhere"], 2, &["VOLLEY-FILE", "/nowhere"]);
    check(&["engine-process"], 2, &["volley tpcds"]);
}

#[test]
fn data_that_is_not_what_was_asked_for_is_refused() {
    let refused = |suite: &str, scale: &str, dir: &str, words: &[&str]| {
        check(&[suite, "--scale", scale, "--data", dir, "--quick", "--legs", "single", "--query", "q1"], 2, words);
    };
    refused("tpch", "1", &DATA.tpch(), &["VOLLEY-DATA-SCALE", "0.01"]);
    refused("tpcds", "0.01", &DATA.tpch(), &["VOLLEY-DATA-SUITE", "tpch"]);
    refused("tpch", "0.01", &DATA.folder("foreign", "notes.txt", "mine"), &["VOLLEY-DATA-FOREIGN"]);

    let missing = DATA.copy("missing");
    let file = first_parquet(&missing.join("orders"));
    fs::remove_file(&file).unwrap();
    refused("tpch", "0.01", &text(&missing), &["VOLLEY-DATA-DAMAGED", "orders"]);

    let truncated = DATA.copy("truncated");
    let file = first_parquet(&truncated.join("orders"));
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    refused("tpch", "0.01", &text(&truncated), &["VOLLEY-DATA-DAMAGED", "orders"]);

    // The right size and the wrong bytes: found where it is read.
    let damaged = DATA.copy("damaged");
    let file = first_parquet(&damaged.join("orders"));
    let mut bytes = fs::read(&file).unwrap();
    let end = bytes.len();
    bytes[end - 100..].fill(0);
    fs::write(&file, &bytes).unwrap();
    refused("tpch", "0.01", &text(&damaged), &["VOLLEY-DATA-DAMAGED", "orders"]);
    check(
        &["data", "tpch", "--scale", "0.01", "--data", &text(&damaged), "--verify"],
        2,
        &["VOLLEY-DATA-DAMAGED", "checksum"],
    );
}

fn first_parquet(dir: &Path) -> PathBuf {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).next().unwrap()
}

#[test]
fn queries_that_are_wrong_or_fail_are_told_apart() {
    let tpch = DATA.tpch();
    let run = |name: &str, sql: &str, status: i32, words: &[&str]| {
        let queries = DATA.folder(name, "q1.sql", sql);
        let out = text(&DATA.root.join(format!("{name}-out")));
        let arguments = [
            "tpch",
            "--scale",
            "0.01",
            "--data",
            &tpch,
            "--queries",
            &queries,
            "--quick",
            "--legs",
            "single",
            "--out",
            &out,
        ];
        check(&arguments, status, words);
    };
    run("syntax", "SELECT 1;\nSELEC 2", 2, &["VOLLEY-QUERY-SYNTAX", "q1.sql", "line 2"]);
    run("unknown", "SELECT nothing FROM orders", 3, &["q1", "failed", "nothing"]);
    run("failing", "SELECT o_orderkey / (o_orderkey - o_orderkey) AS x FROM orders", 3, &["q1", "failed", "ivide"]);
    // Differs in each run.
    run("random", "SELECT random() AS r FROM orders", 1, &["q1", "wrong rows"]);
    // An endless one.
    let queries = DATA.folder(
        "endless",
        "q1.sql",
        "SELECT sum(a.l_quantity * b.l_tax) AS s FROM lineitem a CROSS JOIN lineitem b CROSS JOIN lineitem c",
    );
    let out = text(&DATA.root.join("endless-out"));
    let arguments = [
        "tpch",
        "--scale",
        "0.01",
        "--data",
        &tpch,
        "--queries",
        &queries,
        "--quick",
        "--legs",
        "single",
        "--timeout",
        "2",
        "--out",
        &out,
    ];
    check(&arguments, 3, &["q1", "timed out", "2 s"]);
}

#[test]
fn a_cluster_that_is_not_there_is_named() {
    let tpch = DATA.tpch();
    let out = text(&DATA.root.join("absent-out"));
    check(
        &[
            "tpch",
            "--scale",
            "0.01",
            "--data",
            &tpch,
            "--executors",
            "127.0.0.1:1",
            "--quick",
            "--query",
            "q6",
            "--out",
            &out,
        ],
        4,
        &["VOLLEY-NO-EXECUTORS", "127.0.0.1:1", "volley executor", "partial results are in"],
    );
    check(&["sql", "--executors", "127.0.0.1:1", "-c", "SELECT 1"], 4, &["VOLLEY-NO-EXECUTORS"]);
}

#[test]
fn a_port_in_use_is_this_machines_fault() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    check(&["executor", "--listen", &address], 5, &["VOLLEY-BIND", &address]);
}

#[test]
fn an_executor_drains_and_wants_its_token() {
    let mut executor = volley(&["executor", "--listen", "127.0.0.1:0", "--ready-stdout", "--drain", "1"])
        .env("VOLLEY_TOKEN", "secret")
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(executor.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let endpoint = line.trim().strip_prefix("ready ").expect("a line that says where it serves").to_owned();
    check(&["sql", "--executors", &endpoint, "-c", "SELECT 1"], 4, &["VOLLEY-AUTH", "VOLLEY_TOKEN"]);
    let rows = volley(&["sql", "--executors", &endpoint, "--format", "csv", "-c", &count_orders()])
        .env("VOLLEY_TOKEN", "secret")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&rows.stdout), "n\n15000\n", "{}", String::from_utf8_lossy(&rows.stderr));
    signal(&executor, libc::SIGTERM);
    assert_eq!(wait(&mut executor).code(), Some(0));
}

fn count_orders() -> String {
    format!(
        "CREATE EXTERNAL TABLE orders STORED AS PARQUET LOCATION '{}/orders/'; SELECT count(*) AS n FROM orders",
        DATA.tpch()
    )
}

#[test]
fn rows_are_printed_in_three_forms() {
    let statements = "CREATE VIEW v AS SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, NULL; SELECT * FROM v ORDER BY a";
    let check = |engine: &[&str], format: &str, expect: &str| {
        let mut arguments = vec!["sql", "--format", format, "-c", statements];
        arguments.extend(engine);
        let output = output(&arguments);
        assert_eq!(String::from_utf8_lossy(&output.stdout), expect, "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success());
    };
    for engine in [&["--engine", "single"][..], &["--local", "1"]] {
        check(engine, "csv", "a,b\n1,x\n2,\n");
        check(engine, "json", "{\"a\":1,\"b\":\"x\"}\n{\"a\":2}\n");
        check(engine, "table", "+---+---+\n| a | b |\n+---+---+\n| 1 | x |\n| 2 |   |\n+---+---+\n");
    }
    self::check(&["sql", "--engine", "single", "-c", "SELEC 1"], 2, &["VOLLEY-SQL", "SELEC"]);
    self::check(&["sql", "--engine", "single", "-c", "SELECT a FROM nowhere"], 2, &["VOLLEY-SQL", "nowhere"]);
    self::check(
        &["sql", "--engine", "single", "-c", "SET datafusion.execution.batch_size = 'many'"],
        2,
        &["batch_size"],
    );
}

#[test]
fn a_run_writes_what_it_promises() {
    let out = DATA.root.join("run-out");
    let tpch = DATA.tpch();
    let output = output(&[
        "tpch",
        "--scale",
        "0.01",
        "--data",
        &tpch,
        "--query",
        "q1,q3,q18",
        "--legs",
        "single,c1,c2,c1,single",
        "--iterations",
        "1",
        "--out",
        &text(&out),
        "--save-results",
        "--json",
    ]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let runs = fs::read_to_string(out.join("runs.jsonl")).unwrap();
    assert_eq!(runs, String::from_utf8_lossy(&output.stdout));
    // Leg 0, then a warm-up and a measured run in each leg.
    assert_eq!(runs.lines().count(), 3 + 5 * 2 * 3);
    let runs: Vec<serde_json::Value> = runs.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for run in &runs {
        let place = if run["setting"] == "single" { "single" } else { "cluster" };
        assert_eq!(run["where"], place, "{run}");
        assert_eq!(run["digest"], runs.iter().find(|other| other["query"] == run["query"]).unwrap()["digest"]);
        if place == "cluster" {
            assert!(run["stages"].as_u64().unwrap() >= 2, "{run}");
            assert!(run["bytes_remote"].as_u64().unwrap() > 0, "{run}");
            assert_eq!(run["rss_peak"].as_object().unwrap().len(), 3, "{run}");
        }
    }
    let summary: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap();
    assert_eq!(summary["settings"][0]["correct"], 3);
    for file in ["report.md", "report.html", "results/q01.parquet", "results/q18.parquet"] {
        assert!(out.join(file).is_file(), "{file}");
    }
    assert!(stderr.contains("Derived from TPC-H"), "{stderr}");
}

#[test]
fn small_tables_are_right_at_any_width() {
    let dir = DATA.root.join("small");
    fs::create_dir_all(&dir).unwrap();
    let place = text(&dir);
    let make = format!(
        "COPY (SELECT 1 AS a, 'x' AS b WHERE false) TO '{place}/empty.parquet' STORED AS PARQUET; \
         COPY (VALUES (1, 'x'), (2, 'y'), (3, 'z')) TO '{place}/few.parquet' STORED AS PARQUET"
    );
    let made = output(&["sql", "--engine", "single", "-c", &make]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let queries = DATA.folder(
        "small-queries",
        "q1.sql",
        "SELECT b, count(*) AS n FROM empty GROUP BY b;
         SELECT count(*) AS n, sum(a) AS s FROM empty;
         SELECT column2, count(*) AS n FROM few GROUP BY column2 ORDER BY column2;
         SELECT f.column1, e.b FROM few f LEFT JOIN empty e ON e.a = f.column1 ORDER BY 1;
         SELECT f.column1 FROM few f JOIN few g ON f.column1 = g.column1 WHERE NOT EXISTS (SELECT 1 FROM empty e WHERE e.a = f.column1)",
    );
    let out = text(&DATA.root.join("small-out"));
    let run = output(&[
        "tpch",
        "--data",
        &place,
        "--queries",
        &queries,
        "--iterations",
        "1",
        "--warmup",
        "0",
        "--out",
        &out,
        "--setting",
        "wide=partitions:16",
        "--legs",
        "c1,wide",
    ]);
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(0), "{stderr}{}", String::from_utf8_lossy(&run.stdout));
}

#[test]
fn an_interrupted_run_says_where_its_results_are_and_leaves_nothing() {
    let tpch = DATA.tpch();
    for legs in ["single,single", "c1,c1"] {
        let out = DATA.root.join(format!("interrupted-{}", legs.len()));
        let temporary = DATA.root.join(format!("interrupted-tmp-{}", legs.len()));
        fs::create_dir_all(&temporary).unwrap();
        let mark = format!("volley-test-{}-{}", std::process::id(), legs.len());
        let mut child = volley(&[
            "tpch",
            "--scale",
            "0.01",
            "--data",
            &tpch,
            "--legs",
            legs,
            "--iterations",
            "500",
            "--out",
            &text(&out),
        ])
        .env("VOLLEY_TEST_MARK", &mark)
        .env("TMPDIR", &temporary)
        .spawn()
        .unwrap();
        // All of leg 0 and some of leg 1.
        until(|| fs::read_to_string(out.join("runs.jsonl")).is_ok_and(|runs| runs.lines().count() > 30));
        assert!(marked(&mark) > 1);
        signal(&child, libc::SIGINT);
        let status = wait(&mut child);
        let mut stderr = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut stderr).unwrap();
        assert_eq!(status.code(), Some(130), "{stderr}");
        let words = format!("partial results are in {}", text(&out));
        assert!(stderr.contains("VOLLEY-INTERRUPTED") && stderr.contains(&words), "{stderr}");
        assert!(out.join("report.md").is_file());
        until(|| marked(&mark) == 0);
        assert_eq!(leftovers(&temporary), Vec::<String>::new());
    }
}

#[test]
fn a_killed_run_leaves_no_process() {
    let tpch = DATA.tpch();
    let out = DATA.root.join("killed");
    let temporary = DATA.root.join("killed-tmp");
    fs::create_dir_all(&temporary).unwrap();
    let mark = format!("volley-test-{}-killed", std::process::id());
    let mut child = volley(&[
        "tpch",
        "--scale",
        "0.01",
        "--data",
        &tpch,
        "--legs",
        "c1",
        "--iterations",
        "500",
        "--out",
        &text(&out),
    ])
    .env("VOLLEY_TEST_MARK", &mark)
    .env("TMPDIR", &temporary)
    .spawn()
    .unwrap();
    until(|| fs::read_to_string(out.join("runs.jsonl")).is_ok_and(|runs| runs.lines().count() > 24));
    // The runner, the session and two executors.
    assert_eq!(marked(&mark), 4);
    child.kill().unwrap();
    wait(&mut child);
    until(|| marked(&mark) == 0);
    assert_eq!(leftovers(&temporary), Vec::<String>::new());
}

/// What is in a folder for temporary files, but for the lock that executors share when they start.
fn leftovers(temporary: &Path) -> Vec<String> {
    let names = fs::read_dir(temporary).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "volley-start.lock").collect()
}

/// Processes that were started, directly or not, with that mark in their environment.
fn marked(mark: &str) -> usize {
    let wanted = format!("VOLLEY_TEST_MARK={mark}");
    let has = |path: PathBuf| {
        fs::read(path.join("environ"))
            .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()))
    };
    fs::read_dir("/proc").unwrap().filter(|entry| entry.as_ref().is_ok_and(|entry| has(entry.path()))).count()
}

#[track_caller]
fn until(reached: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(90);
    while !reached() {
        assert!(Instant::now() < end, "not reached within 90 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: no pointers; the child has not been waited for.
    assert_eq!(unsafe { libc::kill(i32::try_from(child.id()).unwrap(), signal) }, 0);
}

#[track_caller]
fn wait(child: &mut Child) -> std::process::ExitStatus {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("it did not end within 60 s");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
