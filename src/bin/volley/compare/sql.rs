//! What a query's text says about its result: the keys it is ordered by and its final LIMIT.

use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, LimitClause, OrderByKind, OrderByOptions, Query, SelectItem, SetExpr, Statement as SqlStatement,
    Value, VisitMut, VisitorMut,
};

/// The text of `sql` without its final LIMIT (or FETCH); `None` if there is none to strip: no such clause, an OFFSET (whose
/// rows could not be told from those after them), or not one query.
///
/// A LIMIT inside, in a subquery or one side of a UNION, stays.
pub fn strip_final_limit(sql: &str) -> Option<String> {
    let mut query = parse_query(sql)?;
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit: Some(_), offset: None, limit_by }) if limit_by.is_empty() => {
            query.limit_clause = None;
        }
        Some(_) => return None,
        None => {
            query.fetch.take().filter(|fetch| !fetch.percent && !fetch.with_ties)?;
        }
    }
    Some(query.to_string())
}

/// The one query that `sql` is, as its syntax tree.
fn parse_query(sql: &str) -> Option<Query> {
    let mut statements = DFParser::parse_sql(sql).ok()?;
    let statement = statements.pop_front().filter(|_| statements.is_empty())?;
    match statement {
        Statement::Statement(statement) => match *statement {
            SqlStatement::Query(query) => Some(*query),
            _ => None,
        },
        _ => None,
    }
}

/// The keys that a result is ordered by, most significant first.
#[derive(Debug, Default)]
pub struct OrderBy {
    pub keys: Vec<Key>,
    /// ORDER BY expressions, as text, that cannot be computed from the result's columns, and those after them.
    pub unread: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Key {
    /// Over the result's schema.
    expr: Arc<dyn PhysicalExpr>,
    pub descending: bool,
    pub nulls_first: bool,
    pub text: String,
}

impl Key {
    /// The key's value for every row of `batch`.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        self.expr.evaluate(batch)?.into_array(batch.num_rows())
    }
}

impl OrderBy {
    /// What the final ORDER BY of `sql` says about a result of `schema`. Empty if there is none or `sql` is not one query.
    ///
    /// Keys can be output columns by name, alias or ordinal, expressions that are selected as they stand, and expressions
    /// over output columns. NULLs are DataFusion's default where the text does not say: largest.
    pub fn read(sql: &str, schema: &SchemaRef) -> Self {
        let mut order = Self::default();
        let Some(query) = parse_query(sql) else { return order };
        let Some(clause) = query.order_by else { return order };
        let output = Output::new(&query.body, schema);
        let expressions = match clause.kind {
            OrderByKind::All(options) => {
                for (index, field) in schema.fields().iter().enumerate() {
                    order.keys.push(key(column(field.name(), index), &options, field.name().clone()));
                }
                return order;
            }
            OrderByKind::Expressions(expressions) => expressions,
        };
        let mut rest = expressions.into_iter();
        for item in rest.by_ref() {
            match output.resolve(&item.expr) {
                Some(expr) => order.keys.push(key(expr, &item.options, item.expr.to_string())),
                None => {
                    order.unread.push(item.expr.to_string());
                    break;
                }
            }
        }
        order.unread.extend(rest.map(|item| item.expr.to_string()));
        order
    }
}

fn column(name: &str, index: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(name, index))
}

fn key(expr: Arc<dyn PhysicalExpr>, options: &OrderByOptions, text: String) -> Key {
    let descending = options.asc == Some(false);
    Key { expr, descending, nulls_first: options.nulls_first.unwrap_or(descending), text }
}

/// The output columns of a query, by position: what they are named and what they were selected as.
struct Output<'a> {
    schema: &'a SchemaRef,
    /// The outermost SELECT's items; empty where positions are not known (`*`, set operations).
    items: Vec<(&'a Expr, Option<&'a Ident>)>,
}

impl<'a> Output<'a> {
    fn new(body: &'a SetExpr, schema: &'a SchemaRef) -> Self {
        let mut items = Vec::new();
        if let SetExpr::Select(select) = body {
            for item in &select.projection {
                match item {
                    SelectItem::UnnamedExpr(expr) => items.push((expr, None)),
                    SelectItem::ExprWithAlias { expr, alias } => items.push((expr, Some(alias))),
                    _ => {
                        items.clear();
                        break;
                    }
                }
            }
        }
        if items.len() != schema.fields().len() {
            items.clear();
        }
        Self { schema, items }
    }

