//! The command line: what `--help` shows. Values keep their text here; each command checks them once.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::run::protocol::ENGINE_COMMAND;

/// The end of the help of `tpcds` and `tpch`.
macro_rules! run_help {
    ($word:literal, $count:literal, $numbers:literal, $title:literal, $generator:literal) => {
        concat!(
            "\
EXAMPLES
  volley ", $word, "                                   all ", $count, " queries, legs single,c1,c2,c2,c1,single
  volley ", $word, " --quick                           every query once on a cluster, rows compared
  volley ", $word, " --legs single,c1,c1,single --query q3,q7-q12
  volley ", $word, " --setting lz4=codec:lz4,channels:2 --legs c1,lz4,lz4,c1
  volley ", $word, " --executors 10.0.0.5:50051,10.0.0.6:50051 --data /mnt/", $word, "

LEGS
  A leg is a fresh cluster (or process) with one setting; it runs every query --warmup times untimed and --iterations times
  timed. Legs that alternate and mirror each other (single,c1,c1,single) cancel a drift of the machine. Before them, every
  query runs once in one process: caches are filled and the reference rows made, with which all legs' rows are compared.

SETTINGS
  NAME=KEY:VALUE[,KEY:VALUE]...   keys: engine (cluster, single), channels, codec (none, lz4, zstd, zstd(LEVEL)), message, window,
  partitions, executors, slots, memory, statistics (on, off), and any volley.* or datafusion.* option.
  Built in: single, c1, c2, c4 (1, 2, 4 channels to each peer), c4m (4 channels, 1 MiB messages).

EXIT STATUS
  0 right   1 wrong rows   2 usage or input   3 failed or timed out   4 no usable cluster   5 disk, port or memory here
  130 interrupted

Derived from ", $title, ": queries restated, data by ", $generator, " 4.0, not audited, not comparable to published ", $title, " results."
        )
    };
}

/// Runs ordinary DataFusion sessions on several processes, and measures it.
#[derive(Debug, Parser)]
#[command(
    name = "volley",
    version,
    disable_help_subcommand = true,
    after_help = "\
EXAMPLES
  volley tpcds                     every TPC-DS query at scale 1 on two executors of this machine, with a report
  volley tpcds --quick --query q3  one query, once
  volley sql -c \"SELECT 1\"         any statement, on two executors of this machine
  volley executor                  an executor, to be named with --executors HOST:PORT elsewhere

EXIT STATUS
  0 right   1 wrong rows   2 usage or input   3 failed or timed out   4 no usable cluster
  5 disk, port or memory of this machine   130 interrupted"
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure the TPC-DS queries: one process against clusters, rows compared
    #[command(after_help = run_help!("tpcds", "103", "99", "TPC-DS", "tpcdsgen"))]
    Tpcds(RunArgs),
    /// Measure the TPC-H queries: one process against clusters, rows compared
    #[command(after_help = run_help!("tpch", "22", "22", "TPC-H", "tpchgen"))]
    Tpch(RunArgs),
    /// Run SQL statements on a cluster or in one process
    #[command(after_help = "\
EXAMPLES
  volley sql                                             interactive, two executors of this machine
  volley sql --executors 10.0.0.5:50051 -f report.sql    on executors that run elsewhere
  volley sql --engine single --format csv -c \"SELECT 1\"  plain DataFusion, one process
  volley sql -c \"CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 's3://bucket/t/'; SELECT count(*) FROM t\"

Object stores take their credentials from the environment (AWS_ACCESS_KEY_ID and so on), here and on each executor.")]
    Sql(SqlArgs),
    /// Run an executor: it runs tasks of sessions that name it, and serves their shuffles
    #[command(after_help = "\
EXAMPLES
  volley executor                                              on 127.0.0.1:50051, for sessions of this machine
  volley executor --listen 0.0.0.0:50051 --token-file /run/secrets/volley --advertise 10.0.0.5:50051
  volley sql --executors 10.0.0.5:50051,10.0.0.6:50051         a session that uses two of them

SIGTERM and Ctrl-C drain: no new tasks, running ones may finish, then it ends.")]
    Executor(ExecutorArgs),
    /// Make benchmark data and stop
    #[command(after_help = "\
