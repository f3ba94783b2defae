//! `volley tpcds` and `volley tpch`: legs of one benchmark, their rows compared, their figures reported.
//!
//! The runner itself computes no query. Each leg's engine is a process of its own ([`serve`]), plain DataFusion or a session on a
//! cluster, that the runner starts, asks and stops ([`engine`]); executors of this machine are that process's children. All of
//! them end when the pipe from their parent closes, so nothing is left whatever happens to the runner.
//!
//! What figures mean is the business of [`crate::report`], which rows are right that of [`crate::compare`].

pub mod options;
pub mod protocol;
pub mod serve;
pub mod session;

mod engine;
mod legs;
pub mod output;
mod processes;
mod progress;
mod reference;
mod settings;
mod table;

use std::collections::HashMap;
use std::path::Path;
use std::time::SystemTime;

use self::options::RunOptions;
use self::output::{Output, print};
use self::protocol::DataSpec;
use crate::cli::RunArgs;
use crate::data::{self, Dataset, Progress, Scale, Suite};
use crate::error::{CliError, ExitStatus};
use crate::interrupt::Interrupt;
use crate::report::{self, Environment, Outcome, Plan, Report, Summary, figures};
use crate::{queries, units};

/// Runs the command.
///
/// # Errors
/// What keeps it from running to its end. Queries that fail or are wrong are no error but the exit status.
pub async fn command(suite: Suite, args: RunArgs, interrupt: &Interrupt) -> Result<ExitStatus, CliError> {
    let started = SystemTime::now();
    if args.list {
        return list(suite, &args);
    }
    let environment = Environment::collect(started);
    let options = RunOptions::check(suite, &args, &environment, started)?;
    let dataset = prepare_data(suite, &options.scale, &options.data, interrupt).await?;
    if args.generate_only {
        let how = if dataset.generated { "made" } else { "was there" };
        eprintln!("{} {how}: {}, {}", dataset.dir.display(), dataset.describe(), units::format_bytes(dataset.bytes()));
        return Ok(ExitStatus::Right);
    }
    for table in dataset.missing_tables() {
        eprintln!("{} has no table {table}: queries on it will fail", dataset.dir.display());
    }

    let mut output = Output::create(&options.out, options.json, options.save_results)?;
    let data = DataSpec { suite, dir: dataset.dir.clone() };
    let mut legs = legs::Legs::new(&options, data, interrupt, &mut output);
    let ended = legs.run().await;
    let channels = legs.into_channels();

    // What was measured is reported however it ended.
    let plan = plan(&options, &dataset, &channels);
    let summary = figures(&plan, output.records(), environment);
    let written = report::write(output.dir(), &Report::new(&summary));
    if let Err(error) = ended {
        let kept = format!("partial results are in {}", output.dir().display());
        let remedy = if error.remedy.is_empty() { kept } else { format!("{}; {kept}", error.remedy) };
        return Err(CliError { remedy, ..error });
    }
    written?;
    let text = format!("{}\nReport: {}\n", table::render(&summary), output.dir().join(report::HTML).display());
    if options.json {
        eprint!("{text}")
    } else {
        print(&text)?
    }
    Ok(exit_status(&summary))
}

/// The tables of `suite`, made if need be.
///
/// # Errors
/// Of [`data::ensure`].
pub async fn prepare_data(suite: Suite, scale: &Scale, dir: &Path, interrupt: &Interrupt) -> Result<Dataset, CliError> {
    let (scale, dir, cancel) = (*scale, dir.to_owned(), interrupt.flag());
    let made = tokio::task::spawn_blocking(move || {
        let progress = Progress::on_stderr(format!("{suite} data at scale {scale}"));
        data::ensure(suite, &scale, &dir, &progress, &cancel)
    });
    made.await.map_err(|panic| {
        CliError::new("VOLLEY-INTERNAL", ExitStatus::Failed, format!("making the data panicked: {panic}"), "")
    })?
}

