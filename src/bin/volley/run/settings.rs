//! Settings, `NAME=KEY:VALUE[,KEY:VALUE]…`, and the legs made of them.

use datafusion::config::ConfigOptions;
use datafusion_volley::config::VolleyOptions;

use crate::error::CliError;
use crate::report::Engine;
use crate::units::{did_you_mean, parse_size, suggest};

/// What a setting's key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Engine,
    Executors,
    Slots,
    Memory,
    Statistics,
    /// Another word for an option of the session.
    Option(&'static str),
}

/// Short keys. Any `volley.*` or `datafusion.*` option is a key too.
const KEYS: [(&str, Key); 10] = [
    ("engine", Key::Engine),
    ("channels", Key::Option("volley.channels_per_peer")),
    ("codec", Key::Option("volley.codec")),
    ("message", Key::Option("volley.message_bytes")),
    ("window", Key::Option("volley.window_bytes")),
    ("partitions", Key::Option("datafusion.execution.target_partitions")),
    ("executors", Key::Executors),
    ("slots", Key::Slots),
    ("memory", Key::Memory),
    ("statistics", Key::Statistics),
];

/// Settings that are always there.
const BUILT_IN: [(&str, &str); 5] = [
    ("single", "engine:single"),
    ("c1", "channels:1"),
    ("c2", "channels:2"),
    ("c4", "channels:4"),
    ("c4m", "channels:4,message:1MiB"),
];

/// The legs of a run without `--legs`, `--setting` and `--quick`.
const DEFAULT_LEGS: [&str; 6] = ["single", "c1", "c2", "c2", "c1", "single"];
const DEFAULT_BASELINE: &str = "c1";

/// A named way to run the queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub name: String,
    pub engine: Engine,
    /// Key and value as given.
    pub given: Vec<(String, String)>,
    /// Instead of `--local`.
    pub executors: Option<usize>,
    /// Of an executor; instead of `--slots`.
    pub slots: Option<usize>,
    /// Bytes of an executor; instead of `--memory`.
    pub memory_bytes: Option<u64>,
    /// Options of the session by their full names, checked.
    pub session: Vec<(String, String)>,
}

impl Setting {
    /// Reads `NAME=KEY:VALUE,…`.
    ///
    /// # Errors
    /// `VOLLEY-SETTING`: the form, an unknown key or value, a key that means nothing for the engine.
    pub fn parse(text: &str) -> Result<Self, CliError> {
        let form = "write NAME=KEY:VALUE[,KEY:VALUE]…, such as lz4=channels:2,codec:lz4";
        let Some((name, pairs)) = text.split_once('=') else {
            return Err(bad(format!("the setting {text:?} has no '='"), form));
        };
        let name = name.trim();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            return Err(bad(format!("{name:?} is no name for a setting"), "use letters, digits, '-', '_' and '.'"));
        }
        let mut setting = Self {
            name: name.to_owned(),
            engine: Engine::Cluster,
            given: Vec::new(),
            executors: None,
            slots: None,
            memory_bytes: None,
            session: Vec::new(),
        };
        for pair in pairs.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once(':') else {
                return Err(bad(format!("{pair:?} in setting {name} has no ':'"), form));
            };
            let (key, value) = (key.trim(), value.trim());
            if setting.given.iter().any(|(known, _)| known == key) {
                return Err(bad(format!("setting {name} has the key {key} twice"), "give it once"));
            }
            setting.set(key, value)?;
            setting.given.push((key.to_owned(), value.to_owned()));
        }
        setting.check_engine()?;
        Ok(setting)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), CliError> {
        let wrong = |why: &str| {
            bad(format!("{key}:{value} in setting {}: {value:?} is not {why}", self.name), "correct the value")
        };
        let count = || match value.parse::<usize>() {
            Ok(count @ 1..=100_000) => Ok(count),
            _ => Err(wrong("a whole number of at least 1")),
        };
        match KEYS.iter().find(|(known, _)| *known == key).map(|(_, key)| *key) {
            Some(Key::Engine) => {
                self.engine = match value {
                    "cluster" => Engine::Cluster,
                    "single" => Engine::Single,
                    _ => return Err(wrong("cluster or single")),
                }
            }
            Some(Key::Executors) => self.executors = Some(count()?),
            Some(Key::Slots) => self.slots = Some(count()?),
            Some(Key::Memory) => self.memory_bytes = Some(parse_size(value)?),
            Some(Key::Statistics) => {
                let on = match value {
                    "on" => "true",
                    "off" => "false",
                    _ => return Err(wrong("on or off")),
                };
                self.session.push(("datafusion.execution.collect_statistics".to_owned(), on.to_owned()));
            }
            Some(Key::Option(option)) => self.set_option(key, option, value)?,
            None => self.set_option(key, key, value)?,
        }
        Ok(())
    }

    fn set_option(&mut self, key: &str, option: &str, value: &str) -> Result<(), CliError> {
        let place = format!("{key}:{value} in setting {}", self.name);
        if key == "partitions" && !matches!(value.parse::<usize>(), Ok(1..=100_000)) {
            return Err(bad(format!("{place}: {value:?} is not a whole number of at least 1"), "correct the value"));
        }
        if let Some(name) = option.strip_prefix("volley.") {
            VolleyOptions::default()
                .set_text(name, value)
                .map_err(|error| bad(format!("{place}: {error}"), "SHOW ALL in `volley sql` lists all options"))?;
        } else if option.starts_with("datafusion.") {
            let mut options = ConfigOptions::new();
            if let Err(error) = options.set(option, value) {
                let known: Vec<String> = options.entries().into_iter().map(|entry| entry.key).collect();
                let remedy = if known.iter().any(|known| known == option) {
                    "correct the value".to_owned()
                } else {
                    match suggest(option, known.iter().map(String::as_str)) {
                        Some(near) => format!("did you mean {near}?"),
                        None => "SHOW ALL in `volley sql` lists all options".to_owned(),
                    }
                };
                return Err(bad(format!("{place}: {}", error.strip_backtrace()), remedy));
            }
        } else {
            let known: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
            return Err(bad(
                format!("setting {} has the unknown key {key:?}", self.name),
                format!("{}, and every volley.* and datafusion.* option", did_you_mean(key, &known)),
            ));
        }
        self.session.push((option.to_owned(), value.to_owned()));
        Ok(())
    }

    fn check_engine(&self) -> Result<(), CliError> {
        let option = self.session.iter().find(|(option, _)| option.starts_with("volley."));
        match option {
            Some((option, _)) if self.engine == Engine::Single => Err(bad(
                format!("setting {}: {option} means nothing for one process (engine:single)", self.name),
                "leave one of the two out",
            )),
            _ => Ok(()),
        }
    }
}

