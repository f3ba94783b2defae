//! `volley sql`: statements from the command line, a file, a pipe or a prompt.

use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use datafusion::arrow::csv::WriterBuilder;
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use tokio::signal::ctrl_c;

use crate::cli::{EngineArg, Format, SqlArgs};
use crate::error::{CliError, ExitStatus};
use crate::failure;
use crate::report::{Engine, Environment};
use crate::run::options::ClusterOptions;
use crate::run::protocol::{EngineSpec, ExecutorsSpec};
use crate::run::session::Session;
use crate::statements::{SqlText, split};
use crate::units::format_duration;

/// To stop local executors.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Runs the command.
///
/// # Errors
/// The first statement that fails; what keeps the cluster from starting.
pub async fn command(args: SqlArgs) -> Result<ExitStatus, CliError> {
    // Read and parsed before anything is started.
    let statements = match (&args.command, &args.file) {
        (Some(text), _) => Some(parse(text)?),
        (None, Some(file)) => Some(parse(&read(file)?)?),
        (None, None) if !io::stdin().is_terminal() => Some(parse(&read(Path::new("-"))?)?),
        (None, None) => None,
    };
    let spec = spec(&args)?;
    let session = tokio::select! {
        session = Session::start(&spec) => session?,
        _ = ctrl_c() => return Err(CliError::interrupted("interrupted while the cluster started", "")),
    };
    let ended = match statements {
        Some(statements) => all(session.context(), &statements, args.format).await,
        None => prompt(session.context(), args.format).await,
    };
    session.stop(STOP_WITHIN).await;
    ended.map(|()| ExitStatus::Right)
}

fn spec(args: &SqlArgs) -> Result<EngineSpec, CliError> {
    let cluster = ClusterOptions::check(&args.cluster, &Environment::collect(SystemTime::now()))?;
    let (executors, memory_bytes) = cluster.executors(None, None, None);
    Ok(match args.engine {
        EngineArg::Cluster => EngineSpec {
            engine: Engine::Cluster,
            threads: cluster.cores(),
            memory_bytes,
            executors,
            token: cluster.token,
            options: Vec::new(),
        },
        EngineArg::Single => {
            let (threads, memory_bytes) = match &executors {
                ExecutorsSpec::Given { .. } => {
                    return Err(CliError::usage(
                        "VOLLEY-USAGE",
                        "--engine single runs in this process and --executors elsewhere",
                        "leave one of them out",
                    ));
                }
                ExecutorsSpec::Local { count, slots } => (count * slots, memory_bytes.saturating_mul(*count as u64)),
            };
            EngineSpec { engine: Engine::Single, threads, memory_bytes, executors, token: None, options: Vec::new() }
        }
    })
}

fn read(file: &Path) -> Result<String, CliError> {
    let failed = |error: io::Error| {
        CliError::usage(
            "VOLLEY-FILE",
            format!("cannot read {}: {error}", file.display()),
            "name a file of statements with -f",
        )
    };
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map_err(failed)?;
        return Ok(text);
    }
    std::fs::read_to_string(file).map_err(failed)
}

fn parse(text: &str) -> Result<Vec<SqlText>, CliError> {
    split(text).map_err(|error| CliError::usage("VOLLEY-SQL", error, "correct the statement"))
}

async fn all(context: &SessionContext, statements: &[SqlText], format: Format) -> Result<(), CliError> {
    for statement in statements {
        tokio::select! {
            ended = execute(context, &statement.text, format) => ended?,
            _ = ctrl_c() => {
                let place = format!("interrupted in the statement at line {}", statement.line);
                return Err(CliError::interrupted(place, "statements before it have taken effect"));
            }
        };
    }
    Ok(())
}

/// Returns how many rows were printed.
async fn execute(context: &SessionContext, statement: &str, format: Format) -> Result<usize, CliError> {
    let failed = |error: DataFusionError| failure::of_datafusion(&error);
    let frame = context.sql(statement).await.map_err(failed)?;
    let mut rows = frame.execute_stream().await.map_err(failed)?;
    // A statement that defines something answers with nothing.
    if rows.schema().fields().is_empty() {
        while let Some(batch) = rows.next().await {
            batch.map_err(failed)?;
        }
        return Ok(0);
    }
    let mut printer = Printer::new(format, RecordBatch::new_empty(rows.schema()));
    let mut count = 0;
    while let Some(batch) = rows.next().await {
        let batch = batch.map_err(failed)?;
        count += batch.num_rows();
        printer.batch(batch).map_err(|error| cannot_print(&error))?;
    }
    printer.finish().map_err(|error| cannot_print(&error))?;
    Ok(count)
}