EXAMPLES
  volley data tpcds --scale 10 --data /mnt/tpcds10
  volley data tpch")]
    Data(DataArgs),
    /// One engine of a measured leg; speaks JSON lines with the command that started it
    #[command(name = ENGINE_COMMAND, hide = true)]
    EngineProcess,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Scale factor of the data: about this many GB as text, 0.4 GB as Parquet each
    #[arg(long, default_value = "1", value_name = "FACTOR")]
    pub scale: String,
    /// Folder of the tables; made if it is missing [default: data/SUITE-sfSCALE]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Folder of *.sql files to run instead of the built-in queries
    #[arg(long, value_name = "DIR")]
    pub queries: Option<PathBuf>,
    /// Queries to run, such as q3,q7-q12,q14a [default: all]
    #[arg(long, value_name = "LIST")]
    pub query: Option<String>,
    /// One leg (c1), each query once, no warm-up
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// A setting of your own; may be given several times
    #[arg(long = "setting", value_name = "NAME=KEY:VALUE,...")]
    pub settings: Vec<String>,
    /// Settings in the order in which they run [default: single,c1,c2,c2,c1,single]
    #[arg(long, value_name = "NAME,...")]
    pub legs: Option<String>,
    /// Setting that the others are compared with [default: c1]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    /// Runs of each query before those that count, in each leg [default: 1]
    #[arg(long, value_name = "N")]
    pub warmup: Option<u32>,
    /// Runs of each query that count, in each leg [default: 2]
    #[arg(long, value_name = "N")]
    pub iterations: Option<u32>,
    /// A run that takes longer is stopped and counted as timed out: seconds, or 5m, 1h
    #[arg(long, default_value = "300", value_name = "SECONDS")]
    pub timeout: String,
    /// Folder of the results: runs.jsonl, summary.json, report.md, report.html [default: volley-out/SUITE-sfSCALE-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write each query's rows to OUT/results/QUERY.parquet: those of the baseline's first run
    #[arg(long)]
    pub save_results: bool,
    /// One JSON line per run on stdout, as in runs.jsonl; all else on stderr
    #[arg(long)]
    pub json: bool,
    /// Make the data if it is missing, and stop
    #[arg(long)]
    pub generate_only: bool,
    /// List queries and settings, and stop
    #[arg(long)]
    pub list: bool,
}

/// Which executors, for `tpcds`, `tpch` and `sql`.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// Start N executors on this machine [default: 2]
    #[arg(long, value_name = "N", conflicts_with = "executors")]
    pub local: Option<String>,
    /// Use executors that run already: a list, or one DNS name with a port that stands for all
    #[arg(long, value_name = "HOST:PORT,...")]
    pub executors: Option<String>,
    /// CPU threads of each local executor [default: cores divided by executors]
    #[arg(long, value_name = "N")]
    pub slots: Option<String>,
    /// Memory of each local executor, such as 4GiB [default: 70 % of what is free, divided by executors]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// File with the token of --executors; otherwise the variable VOLLEY_TOKEN
    #[arg(long, value_name = "FILE", requires = "executors")]
    pub token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SqlArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Where statements run
    #[arg(long, value_enum, default_value_t = EngineArg::Cluster)]
    pub engine: EngineArg,
    /// Statements, separated by semicolons
    #[arg(short = 'c', long = "command", value_name = "SQL", conflicts_with = "file")]
    pub command: Option<String>,
    /// File of statements; - is stdin
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// How rows are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineArg {
    /// On executors
    Cluster,
    /// Plain DataFusion in this process
    Single,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// With borders, for people
    Table,
    /// A header, then one record a row; NULL is an empty field
    Csv,
    /// One object a row and line
    Json,
}

#[derive(Debug, Args)]
pub struct ExecutorArgs {
    /// Address to listen on; port 0 takes a free one. Other than loopback needs a token, or --insecure
    #[arg(long, default_value = "127.0.0.1:50051", value_name = "IP:PORT")]
    pub listen: String,
    /// Address at which sessions and other executors reach this one [default: the one it listens on]
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Option<String>,
    /// CPU threads for tasks [default: the CPU quota, or all cores]
    #[arg(long, value_name = "N")]
    pub slots: Option<String>,
    /// Memory for operators and shuffles together, such as 8GiB [default: 70 % of the control group's limit or the machine's]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Share of --memory that shuffles may keep in memory, such as 2GiB [default: 30 %]
    #[arg(long, value_name = "SIZE")]
    pub shuffle_memory: Option<String>,
    /// Folder for what does not fit into memory [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub work_dir: Option<PathBuf>,
    /// Most bytes on disk, such as 100GiB [default: 100GiB]
    #[arg(long, value_name = "SIZE")]
    pub disk_limit: Option<String>,
    /// File with the token that callers must have; otherwise the variable VOLLEY_TOKEN
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Listen beyond loopback without a token: whoever reaches the port may run queries
    #[arg(long)]
    pub insecure: bool,
    /// After SIGTERM, time for running tasks to finish: seconds, or 5m
    #[arg(long, default_value = "25", value_name = "SECONDS")]
    pub drain: String,
    /// Print "ready HOST:PORT" on stdout once it serves
    #[arg(long, hide = true)]
    pub ready_stdout: bool,
    /// Stop when stdin closes
    #[arg(long, hide = true)]
    pub exit_with_parent: bool,
}

#[derive(Debug, Args)]
pub struct DataArgs {
    #[command(subcommand)]
    pub suite: DataSuite,
}

#[derive(Debug, Subcommand)]
pub enum DataSuite {
    /// The 24 tables of TPC-DS, and one that records the generator's run
    Tpcds(DataPlace),
    /// The 8 tables of TPC-H
    Tpch(DataPlace),
}

#[derive(Debug, Args)]
pub struct DataPlace {
    /// Scale factor: about this many GB as text, 0.4 GB as Parquet each
    #[arg(long, default_value = "1", value_name = "FACTOR")]
    pub scale: String,
    /// Folder to make; one that is complete stays as it is [default: data/SUITE-sfSCALE]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Read every file and compare its checksum
    #[arg(long)]
    pub verify: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_visible_flag_and_command_is_explained() {
        fn check(command: &clap::Command) {
            assert!(command.is_hide_set() || command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