    /// `expr` over the result's columns, if it can be had.
    fn resolve(&self, expr: &Expr) -> Option<Arc<dyn PhysicalExpr>> {
        let index = self.ordinal(expr).or_else(|| self.position(expr));
        if let Some(index) = index {
            return Some(column(self.schema.field(index).name(), index));
        }
        self.computed(expr)
    }

    fn ordinal(&self, expr: &Expr) -> Option<usize> {
        let Expr::Value(value) = expr else { return None };
        let Value::Number(number, _) = &value.value else { return None };
        let ordinal: usize = number.to_string().parse().ok()?;
        (1..=self.schema.fields().len()).contains(&ordinal).then(|| ordinal - 1)
    }

    fn position(&self, expr: &Expr) -> Option<usize> {
        // An alias hides what it is called like; a name that is selected unaliased comes next, then the same expression.
        let named = |ident: &Ident, other: &Ident| normal(ident) == normal(other);
        if let Expr::Identifier(ident) = expr {
            let by_alias = self.items.iter().position(|(_, alias)| alias.is_some_and(|alias| named(alias, ident)));
            let by_name = || {
                self.items
                    .iter()
                    .position(|(item, alias)| alias.is_none() && last_name(item).is_some_and(|name| named(name, ident)))
            };
            if let Some(index) = by_alias.or_else(by_name) {
                return Some(index);
            }
        }
        if let Some(index) = self.items.iter().position(|(item, _)| same(item, expr)) {
            return Some(index);
        }
        if let Expr::CompoundIdentifier(parts) = expr {
            // `t.a` where `a` is selected: the same column, unless a second one is called so.
            let mut places = (0..self.items.len()).filter(|index| {
                let (item, alias) = self.items[*index];
                alias.is_none() && matches!(item, Expr::Identifier(ident) if named(ident, parts.last().expect("a compound name has parts")))
            });
            if let (Some(index), None) = (places.next(), places.next()) {
                return Some(index);
            }
        }
        // Positions unknown: by the name alone, if only one column has it.
        let ident = match expr {
            Expr::Identifier(ident) => ident,
            Expr::CompoundIdentifier(parts) if self.items.is_empty() => parts.last()?,
            _ => return None,
        };
        let name = normal(ident);
        let mut places = (0..self.schema.fields().len()).filter(|index| *self.schema.field(*index).name() == name);
        match (places.next(), places.next()) {
            (Some(index), None) => Some(index),
            _ => None,
        }
    }

    /// An expression over output columns, such as `CASE WHEN level = 0 THEN category END`, or over expressions that are
    /// selected as they stand.
    fn computed(&self, expr: &Expr) -> Option<Arc<dyn PhysicalExpr>> {
        static SESSION: LazyLock<SessionContext> = LazyLock::new(SessionContext::new);
        // Under names of our own, which are unique.
        let columns = self.schema.fields().iter().enumerate();
        let columns: Vec<_> = columns.map(|(index, field)| field.as_ref().clone().with_name(own_name(index))).collect();
        let schema = DFSchema::try_from(Schema::new(columns)).ok()?;
        let mut expr = expr.clone();
        let _ = VisitMut::visit(&mut expr, &mut Renamer(self));
        let logical = SESSION.parse_sql_expr(&expr.to_string(), &schema).ok()?;
        SESSION.create_physical_expr(logical, &schema).ok()
    }
}

fn own_name(index: usize) -> String {
    format!("volley_{index}")
}

/// Puts output columns in the place of what they are called or were selected as, outermost first.
struct Renamer<'a>(&'a Output<'a>);

impl VisitorMut for Renamer<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(index) = self.0.position(expr) {
            *expr = Expr::Identifier(Ident::new(own_name(index)));
        }
        ControlFlow::Continue(())
    }
}

/// The column name of `a` or `t.a`.
fn last_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(ident) => Some(ident),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    }
}