fn cannot_print(error: &DataFusionError) -> CliError {
    CliError::new(
        "VOLLEY-STDOUT",
        ExitStatus::Local,
        format!("cannot write to stdout: {}", error.strip_backtrace()),
        "",
    )
}

/// Prints batches as they come, a table at the end: its columns are as wide as their widest value.
struct Printer {
    format: Format,
    empty: RecordBatch,
    kept: Vec<RecordBatch>,
    header: bool,
}

impl Printer {
    fn new(format: Format, empty: RecordBatch) -> Self {
        Self { format, empty, kept: Vec::new(), header: true }
    }

    fn batch(&mut self, batch: RecordBatch) -> Result<(), DataFusionError> {
        let mut text = Vec::new();
        match self.format {
            Format::Table => {
                self.kept.push(batch);
                return Ok(());
            }
            Format::Csv => {
                let header = std::mem::take(&mut self.header);
                WriterBuilder::new().with_header(header).build(&mut text).write(&batch)?;
            }
            Format::Json => {
                let mut writer = LineDelimitedWriter::new(&mut text);
                writer.write(&batch)?;
                writer.finish()?;
            }
        }
        Ok(io::stdout().lock().write_all(&text)?)
    }

    fn finish(mut self) -> Result<(), DataFusionError> {
        match self.format {
            Format::Table => {
                self.kept.push(self.empty);
                let text = format!("{}\n", pretty_format_batches(&self.kept)?);
                io::stdout().lock().write_all(text.as_bytes())?;
            }
            Format::Csv if self.header => self.batch(self.empty.clone())?,
            Format::Csv | Format::Json => {}
        }
        Ok(io::stdout().lock().flush()?)
    }
}

/// Statements end with a semicolon and may take several lines. Ctrl-C stops a statement or drops the line, Ctrl-D ends.
async fn prompt(context: &SessionContext, format: Format) -> Result<(), CliError> {
    let no_terminal = |error: ReadlineError| {
        CliError::new("VOLLEY-LOCAL", ExitStatus::Local, format!("no prompt: {error}"), "use -c or -f")
    };
    eprintln!("volley {}; end statements with ';', leave with Ctrl-D", env!("CARGO_PKG_VERSION"));
    let mut editor = DefaultEditor::new().map_err(no_terminal)?;
    let mut text = String::new();
    loop {
        let prompt = if text.is_empty() { "volley> " } else { "     -> " };
        // The editor waits for keys: not on a thread of the runtime.
        let read = tokio::task::spawn_blocking(move || {
            let line = editor.readline(prompt);
            (editor, line)
        });
        let (back, line) = read.await.map_err(|error| no_terminal(ReadlineError::Io(io::Error::other(error))))?;
        editor = back;
        match line {
            Ok(line) => {
                text.push_str(&line);
                text.push('\n');
            }
            Err(ReadlineError::Interrupted) => {
                text.clear();
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(no_terminal(error)),
        }
        match text.trim() {
            "" => text.clear(),
            "quit" | "exit" | "\\q" => return Ok(()),
            complete if complete.ends_with(';') => {
                // A line that cannot be kept can still be run.
                let _ = editor.add_history_entry(complete);
                answer(context, complete, format).await;
                text.clear();
            }
            _ => {}
        }
    }
}

async fn answer(context: &SessionContext, text: &str, format: Format) {
    let statements = match parse(text) {
        Ok(statements) => statements,
        Err(error) => return eprintln!("{error}"),
    };
    for statement in statements {
        let begun = Instant::now();
        let ended = tokio::select! {
            ended = execute(context, &statement.text, format) => ended,
            _ = ctrl_c() => Err(CliError::interrupted("the statement was stopped", "")),
        };
        match ended {
            Ok(rows) => eprintln!("{rows} rows in {}", format_duration(begun.elapsed())),
            Err(error) => return eprintln!("{error}"),
        }
    }
}