fn plan(options: &RunOptions, dataset: &Dataset, channels: &HashMap<String, u32>) -> Plan {
    let settings = options.legs.settings.iter().map(|setting| report::Setting {
        name: setting.name.clone(),
        engine: setting.engine,
        options: setting.given.clone(),
        label: without_effect(setting, channels.get(&setting.name).copied()),
    });
    Plan {
        suite: options.suite,
        scale: dataset.manifest.as_ref().map(|manifest| manifest.scale),
        data: dataset.describe(),
        queries: options.queries.iter().map(|query| query.name.clone()).collect(),
        settings: settings.collect(),
        legs: options.legs.names(),
        baseline: options.legs.baseline.clone(),
        warmup: options.warmup,
        iterations: options.iterations,
    }
}

/// Why a setting's channels could not act, if so. `used`: the most that carried anything to one peer.
fn without_effect(setting: &settings::Setting, used: Option<u32>) -> Option<String> {
    let (_, channels) = setting.session.iter().find(|(option, _)| option == "volley.channels_per_peer")?;
    let (channels, used) = (channels.parse::<u32>().ok()?, used?);
    match used {
        used if used >= channels => None,
        0 => Some("channels could not act: nothing crossed a connection".to_owned()),
        1 => Some("channels could not act: one stream per peer".to_owned()),
        _ => Some(format!("only {used} of {channels} channels could act: no more streams per peer")),
    }
}

fn exit_status(summary: &Summary) -> ExitStatus {
    let any = |outcome| summary.problems.iter().any(|problem| problem.outcome == outcome);
    if any(Outcome::Wrong) {
        ExitStatus::WrongRows
    } else if summary.problems.is_empty() {
        ExitStatus::Right
    } else {
        ExitStatus::Failed
    }
}

fn list(suite: Suite, args: &RunArgs) -> Result<ExitStatus, CliError> {
    let all = match &args.queries {
        Some(dir) => queries::of_folder(dir)?,
        None => queries::embedded(suite)?,
    };
    let mut text = format!("queries ({}):\n", all.len());
    for row in all.chunks(12) {
        let names: Vec<_> = row.iter().map(|query| query.name.as_str()).collect();
        text.push_str(&format!("  {}\n", names.join(" ")));
    }
    text.push_str("settings:\n");
    for (name, meaning) in settings::built_in() {
        text.push_str(&format!("  {name:<8}{meaning}\n"));
    }
    for given in &args.settings {
        let setting = settings::Setting::parse(given)?;
        let pairs: Vec<_> = setting.given.iter().map(|(key, value)| format!("{key}:{value}")).collect();
        text.push_str(&format!("  {:<8}{}\n", setting.name, pairs.join(",")));
    }
    print(&text)?;
    Ok(ExitStatus::Right)
}

/// `volley data`.
///
/// # Errors
/// Of [`data::ensure`] and [`data::verify`].
pub async fn data_command(
    suite: Suite,
    args: crate::cli::DataPlace,
    interrupt: &Interrupt,
) -> Result<ExitStatus, CliError> {
    let scale: Scale = args.scale.parse()?;
    let dir = args.data.unwrap_or_else(|| options::default_data(suite, &scale));
    let dataset = prepare_data(suite, &scale, &dir, interrupt).await?;
    let mut text =
        format!("{}: {}, {}", dataset.dir.display(), dataset.describe(), units::format_bytes(dataset.bytes()));
    if args.verify && dataset.manifest.is_some() {
        let cancel = interrupt.flag();
        tokio::task::spawn_blocking(move || data::verify(&dataset, &cancel)).await.map_err(|panic| {
            CliError::new("VOLLEY-INTERNAL", ExitStatus::Failed, format!("the check panicked: {panic}"), "")
        })??;
        text.push_str(", checksums right");
    }
    text.push('\n');
    print(&text)?;
    Ok(ExitStatus::Right)
}
