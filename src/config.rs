//! Options as users set them (`SET volley.codec = 'lz4'`), checked when they are set.
//!
//! [`VolleyOptions`] is a DataFusion `ConfigExtension` with the prefix `volley`: it shows in `SHOW ALL`,
//! travels with every query and is typed, so that an illegal value cannot be stored. What belongs to an
//! executor and cannot change per query is known by name and refused with the place where it is set.
//!
//! Depends on `error`. Contains no use of the options: each room reads the fields it needs.

use std::any::Any;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{DataFusionError, Result as DfResult};

use crate::error::{ErrorCode, VolleyError};

/// A number of bytes, written `4096`, `256KiB`, `1MiB`, `2GB` (powers of 1,024 with `i`, of 1,000 without).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `n` KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// The number, for sizes of things in memory.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if self.0 >= 1 << shift && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let bad = || {
            format!("'{text}' is not a size: write a number with an optional unit, such as 4096, 256KiB, 1MiB or 2GB")
        };
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(bad()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).map(Bytes).ok_or_else(bad);
        }
        let value = number.parse::<f64>().map_err(|_| bad())? * factor as f64;
        if !value.is_finite() || value < 0.0 || value >= u64::MAX as f64 {
            return Err(bad());
        }
        Ok(Bytes(value as u64))
    }
}

/// A duration in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Millis(pub u64);

impl Millis {
    /// The duration.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Millis {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.trim().parse().map(Millis).map_err(|_| format!("'{text}' is not a whole number of milliseconds"))
    }
}

/// How the bodies of blocks are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum BodyCodec {
    /// Not at all: the cheapest on one host and from about 10 Gbit/s per consuming core.
    #[default]
    None,
    /// LZ4 frames, per Arrow buffer.
    Lz4,
    /// Zstandard with a level, per Arrow buffer.
    Zstd {
        /// 1 (fastest) to 22.
        level: i32,
    },
}

impl fmt::Display for BodyCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BodyCodec::None => f.write_str("none"),
            BodyCodec::Lz4 => f.write_str("lz4"),
            BodyCodec::Zstd { level } => write!(f, "zstd({level})"),
        }
    }
}

impl FromStr for BodyCodec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim().to_ascii_lowercase();
        let bad = || format!("'{text}' is not a codec: write none, lz4, zstd or zstd(LEVEL) with a level from 1 to 22");
        match text.as_str() {
            "none" | "uncompressed" => return Ok(BodyCodec::None),
            "lz4" => return Ok(BodyCodec::Lz4),
            "zstd" => return Ok(BodyCodec::Zstd { level: 1 }),
            _ => {}
        }
        let level = text.strip_prefix("zstd(").and_then(|rest| rest.strip_suffix(')')).ok_or_else(bad)?;
        match level.trim().parse() {
            Ok(level @ 1..=22) => Ok(BodyCodec::Zstd { level }),
            _ => Err(bad()),
        }
    }
}

/// What happens to a query, or a part of one, that cannot run on executors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LocalFallback {
    /// The session runs it, whatever its size.
    Always,
    /// The session runs it if it reads no more than `max_local_bytes`.
    #[default]
    Small,
    /// It is an error.
    Never,
}

impl fmt::Display for LocalFallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LocalFallback::Always => "always",
            LocalFallback::Small => "small",
            LocalFallback::Never => "never",
        })
    }
}

impl FromStr for LocalFallback {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "always" => Ok(LocalFallback::Always),
            "small" => Ok(LocalFallback::Small),
            "never" => Ok(LocalFallback::Never),
            _ => Err(format!("'{text}' is not always, small or never")),
        }
    }
}

/// A value that a plain `FromStr` reads, with an error that says what it should be.
trait OptionValue: Sized + fmt::Display {
    fn read(text: &str) -> Result<Self, String>;
}

macro_rules! option_values {
    ($($ty:ty: $what:literal),*) => { $(
        impl OptionValue for $ty {
            fn read(text: &str) -> Result<Self, String> {
                text.trim().parse().map_err(|_| format!("'{text}' is not {}", $what))
            }
        }
    )* };
    (own $($ty:ty),*) => { $(
        impl OptionValue for $ty {
            fn read(text: &str) -> Result<Self, String> { text.parse() }
        }
    )* };
}
option_values!(bool: "true or false", usize: "a whole number", u32: "a whole number");
option_values!(own Bytes, Millis, BodyCodec, LocalFallback);

