//! The arguments of `tpcds` and `tpch`, checked.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::processes::available_memory;
use super::protocol::ExecutorsSpec;
use super::settings::Legs;
use crate::cli::{ClusterArgs, RunArgs};
use crate::data::{Scale, Suite};
use crate::error::CliError;
use crate::queries::{self, Query};
use crate::report::environment::{Environment, utc};
use crate::units::{parse_duration, parse_queries, parse_size};

/// What to do, without contradictions.
pub struct RunOptions {
    pub suite: Suite,
    pub scale: Scale,
    pub data: PathBuf,
    pub queries: Vec<Query>,
    pub legs: Legs,
    pub cluster: ClusterOptions,
    pub warmup: u32,
    pub iterations: u32,
    pub timeout: Duration,
    pub out: PathBuf,
    pub save_results: bool,
    pub json: bool,
}

impl RunOptions {
    /// # Errors
    /// Of the command line and the query files; nothing is started or written.
    pub fn check(
        suite: Suite,
        args: &RunArgs,
        environment: &Environment,
        started: SystemTime,
    ) -> Result<Self, CliError> {
        let scale: Scale = args.scale.parse()?;
        let all = match &args.queries {
            Some(dir) => queries::of_folder(dir)?,
            None => queries::embedded(suite)?,
        };
        let chosen = match &args.query {
            Some(list) => {
                let names: Vec<&str> = all.iter().map(|query| query.name.as_str()).collect();
                let chosen = parse_queries(list, &names)?;
                all.into_iter().filter(|query| chosen.contains(&query.name)).collect()
            }
            None => all,
        };
        let legs = Legs::choose(&args.settings, args.legs.as_deref(), args.baseline.as_deref(), args.quick)?;
        let cluster = ClusterOptions::check(&args.cluster, environment)?;
        cluster.check_settings(&legs)?;
        let (warmup, iterations) = if args.quick { (0, 1) } else { (1, 2) };
        let iterations = args.iterations.unwrap_or(iterations);
        if iterations == 0 {
            return Err(CliError::usage("VOLLEY-USAGE", "--iterations 0 measures nothing", "give at least 1"));
        }
        Ok(Self {
            suite,
            scale,
            data: args.data.clone().unwrap_or_else(|| default_data(suite, &scale)),
            queries: chosen,
            legs,
            cluster,
            warmup: args.warmup.unwrap_or(warmup),
            iterations,
            timeout: parse_duration(&args.timeout)?,
            out: args.out.clone().unwrap_or_else(|| {
                let time = utc(started).replace(['-', ':'], "");
                PathBuf::from("volley-out").join(format!("{suite}-sf{scale}-{time}"))
            }),
            save_results: args.save_results,
            json: args.json,
        })
    }
}

/// Where the tables of `suite` at `scale` are unless the user says otherwise.
pub fn default_data(suite: Suite, scale: &Scale) -> PathBuf {
    PathBuf::from("data").join(format!("{suite}-sf{scale}"))
}

/// Which executors, for every leg whose setting says nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterOptions {
    /// `None`: they run already, at `addresses`.
    pub local: Option<usize>,
    pub addresses: String,
    pub slots: Option<usize>,
    pub memory_bytes: Option<u64>,
    /// Of the executors at `addresses`.
    pub token: Option<String>,
    cores: usize,
    /// For all executors of this machine together.
    memory_budget: u64,
}

/// Executors of this machine unless the user says otherwise.
const LOCAL: usize = 2;
/// More are a typing error.
const MAX_LOCAL: usize = 64;
/// Of the memory that is free; the rest is for the file cache, buffers of the network and this process.
const MEMORY_SHARE: f64 = 0.7;
/// Where the system does not tell.
const UNKNOWN_MEMORY: u64 = 4 << 30;

impl ClusterOptions {
    /// # Errors
    /// `VOLLEY-USAGE`, `VOLLEY-SIZE`: what cannot be; executors of this machine and others at once.
    pub fn check(args: &ClusterArgs, environment: &Environment) -> Result<Self, CliError> {
        let count = |name: &str, text: &Option<String>, most: usize| match text {
            None => Ok(None),
            Some(text) => match text.parse::<usize>() {
                Ok(count) if (1..=most).contains(&count) => Ok(Some(count)),
                _ => Err(CliError::usage(
                    "VOLLEY-USAGE",
                    format!("{name} {text:?} is not a whole number from 1 to {most}"),
                    if name == "--local" && text.trim() == "0" {
                        "for no executors at all take --engine single (sql) or --legs single (tpcds, tpch)"
                    } else {
                        "correct the number"
                    },
                )),
            },
        };
        let local = count("--local", &args.local, MAX_LOCAL)?;
        let slots = count("--slots", &args.slots, 4096)?;
        let memory_bytes = args.memory.as_deref().map(parse_size).transpose()?;
        let addresses = match &args.executors {
            Some(list) => addresses(list)?,
            None => String::new(),
        };
        if args.executors.is_some() && (slots.is_some() || memory_bytes.is_some()) {
            return Err(CliError::usage(
                "VOLLEY-USAGE",
                "--slots and --memory cannot change executors that run already",
                "give them to `volley executor`",
            ));
        }
        let limit = environment.cgroup.memory_bytes.unwrap_or(u64::MAX);
        let free = available_memory().unwrap_or(UNKNOWN_MEMORY).min(limit);
        Ok(Self {
            local: if args.executors.is_some() { None } else { Some(local.unwrap_or(LOCAL)) },
            addresses,
            slots,
            memory_bytes,
            token: token(args.token_file.as_deref())?,
            cores: environment
                .cgroup
                .cpus
                .map_or(environment.cores, |cpus| (cpus.ceil() as usize).clamp(1, environment.cores)),
            memory_budget: (free as f64 * MEMORY_SHARE) as u64,
        })
    }