fn bad(message: impl Into<String>, remedy: impl Into<String>) -> CliError {
    CliError::usage("VOLLEY-SETTING", message, remedy)
}

/// What runs in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Legs {
    /// Those used, in order of first use.
    pub settings: Vec<Setting>,
    /// Places in `settings`.
    pub order: Vec<usize>,
    /// A name in `settings`.
    pub baseline: String,
}

impl Legs {
    /// `settings` are the `--setting` values, `legs` the `--legs` value. Without legs: the default ones, with the user's
    /// own settings in the middle, so that each setting's legs lie around the same moment; with `quick`: one leg.
    ///
    /// # Errors
    /// `VOLLEY-SETTING`, `VOLLEY-LEG`: unknown or doubled names, a baseline that has no leg.
    pub fn choose(
        settings: &[String],
        legs: Option<&str>,
        baseline: Option<&str>,
        quick: bool,
    ) -> Result<Self, CliError> {
        let mut known = Vec::new();
        for (name, pairs) in BUILT_IN {
            known.push(Setting::parse(&format!("{name}={pairs}"))?);
        }
        for text in settings {
            let setting = Setting::parse(text)?;
            if known.iter().any(|known| known.name == setting.name) {
                return Err(bad(format!("there is a setting {} already", setting.name), "choose another name"));
            }
            known.push(setting);
        }
        let own: Vec<&str> = known[BUILT_IN.len()..].iter().map(|setting| setting.name.as_str()).collect();
        let names: Vec<&str> = match legs {
            Some(list) => list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect(),
            None if quick => vec![own.first().copied().unwrap_or(DEFAULT_BASELINE)],
            None if own.is_empty() => DEFAULT_LEGS.to_vec(),
            None => {
                let half: Vec<&str> = ["single", DEFAULT_BASELINE].into_iter().chain(own).collect();
                half.iter().chain(half.iter().rev()).copied().collect()
            }
        };
        if names.is_empty() {
            return Err(CliError::usage("VOLLEY-LEG", "--legs names no setting", "write --legs single,c1,c1,single"));
        }
        let all: Vec<&str> = known.iter().map(|setting| setting.name.as_str()).collect();
        let mut chosen = Self { settings: Vec::new(), order: Vec::new(), baseline: String::new() };
        for name in &names {
            let Some(setting) = known.iter().find(|setting| setting.name == *name) else {
                let message = format!("{name:?} in --legs is no setting");
                return Err(CliError::usage("VOLLEY-LEG", message, did_you_mean(name, &all)));
            };
            let place = chosen.settings.iter().position(|known| known.name == *name).unwrap_or_else(|| {
                chosen.settings.push(setting.clone());
                chosen.settings.len() - 1
            });
            chosen.order.push(place);
        }
        chosen.baseline = match baseline {
            Some(name) if names.contains(&name) => name.to_owned(),
            Some(name) => {
                let message = format!("--baseline {name:?} has no leg");
                return Err(CliError::usage("VOLLEY-LEG", message, did_you_mean(name, &names)));
            }
            None if names.contains(&DEFAULT_BASELINE) => DEFAULT_BASELINE.to_owned(),
            None => {
                let cluster = chosen.settings.iter().find(|setting| setting.engine == Engine::Cluster);
                cluster.unwrap_or(&chosen.settings[0]).name.clone()
            }
        };
        Ok(chosen)
    }