macro_rules! volley_options {
    ($($(#[doc = $doc:literal])* $name:ident: $ty:ty = $default:expr, $check:expr;)*) => {
        /// The options of a session, prefix `volley`.
        #[derive(Clone, Debug, PartialEq)]
        pub struct VolleyOptions {
            $($(#[doc = $doc])* pub $name: $ty,)*
        }

        impl Default for VolleyOptions {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl VolleyOptions {
            /// Every option's name, without the prefix.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name),)*];

            /// Sets one option by name.
            ///
            /// # Errors
            /// A name that does not exist, a value that is not of the option's type or range.
            pub fn set_text(&mut self, name: &str, value: &str) -> Result<(), VolleyError> {
                match name {
                    $(stringify!($name) => {
                        let read = <$ty as OptionValue>::read(value)
                            .map_err(|why| invalid(name, why))?;
                        let check: fn(&$ty) -> Result<(), String> = $check;
                        check(&read).map_err(|why| invalid(name, why))?;
                        self.$name = read;
                        Ok(())
                    })*
                    _ => Err(unknown(name)),
                }
            }

            /// Every option with its value as text: `(name without prefix, value)`.
            pub fn to_texts(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), self.$name.to_string()),)*]
            }

            fn docs() -> Vec<(&'static str, &'static str)> {
                vec![$((stringify!($name), concat!($($doc),*)),)*]
            }
        }
    };
}

fn any<T>(_: &T) -> Result<(), String> {
    Ok(())
}

fn at_least_one<T: PartialOrd + From<u8> + fmt::Display>(value: &T) -> Result<(), String> {
    if *value < T::from(1) { Err(format!("{value} is too small: at least 1")) } else { Ok(()) }
}

fn positive(value: &Millis) -> Result<(), String> {
    if value.0 == 0 { Err("0 would expire at once: at least 1 (milliseconds)".into()) } else { Ok(()) }
}

fn between(value: Bytes, low: Bytes, high: Bytes) -> Result<(), String> {
    if value < low || value > high {
        return Err(format!("{value} is out of range: from {low} to {high}"));
    }
    Ok(())
}

volley_options! {
    /// Whether queries are distributed at all; `false` makes the session a plain one.
    enabled: bool = true, any;
    /// Whether a query all of whose tables live in the session (`MemTable`, providers without a codec) is distributed too. Off: moving the rows out costs more than it saves.
    force: bool = false, any;
    /// Whether EXPLAIN has a `distributed_plan` row and EXPLAIN ANALYZE the metrics of tasks; off gives DataFusion's own output, byte for byte.
    explain: bool = true, any;
    /// What happens to a query, or a part of one, that cannot run on executors: always, small or never run it in the session. Small keeps a large query from killing the process that embeds it.
    local_fallback: LocalFallback = LocalFallback::Small, any;
    /// Bytes of table files (after pruning) above which `local_fallback = small` refuses. 1 GiB: minutes of one process, not hours.
    max_local_bytes: Bytes = Bytes::mib(1024), any;
    /// Bytes of table files (after pruning) below which a query stays in the session. 0: every query is distributed.
    min_distributed_bytes: Bytes = Bytes(0), any;
    /// Bytes of table files up to which a join's build side runs in every task instead of being moved. 8 MiB: below that reading it again costs less than a stage.
    replicate_max_bytes: Bytes = Bytes::mib(8), any;
    /// Rows of a finished build stage up to which its join keys are put into scans of other stages. 1,000,000 rows are counted in milliseconds; 0 switches it off.
    filter_max_rows: usize = 1_000_000, any;
    /// Distinct join keys up to which a filter across stages is a list and not only a range.
    filter_max_values: usize = 1_000, any;
    /// HTTP/2 connections to each peer, used in turn. 1: more pays only where one connection has a bandwidth limit or cores are idle; cost: one socket each.
    channels_per_peer: usize = 1, at_least_one;
    /// Compression of block bodies: none, lz4, zstd or zstd(LEVEL). None: on one host and fast networks compressing costs more than it saves.
    codec: BodyCodec = BodyCodec::None, any;
    /// Bytes at which the writer closes a block, before compression. 1 MiB: small enough for the caches, large enough that the fixed cost per message (about 12 us) vanishes; cost: this times partitions of a writing task.
    message_bytes: Bytes = Bytes::mib(1), |v: &Bytes| between(*v, Bytes::kib(4), Bytes::mib(256));
    /// HTTP/2 window of one stream. 1 MiB: above bandwidth times delay up to 25 Gbit/s x 0.2 ms, and it stays in the cache; cost: this per unread stream.
    window_bytes: Bytes = Bytes::mib(1), |v: &Bytes| between(*v, Bytes::kib(64), Bytes::mib(1024));
    /// Largest HTTP/2 frame a reader accepts. 256 KiB: 11 times fewer system calls than the default of 16 KiB, the knee of the curve.
    frame_bytes: Bytes = Bytes::kib(256), |v: &Bytes| between(*v, Bytes::kib(16), Bytes(16_777_215));
    /// Tries of a task before the query fails.
    task_attempts: u32 = 3, at_least_one;
    /// Milliseconds to connect and shake hands with an executor.
    connect_timeout_ms: Millis = Millis(5_000), positive;
    /// Milliseconds without a byte after which a data stream counts as broken, and without a sign of life a task as lost. Executors report each second.
    stall_timeout_ms: Millis = Millis(30_000), positive;
    /// Milliseconds after losing sight of a session before an executor drops the query's tasks and shuffles.
    lease_grace_ms: Millis = Millis(10_000), positive;
}

/// Options of an executor process, with the place where each is set: they cannot change per query.
const EXECUTOR_OPTIONS: &[(&str, &str)] = &[
    ("slots", "--slots of `volley executor`"),
    ("memory", "--memory of `volley executor`"),
    ("shuffle_memory", "--shuffle-memory of `volley executor`"),
    ("work_dir", "--work-dir of `volley executor`"),
    ("disk_limit", "--disk-limit of `volley executor`"),
    ("listen", "--listen of `volley executor`"),
    ("token", "--token-file of `volley executor`, or ClusterOptions::with_token"),
    ("executors", "the Cluster that the session was built with"),
];

fn invalid(name: &str, why: impl fmt::Display) -> VolleyError {
    VolleyError::new(ErrorCode::InvalidOption, format!("volley.{name}: {why}"))
}

fn unknown(name: &str) -> VolleyError {
    if let Some((_, place)) = EXECUTOR_OPTIONS.iter().find(|(known, _)| *known == name) {
        return invalid(name, format!("belongs to an executor and cannot change per query; set it with {place}"));
    }
    let nearest = VolleyOptions::NAMES.iter().min_by_key(|known| edit_distance(known, name));
    let hint = nearest.map(|known| format!("; did you mean volley.{known}?")).unwrap_or_default();
    invalid(name, format!("no such option{hint} (SHOW ALL lists them)"))
}

/// Levenshtein distance in characters, for the suggestion of an option's name.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

impl ConfigExtension for VolleyOptions {
    const PREFIX: &'static str = "volley";
}

impl ExtensionOptions for VolleyOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> DfResult<()> {
        self.set_text(key, value).map_err(|error| DataFusionError::Configuration(error.to_string()))
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let docs = Self::docs();
        self.to_texts()
            .into_iter()
            .zip(docs)
            .map(|((name, value), (_, description))| ConfigEntry {
                key: format!("{}.{name}", Self::PREFIX),
                value: Some(value),
                description: description.trim(),
            })
            .collect()
    }
}

