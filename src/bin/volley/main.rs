//! The `volley` command.

mod cli;
mod compare;
mod data;
mod error;
mod failure;
mod interrupt;
mod queries;
mod report;
mod run;
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
    let status = runtime.block_on(async {
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
            // Later in this file's history.
            Command::Sql(_) | Command::Executor(_) | Command::EngineProcess => Ok(ExitStatus::Right),
        }
    });
    runtime.shutdown_background();
    status
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