/// The same expression, but for the case of unquoted names.
fn same(a: &Expr, b: &Expr) -> bool {
    a == b || a.to_string().eq_ignore_ascii_case(&b.to_string()) && !a.to_string().contains(['"', '\''])
}

fn normal(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn the_final_limit_is_stripped() {
        let check = |sql: &str, expect: Option<&str>| assert_eq!(strip_final_limit(sql).as_deref(), expect, "{sql}");
        check("-- what\nselect a from t order by a limit 100;", Some("SELECT a FROM t ORDER BY a"));
        check("SELECT a FROM t FETCH FIRST 5 ROWS ONLY", Some("SELECT a FROM t"));
        check(
            "SELECT a FROM (SELECT a FROM t LIMIT 3) AS x UNION ALL SELECT b FROM u LIMIT 7",
            Some("SELECT a FROM (SELECT a FROM t LIMIT 3) AS x UNION ALL SELECT b FROM u"),
        );
        check("WITH x AS (SELECT 1 AS a LIMIT 2) SELECT a FROM x", None);
        check("SELECT a FROM t LIMIT 5 OFFSET 2", None);
        check("SELECT a FROM t", None);
        check("SELECT a FROM t LIMIT 1; SELECT 2", None);
        check("CREATE TABLE t AS SELECT 1", None);
        check("SELEC a", None);
    }

    #[test]
    fn keys_are_read() {
        let schema: SchemaRef = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int32, true),
            Field::new("total", DataType::Float64, true),
            Field::new("c", DataType::Utf8, true),
        ]));
        let check = |sql: &str, keys: &str, unread: &[&str]| {
            let order = OrderBy::read(sql, &schema);
            let got: Vec<_> = order
                .keys
                .iter()
                .map(|key| {
                    let nulls = if key.nulls_first { "first" } else { "last" };
                    format!("{} {} {nulls}", key.expr, if key.descending { "desc" } else { "asc" })
                })
                .collect();
            assert_eq!(got.join(", "), keys, "{sql}");
            assert_eq!(order.unread, unread, "{sql}");
        };
        check("SELECT a, sum(b) AS total, c FROM t", "", &[]);
        check(
            "SELECT a, sum(b) AS total, c FROM t ORDER BY total DESC, A, 3 DESC NULLS LAST",
            "total@1 desc first, a@0 asc last, c@2 desc last",
            &[],
        );
        // The expression that was selected, and one over output columns.
        check("SELECT t.a, sum(b) AS total, c FROM t ORDER BY SUM(b), t.a", "total@1 asc last, a@0 asc last", &[]);
        check(
            "SELECT a, sum(b) AS total, c FROM t ORDER BY a + 1 DESC",
            "CAST(volley_0@0 AS Int64) + 1 desc first",
            &[],
        );
        check(
            "SELECT a, grouping(x) + 1 AS total, c FROM t ORDER BY CASE WHEN Grouping(x) + 1 = 0 THEN t.a END",
            "CASE WHEN volley_1@1 = CAST(0 AS Float64) THEN volley_0@0 END asc last",
            &[],
        );
        check("SELECT a, total, c FROM t ORDER BY a + z", "", &["a + z"]);
        // An alias hides a column of that name.
        check("SELECT x AS a, a AS total, c FROM t ORDER BY a", "a@0 asc last", &[]);
        // Not selected: that key and those after it are not checked.
        check("SELECT a, total, c FROM t ORDER BY c, z, a", "c@2 asc last", &["z", "a"]);
        // Unknown positions.
        check("SELECT * FROM t ORDER BY t.total", "total@1 asc last", &[]);
        check("SELECT a, total, c FROM t UNION ALL SELECT 1, 2, 'x' ORDER BY c", "c@2 asc last", &[]);
    }

    #[test]
    fn columns_of_one_name_are_told_apart_by_what_was_selected() {
        let field = || Field::new("a", DataType::Int32, true);
        let schema: SchemaRef = Arc::new(Schema::new(vec![field(), field()]));
        let order = OrderBy::read("SELECT x.a, y.a FROM x JOIN y ON true ORDER BY y.a, x.a", &schema);
        assert_eq!(order.keys.iter().map(|key| key.expr.to_string()).collect::<Vec<_>>(), ["a@1", "a@0"]);
    }
}