impl VolleyOptions {
    /// The options in a session's configuration; the defaults where the extension is not registered.
    pub fn of(config: &ConfigOptions) -> VolleyOptions {
        config.extensions.get::<VolleyOptions>().cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_when_set() {
        let cases: &[(&str, &str, Result<(), &str>)] = &[
            ("codec", "zstd(3)", Ok(())),
            ("codec", "snappy", Err("is not a codec")),
            ("codec", "zstd(99)", Err("1 to 22")),
            ("message_bytes", "256KiB", Ok(())),
            ("message_bytes", "12 parsecs", Err("is not a size")),
            ("message_bytes", "1", Err("out of range")),
            ("channels_per_peer", "0", Err("at least 1")),
            ("stall_timeout_ms", "0", Err("expire at once")),
            ("local_fallback", "sometimes", Err("always, small or never")),
            ("memory", "1GiB", Err("--memory of `volley executor`")),
            ("chanels_per_peer", "2", Err("did you mean volley.channels_per_peer?")),
        ];
        for (name, value, expect) in cases {
            let got = VolleyOptions::default().set_text(name, value);
            match (got, expect) {
                (Ok(()), Ok(())) => {}
                (Err(error), Err(text)) if error.to_string().contains(text) => {}
                (got, _) => panic!("{name} = {value}: {got:?}, expected {expect:?}"),
            }
        }
    }

    #[test]
    fn texts_set_the_same_options_again() {
        let mut options = VolleyOptions { codec: BodyCodec::Zstd { level: 7 }, ..VolleyOptions::default() };
        options.message_bytes = Bytes(5_000);
        let mut copy = VolleyOptions::default();
        for (name, value) in options.to_texts() {
            copy.set_text(name, &value).unwrap();
        }
        assert_eq!(copy, options);
    }

    #[test]
    fn every_option_says_what_it_is() {
        for entry in VolleyOptions::default().entries() {
            assert!(entry.description.len() > 20, "{} has no description", entry.key);
        }
    }
}