    /// That no setting asks for other executors than those that are given.
    fn check_settings(&self, legs: &Legs) -> Result<(), CliError> {
        let asks = |setting: &&super::settings::Setting| {
            setting.executors.is_some() || setting.slots.is_some() || setting.memory_bytes.is_some()
        };
        match legs.settings.iter().find(asks) {
            Some(setting) if self.local.is_none() => Err(CliError::usage(
                "VOLLEY-SETTING",
                format!("setting {} changes executors that run already (--executors)", setting.name),
                "leave out executors, slots and memory, or use --local",
            )),
            _ => Ok(()),
        }
    }

    /// The executors, and the memory of each. `executors`, `slots`, `memory_bytes`: what a setting says.
    pub fn executors(
        &self,
        executors: Option<usize>,
        slots: Option<usize>,
        memory_bytes: Option<u64>,
    ) -> (ExecutorsSpec, u64) {
        match self.local {
            None => (ExecutorsSpec::Given { addresses: self.addresses.clone() }, self.memory_budget),
            Some(local) => {
                let count = executors.unwrap_or(local);
                let slots = slots.or(self.slots).unwrap_or_else(|| (self.cores / count).max(1));
                let memory = memory_bytes.or(self.memory_bytes).unwrap_or(self.memory_budget / count as u64);
                (ExecutorsSpec::Local { count, slots }, memory)
            }
        }
    }

    /// Threads of this machine.
    pub fn cores(&self) -> usize {
        self.cores
    }
}

/// From `file`, otherwise from the environment.
///
/// # Errors
/// `VOLLEY-TOKEN`: the file cannot be read, or nothing is in it.
pub fn token(file: Option<&Path>) -> Result<Option<String>, CliError> {
    let Some(file) = file else {
        return Ok(std::env::var("VOLLEY_TOKEN")
            .ok()
            .map(|token| token.trim().to_owned())
            .filter(|token| !token.is_empty()));
    };
    let bad = |why: String| {
        CliError::usage(
            "VOLLEY-TOKEN",
            format!("--token-file {}: {why}", file.display()),
            "name a file with the token on one line",
        )
    };
    let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
    match text.trim() {
        "" => Err(bad("it is empty".to_owned())),
        token if token.contains(char::is_whitespace) => Err(bad("it has more than one word".to_owned())),
        token => Ok(Some(token.to_owned())),
    }
}

/// A list of `HOST:PORT`, checked as far as it can be without a network.
fn addresses(list: &str) -> Result<String, CliError> {
    let bad = |what: String| {
        CliError::usage("VOLLEY-ADDRESS", what, "write HOST:PORT[,HOST:PORT]..., such as 10.0.0.5:50051,10.0.0.6:50051")
    };
    let mut good = Vec::new();
    for address in list.split(',').map(str::trim).filter(|address| !address.is_empty()) {
        let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
        match port.map(str::parse::<u16>) {
            Some(Ok(1..)) => good.push(address),
            Some(_) => return Err(bad(format!("{address:?} in --executors has no port from 1 to 65535"))),
            None => return Err(bad(format!("{address:?} in --executors is no HOST:PORT"))),
        }
    }
    if good.is_empty() {
        return Err(bad("--executors names none".to_owned()));
    }
    Ok(good.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(local: Option<&str>, executors: Option<&str>, slots: Option<&str>) -> Result<ClusterOptions, CliError> {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let args = ClusterArgs {
            local: text(local),
            executors: text(executors),
            slots: text(slots),
            memory: None,
            token_file: None,
        };
        ClusterOptions::check(&args, &Environment::collect(SystemTime::now()))
    }

    #[test]
    fn clusters_are_checked() {
        let check = |local, executors, slots, expect: &str| {
            let error = cluster(local, executors, slots).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check(Some("0"), None, None, "--legs single");
        check(Some("many"), None, None, "whole number");
        check(Some("65"), None, None, "from 1 to 64");
        check(None, None, Some("0"), "--slots");
        check(None, Some("host"), None, "is no HOST:PORT");
        check(None, Some("host:0"), None, "no port");
        check(None, Some("host:99999"), None, "no port");
        check(None, Some(" , "), None, "names none");
        check(None, Some("host:1"), Some("2"), "cannot change");
        let given = cluster(None, Some("a:1, [::1]:2,"), None).unwrap();
        assert_eq!((given.local, given.addresses.as_str()), (None, "a:1,[::1]:2"));
    }

    #[test]
    fn a_setting_goes_before_the_command_line() {
        let options = cluster(Some("2"), None, Some("3")).unwrap();
        let (executors, memory) = options.executors(None, None, None);
        assert_eq!(executors, ExecutorsSpec::Local { count: 2, slots: 3 });
        assert!(memory > 0);
        let (executors, memory) = options.executors(Some(5), Some(1), Some(1 << 30));
        assert_eq!((executors, memory), (ExecutorsSpec::Local { count: 5, slots: 1 }, 1 << 30));
    }
}
