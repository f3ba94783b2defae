//! The `volley` command.

mod cli;
mod compare;
mod data;
mod error;
mod executor;
mod failure;
mod interrupt;
mod queries;
mod report;
mod run;
mod sql;
mod statements;
mod units;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command, DataSuite};
use crate::data::Suite;
use crate::error::{CliError, ExitStatus, one_line};
use crate::interrupt::Interrupt;

/// The same in every process of a measurement.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return not_understood(&error),
    };
    log_to_stderr(matches!(&cli.command, Command::Executor(args) if !args.exit_with_parent));
    match dispatch(cli.command) {
        Ok(status) => status.into(),
        Err(error) => {
            eprintln!("{error}");
            error.exit.into()
        }
    }
}

fn dispatch(command: Command) -> Result<ExitStatus, CliError> {
    // It makes its own runtime, of as many threads as it is told.
    if let Command::EngineProcess = command {
        return run::serve::serve();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new("VOLLEY-LOCAL", ExitStatus::Local, format!("no runtime: {error}"), ""))?;
    let status = runtime.block_on(run(command));
    // Operators that compute without a pause are not waited for.
    runtime.shutdown_background();
    status
}

async fn run(command: Command) -> Result<ExitStatus, CliError> {
    // These have their own idea of what a signal means.
    let command = match command {
        Command::Sql(args) => return sql::command(args).await,
        Command::Executor(args) => return executor::command(args).await,
        command => command,
    };
    let interrupt = Interrupt::listen().map_err(|error| {
        CliError::new("VOLLEY-LOCAL", ExitStatus::Local, format!("cannot listen for signals: {error}"), "")
    })?;
    match command {
        Command::Tpcds(args) => run::command(Suite::TpcDs, args, &interrupt).await,
        Command::Tpch(args) => run::command(Suite::TpcH, args, &interrupt).await,
        Command::Data(args) => match args.suite {
            DataSuite::Tpcds(place) => run::data_command(Suite::TpcDs, place, &interrupt).await,
            DataSuite::Tpch(place) => run::data_command(Suite::TpcH, place, &interrupt).await,
        },
        Command::Sql(_) | Command::Executor(_) | Command::EngineProcess => Ok(ExitStatus::Right),
    }
}

/// What RUST_LOG asks for; without it, warnings of a process that nobody watches.
fn log_to_stderr(warnings: bool) {
    use tracing_subscriber::EnvFilter;
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(if warnings { "warn" } else { "off" }));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

/// Help as it is; what cannot be parsed as one line like every other error.
fn not_understood(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A reader that is gone does not want the rest.
        let _ = error.print();
        return ExitStatus::Right.into();
    }
    let text = error.render().to_string();
    // `volley` alone: the help is the answer.
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        eprint!("{text}");
        return ExitStatus::Usage.into();
    }
    let what = text.split("\nUsage:").next().unwrap_or(&text).replace("For more information, try '--help'.", "");
    let what = one_line(&what);
    let what = what.strip_prefix("error: ").unwrap_or(&what).replace(" tip: ", "; ");
    eprintln!("{}", CliError::usage("VOLLEY-USAGE", what, "--help shows what there is"));
    ExitStatus::Usage.into()
}
