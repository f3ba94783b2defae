//! The queries of a run: the embedded ones, or those of a folder of the user's.

mod embedded;

use std::fs;
use std::path::Path;

use crate::data::Suite;
use crate::error::CliError;
use crate::statements::{SqlText, split};

/// One measured query.
///
/// A run executes `before`, then `sql`, both timed, then `after`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// `q72`, `q14a`.
    pub name: String,
    /// Statements of its file that are no queries, such as `CREATE VIEW`.
    pub before: Vec<String>,
    pub sql: String,
    pub after: Vec<String>,
}

/// The suite's own statements, in order.
///
/// # Errors
/// None that are usual; see [`of_file`].
pub fn embedded(suite: Suite) -> Result<Vec<Query>, CliError> {
    let files = match suite {
        Suite::TpcDs => embedded::TPC_DS,
        Suite::TpcH => embedded::TPC_H,
    };
    let mut queries = Vec::with_capacity(files.len());
    for (name, text) in files {
        queries.extend(of_file(name, text, &format!("the built-in {name}"))?);
    }
    Ok(queries)
}

/// Every `*.sql` in `dir`, by name, numbers in their order.
///
/// # Errors
/// `VOLLEY-QUERY`: no folder, no such file in it, or a file without a query; `VOLLEY-QUERY-SYNTAX` names file and line.
pub fn of_folder(dir: &Path) -> Result<Vec<Query>, CliError> {
    let entries = fs::read_dir(dir).map_err(|error| {
        CliError::usage(
            "VOLLEY-QUERY",
            format!("cannot read the queries in {}: {error}", dir.display()),
            "name a folder with *.sql files with --queries",
        )
    })?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| CliError::io("read folder", dir, &error))?.path();
        if path.extension().is_some_and(|extension| extension == "sql") {
            files.push(path);
        }
    }
    files.sort_by_key(|path| natural_key(&stem(path)));
    let mut queries = Vec::new();
    for path in &files {
        let text = fs::read_to_string(path).map_err(|error| CliError::io("read", path, &error))?;
        queries.extend(of_file(&stem(path), &text, &path.display().to_string())?);
    }
    if queries.is_empty() {
        return Err(CliError::usage(
            "VOLLEY-QUERY",
            format!("{} has no *.sql file", dir.display()),
            "name a folder with *.sql files with --queries",
        ));
    }
    Ok(queries)
}

/// The queries of one file. Several of them become parts with a letter: `q14` is `q14a`, `q14b`. Its other statements run with
/// each part: those before it (in time), those after it (out of time).
fn of_file(name: &str, text: &str, place: &str) -> Result<Vec<Query>, CliError> {
    let statements = split(text).map_err(|error| {
        CliError::usage("VOLLEY-QUERY-SYNTAX", format!("{place}: {error}"), "correct the file, or leave it out")
    })?;
    let asked: Vec<usize> = (0..statements.len()).filter(|at| statements[*at].gives_rows).collect();
    if asked.is_empty() {
        return Err(CliError::usage(
            "VOLLEY-QUERY",
            format!("{place} has no query in it"),
            "write a statement that gives rows, or leave the file out",
        ));
    }
    let others = |part: &[SqlText]| -> Vec<String> {
        part.iter().filter(|statement| !statement.gives_rows).map(|statement| statement.text.clone()).collect()
    };
    let parts = asked.len();
    Ok(asked
        .into_iter()
        .enumerate()
        .map(|(part, at)| Query {
            name: if parts == 1 { name.to_owned() } else { format!("{name}{}", letters(part)) },
            before: others(&statements[..at]),
            sql: statements[at].text.clone(),
            after: others(&statements[at + 1..]),
        })
        .collect())
}

/// `a` to `z`, then `aa`.
fn letters(mut part: usize) -> String {
    let mut text = String::new();
    loop {
        text.insert(0, char::from(b'a' + (part % 26) as u8));
        if part < 26 {
            return text;
        }
        part = part / 26 - 1;
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// `q2` before `q10`.
fn natural_key(name: &str) -> (String, u64, String) {
    let from = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let to = name[from..].find(|c: char| !c.is_ascii_digit()).map_or(name.len(), |at| from + at);
    (name[..from].to_owned(), name[from..to].parse().unwrap_or(0), name[to..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_queries_are_the_folders_files() {
        let check = |suite: Suite, count: usize| {
            let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("queries").join(suite.word());
            assert_eq!(embedded(suite).unwrap(), of_folder(&dir).unwrap());
            assert_eq!(embedded(suite).unwrap().len(), count);
        };
        check(Suite::TpcDs, 103);
        check(Suite::TpcH, 22);
    }

    #[test]
    fn a_file_may_hold_several_statements() {
        let queries = of_file("q15", "CREATE VIEW v AS SELECT 1; SELECT * FROM v; DROP VIEW v", "q15.sql").unwrap();
        assert_eq!(queries.len(), 1);
        assert_eq!((queries[0].before.len(), queries[0].after.len()), (1, 1));
        let names: Vec<_> =
            of_file("q14", "SELECT 1; SELECT 2", "q14.sql").unwrap().into_iter().map(|query| query.name).collect();
        assert_eq!(names, ["q14a", "q14b"]);
    }

    #[test]
    fn a_bad_file_is_named() {
        let check = |text: &str, expect: &str| {
            let error = of_file("q1", text, "my/q1.sql").unwrap_err().to_string();
            assert!(error.contains(expect) && error.contains("my/q1.sql"), "{error}");
        };
        check("SELECT 1;\nSELEC 2", "line 2");
        check("-- only a comment", "no query");
        check("CREATE VIEW v AS SELECT 1", "no query");
    }

    #[test]
    fn files_run_in_the_order_of_their_numbers() {
        let mut names = vec!["q10", "q2", "q1b", "q1a", "extra"];
        names.sort_by_key(|name| natural_key(name));
        assert_eq!(names, ["extra", "q1a", "q1b", "q2", "q10"]);
        assert_eq!([letters(0), letters(25), letters(26)], ["a", "z", "aa"]);
    }
}
