//! A text of several SQL statements as its parts, each as it was written.

use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};

/// One statement, without the semicolon after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlText {
    pub text: String,
    /// Of its first word, from 1.
    pub line: u64,
    /// It answers with rows that are its purpose: a query, EXPLAIN, SHOW.
    pub gives_rows: bool,
}

/// Splits `text` at its semicolons (not at those in strings and comments) and checks that each part can be parsed.
///
/// # Errors
/// What cannot be parsed, with its place: `line 3: …`.
pub fn split(text: &str) -> Result<Vec<SqlText>, String> {
    let tokens =
        Tokenizer::new(&GenericDialect {}, text).tokenize_with_location().map_err(|error| error.to_string())?;
    let offsets = LineOffsets::new(text);
    let mut parts = Vec::new();
    // First word of the part and its place.
    let mut first: Option<Location> = None;
    for token in &tokens {
        match token.token {
            Token::Whitespace(_) | Token::EOF => {}
            Token::SemiColon => {
                if let Some(from) = first.take() {
                    parts.push((from, &text[offsets.byte(from)..offsets.byte(token.span.start)]));
                }
            }
            _ => {
                first.get_or_insert(token.span.start);
            }
        }
    }
    if let Some(from) = first {
        parts.push((from, &text[offsets.byte(from)..]));
    }
    parts.into_iter().map(|(from, text)| part(from.line, text)).collect()
}

fn part(line: u64, text: &str) -> Result<SqlText, String> {
    let text = text.trim_end();
    let mut parsed = DFParser::parse_sql(text).map_err(|error| format!("statement at line {line}: {error}"))?;
    match (parsed.pop_front(), parsed.is_empty()) {
        (Some(statement), true) => Ok(SqlText { text: text.to_owned(), line, gives_rows: gives_rows(&statement) }),
        _ => Err(format!("statement at line {line}: it is not one statement")),
    }
}

fn gives_rows(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => matches!(
            **statement,
            SqlStatement::Query(_)
                | SqlStatement::Explain { .. }
                | SqlStatement::ExplainTable { .. }
                | SqlStatement::ShowVariable { .. }
                | SqlStatement::ShowTables { .. }
                | SqlStatement::ShowColumns { .. }
                | SqlStatement::ShowFunctions { .. }
        ),
        Statement::Explain(_) => true,
        _ => false,
    }
}

/// Where each line begins, to turn a line and column in characters into a byte.
struct LineOffsets<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> LineOffsets<'a> {
    fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    fn byte(&self, at: Location) -> usize {
        let line = usize::try_from(at.line.saturating_sub(1)).unwrap_or(usize::MAX);
        let column = usize::try_from(at.column.saturating_sub(1)).unwrap_or(usize::MAX);
        let start = self.starts.get(line).copied().unwrap_or(self.text.len());
        let rest = &self.text[start..];
        start + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_at_semicolons_that_end_statements() {
        let check = |text: &str, expect: &[(&str, bool)]| {
            let parts = split(text).unwrap();
            let got: Vec<_> = parts.iter().map(|part| (part.text.as_str(), part.gives_rows)).collect();
            assert_eq!(got, expect, "{text}");
        };
        check("SELECT 1", &[("SELECT 1", true)]);
        check("-- a; b\nSELECT ';' AS \"ä;\";\n\nSELECT 2 ;;", &[("SELECT ';' AS \"ä;\"", true), ("SELECT 2", true)]);
        check(
            "CREATE VIEW v AS SELECT 1 AS ü; SELECT * FROM v; DROP VIEW v;",
            &[("CREATE VIEW v AS SELECT 1 AS ü", false), ("SELECT * FROM v", true), ("DROP VIEW v", false)],
        );
        check(
            "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '/x/';EXPLAIN SELECT 1;SHOW TABLES;SET a.b = 1",
            &[
                ("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '/x/'", false),
                ("EXPLAIN SELECT 1", true),
                ("SHOW TABLES", true),
                ("SET a.b = 1", false),
            ],
        );
        check("  -- nothing\n", &[]);
    }

    #[test]
    fn what_cannot_be_parsed_is_named_with_its_line() {
        let error = split("SELECT 1;\n\nSELEC 2").unwrap_err();
        assert!(error.starts_with("statement at line 3:"), "{error}");
        assert!(split("SELECT 'open").is_err());
    }
}