    /// The setting's name of each leg.
    pub fn names(&self) -> Vec<String> {
        self.order.iter().map(|place| self.settings[*place].name.clone()).collect()
    }
}

/// For `--list`: name and meaning of the built-in settings.
pub fn built_in() -> &'static [(&'static str, &'static str)] {
    &BUILT_IN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_checked() {
        let check = |text: &str, expect: &str| {
            let got = match Setting::parse(text) {
                Ok(setting) => {
                    let options: Vec<_> =
                        setting.session.iter().map(|(option, value)| format!("{option}={value}")).collect();
                    format!(
                        "{} {} {:?} {:?} {:?} {}",
                        setting.name,
                        setting.engine.word(),
                        setting.executors,
                        setting.slots,
                        setting.memory_bytes,
                        options.join(" ")
                    )
                }
                Err(error) => error.to_string(),
            };
            assert!(got.contains(expect), "{text}: {got}");
        };
        check("a=channels:2,codec:zstd(3)", "a cluster None None None volley.channels_per_peer=2 volley.codec=zstd(3)");
        check("s=engine:single,partitions:3", "s single None None None datafusion.execution.target_partitions=3");
        check("m=memory:1GiB,slots:2,executors:3", "m cluster Some(3) Some(2) Some(1073741824)");
        check("x=statistics:off", "datafusion.execution.collect_statistics=false");
        check("x=datafusion.execution.batch_size:4096", "datafusion.execution.batch_size=4096");
        check("x=volley.frame_bytes:64KiB", "volley.frame_bytes=64KiB");
        check("empty=", "empty cluster");
        check("x", "has no '='");
        check("x=channels", "has no ':'");
        check("x=chanels:2", "did you mean channels?");
        check("x=codec:snappy", "is not a codec");
        check("x=channels:0", "at least 1");
        check("x=partitions:0", "at least 1");
        check("x=engine:double", "not cluster or single");
        check("x=executors:0", "at least 1");
        check("x=memory:lots", "VOLLEY-SIZE");
        check("x=datafusion.execution.batchsize:1", "did you mean datafusion.execution.batch_size?");
        check("x=datafusion.execution.batch_size:many", "correct the value");
        check("x=volley.chanels_per_peer:1", "did you mean volley.channels_per_peer?");
        check("x=engine:single,codec:lz4", "means nothing for one process");
        check("x=codec:lz4,codec:none", "twice");
        check("a b=codec:lz4", "no name for a setting");
    }

    #[test]
    fn legs_are_chosen() {
        let check = |settings: &[&str], legs: Option<&str>, baseline: Option<&str>, quick: bool, expect: &str| {
            let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
            let got = match Legs::choose(&settings, legs, baseline, quick) {
                Ok(chosen) => format!("{} | {}", chosen.names().join(","), chosen.baseline),
                Err(error) => error.to_string(),
            };
            assert!(got.contains(expect), "{got}; expected {expect}");
        };
        check(&[], None, None, false, "single,c1,c2,c2,c1,single | c1");
        check(&[], None, None, true, "c1 | c1");
        check(&["z=codec:lz4"], None, None, false, "single,c1,z,z,c1,single | c1");
        check(&["z=codec:lz4"], None, None, true, "z | z");
        check(&[], Some("single,single"), None, false, "single,single | single");
        check(&[], Some("single,c4m"), None, false, "single,c4m | c4m");
        check(&[], Some("c1,c2"), Some("c2"), false, "c1,c2 | c2");
        check(&[], Some("c1,c3"), None, false, "VOLLEY-LEG: \"c3\" in --legs is no setting; did you mean c");
        check(&[], Some("c1"), Some("c2"), false, "--baseline \"c2\" has no leg");
        check(&[], Some(","), None, false, "names no setting");
        check(&["c1=codec:lz4"], None, None, false, "already");
    }
}
