//! Rules about the source itself: which room may import which.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The ladder: a room imports only rooms of earlier rows; rooms of one row never import each other.
const LADDER: &[&[&str]] = &[
    &["ids"],
    &["error"],
    &["config"],
    &["wire"],
    &["shuffle"],
    &["exchange", "control"],
    &["exec"],
    &["codec"],
    &["plan"],
    &["scheduler", "executor"],
    &["session"],
    &["testkit"],
];

/// Where network types may be named.
const NETWORK_ROOMS: &[&str] = &["wire", "codec", "exchange/flight", "control/flight", "executor/server"];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a source folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Library sources as `(path below src, text)`.
fn library() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = vec![];
    sources(&root, &mut paths);
    paths
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&root).expect("below src").to_string_lossy().replace('\\', "/");
            (name, std::fs::read_to_string(&path).expect("a source file"))
        })
        .filter(|(name, _)| !name.starts_with("bin/") && name != "lib.rs")
        .collect()
}

fn room(name: &str) -> &str {
    name.split(['/', '.']).next().unwrap_or(name)
}

#[test]
fn rooms_import_only_rooms_above_them() {
    let rank: BTreeMap<&str, usize> =
        LADDER.iter().enumerate().flat_map(|(rank, rooms)| rooms.iter().map(move |room| (*room, rank))).collect();
    let mut wrong = vec![];
    for (name, text) in library() {
        let own = room(&name);
        let Some(own_rank) = rank.get(own) else {
            wrong.push(format!("{name}: the room {own} is not on the ladder"));
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            for (at, _) in line.match_indices("crate::") {
                let used: String = line[at + "crate::".len()..]
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                    .collect();
                if used == own || !rank.contains_key(used.as_str()) {
                    continue;
                }
                if rank[used.as_str()] >= *own_rank {
                    wrong.push(format!("{name}:{}: {own} imports {used}, which is not above it", number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn network_types_stay_where_the_network_is() {
    let mut wrong = vec![];
    for (name, text) in library() {
        if NETWORK_ROOMS.iter().any(|allowed| name.starts_with(allowed)) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if ["tonic::", "prost::", "arrow_flight::"].iter().any(|network| code.contains(network)) {
                wrong.push(format!("{name}:{}: {line}", number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
