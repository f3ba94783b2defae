use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::*;

/// Rows from text: columns `name:type` by spaces, rows by `;`, values by spaces, `-` for NULL; a `|` starts a new batch.
fn rows(columns: &str, text: &str) -> Rows {
    let fields: Vec<Field> = columns
        .split_whitespace()
        .map(|column| {
            let (name, kind) = column.split_once(':').unwrap();
            Field::new(name, type_of(kind), true)
        })
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let batches = text
        .split('|')
        .map(|batch| {
            let lines: Vec<Vec<&str>> = batch
                .split(';')
                .map(|row| row.split_whitespace().collect())
                .filter(|row: &Vec<_>| !row.is_empty())
                .collect();
            let columns = schema.fields().iter().enumerate().map(|(index, field)| {
                let values: StringArray =
                    lines.iter().map(|row| Some(row[index]).filter(|value| *value != "-")).collect();
                cast(&(Arc::new(values) as ArrayRef), field.data_type()).unwrap()
            });
            RecordBatch::try_new(schema.clone(), columns.collect()).unwrap()
        })
        .collect();
    Rows::new(schema, batches)
}

fn type_of(kind: &str) -> DataType {
    let dictionary = |values| DataType::Dictionary(Box::new(DataType::Int8), Box::new(values));
    match kind {
        "int" => DataType::Int32,
        "long" => DataType::Int64,
        "byte" => DataType::UInt8,
        "float" => DataType::Float64,
        "small_float" => DataType::Float32,
        "text" => DataType::Utf8,
        "large" => DataType::LargeUtf8,
        "view" => DataType::Utf8View,
        "dict" => dictionary(DataType::Utf8),
        "dec2" => DataType::Decimal128(9, 2),
        "dec5" => DataType::Decimal128(30, 5),
        "dec64" => DataType::Decimal64(12, 1),
        "wide" => DataType::Decimal256(60, 4),
        "date" => DataType::Date32,
        "date64" => DataType::Date64,
        "seconds" => DataType::Timestamp(TimeUnit::Second, None),
        "nanos" => DataType::Timestamp(TimeUnit::Nanosecond, None),
        "bool" => DataType::Boolean,
        "binary" => DataType::Binary,
        "binary_view" => DataType::BinaryView,
        "list" => DataType::new_list(DataType::Int32, true),
        other => panic!("no type {other}"),
    }
}

/// The verdict in a word or two: `equal`, `equal partly 1`, `needs unlimited`, or the difference and its first rows.
fn word(verdict: Verdict) -> String {
    match verdict {
        Verdict::Equal { order: Order::Free } => "equal free".to_owned(),
        Verdict::Equal { order: Order::Checked } => "equal".to_owned(),
        Verdict::Equal { order: Order::Partly { keys, .. } } => format!("equal partly {keys}"),
        Verdict::NeedsUnlimited => "needs unlimited".to_owned(),
        Verdict::Different { kind, first_rows } => format!("{kind:?} {}", first_rows.replace('\n', " / ")),
    }
}

#[track_caller]
fn check_rows(sql: &str, actual: &Rows, reference: &Rows, unlimited: Option<&Rows>, expect: &str) {
    let reference = Reference { rows: reference, sql, unlimited };
    assert_eq!(word(compare(actual, reference).unwrap()), expect, "{sql}");
}

#[track_caller]
fn check(columns: &str, sql: &str, actual: &str, reference: &str, expect: &str) {
    check_rows(sql, &rows(columns, actual), &rows(columns, reference), None, expect);
}

#[test]
fn rows_are_a_multiset() {
    let sql = "SELECT a, b FROM t";
    let columns = "a:int b:text";
    check(columns, sql, "1 x; 2 y; 2 y", "2 y; 1 x | 2 y", "equal free");
    check(columns, sql, "", "", "equal free");
    check(columns, sql, "- -; 1 -", "1 -; - -", "equal free");
    check(columns, sql, "1 x; 2 y", "1 x", "Rows 2 rows; expected 1 / unexpected row 2: a=2, b=y");
    check(columns, sql, "1 x", "1 x; 1 x", "Rows 1 rows; expected 2 / missing row 2: a=1, b=x");
    check(
        columns,
        sql,
        "1 x; 2 y",
        "1 y; 2 x",
        "Rows unexpected row 1: a=1, b=x / unexpected row 2: a=2, b=y / missing row 1: a=1, b=y / missing row 2: a=2, b=x",
    );
    check(
        columns,
        sql,
        "1 -; 2 a; 3 a; 4 a; 5 a",
        "",
        "Rows 5 rows; expected 0 / unexpected row 1: a=1, b=NULL / unexpected row 2: a=2, b=a / unexpected row 3: a=3, b=a / and 2 more unexpected",
    );
    check_rows(sql, &rows("a:int", "1"), &rows("a:int b:int", "1 1"), None, "Columns columns a; expected a, b");
    check_rows(sql, &rows("a:int", "1"), &rows("b:int", "1"), None, "Columns columns a; expected b");
}

#[test]
fn values_are_equal_whatever_their_type() {
    let same = |kinds: &[&str], values: &str| {
        let columns: Vec<Rows> = kinds.iter().map(|kind| rows(&format!("a:{kind}"), values)).collect();
        for other in &columns[1..] {
            check_rows("SELECT a FROM t ORDER BY a", other, &columns[0], None, "equal");
            assert_eq!(other.digest(), columns[0].digest(), "{kinds:?}");
        }
    };
    same(&["text", "large", "view", "dict"], "a; bb; ccccccccccccccccc; -");
    same(&["int", "long", "byte", "dec2", "dec5", "dec64", "wide"], "0; 1; 100; 255; -");
    same(&["dec2", "dec5", "wide"], "-17.5; 0.25; 1.10; 1000000");
    same(&["date", "date64"], "1998-01-02; 2400-05-17; -");
    same(&["seconds", "nanos"], "1998-01-02T03:04:05; -");
    same(&["binary", "binary_view"], "a; bb; -");

    let differ = |a: (&str, &str), b: (&str, &str)| {
        let (a, b) = (rows(&format!("a:{}", a.0), a.1), rows(&format!("a:{}", b.0), b.1));
        assert_ne!(a.digest(), b.digest());
        assert!(
            word(compare(&a, Reference { rows: &b, sql: "SELECT a", unlimited: None }).unwrap()).starts_with("Rows")
        );
    };
    differ(("int", "1"), ("text", "1"));
    differ(("dec2", "1.10"), ("dec2", "1.01"));
    differ(("dec2", "10"), ("int", "1"));
    differ(("int", "-"), ("int", "0"));
    differ(("text", "-"), ("text", "0"));
    differ(("bool", "true"), ("bool", "false"));
    differ(
        ("wide", "123456789012345678901234567890123456789012345.0001"),
        ("wide", "123456789012345678901234567890123456789012345.0002"),
    );
}

#[test]
fn nested_values_are_compared_as_shown() {
    let list = |values: Vec<Option<i32>>| {
        let array: ArrayRef = Arc::new(datafusion::arrow::array::ListArray::from_iter_primitive::<
            datafusion::arrow::datatypes::Int32Type,
            _,
            _,
        >([Some(values), None]));
        let batch = RecordBatch::try_from_iter([("a", array)]).unwrap();
        Rows::new(batch.schema(), vec![batch])
    };
    let sql = "SELECT a";
    check_rows(sql, &list(vec![Some(1), None]), &list(vec![Some(1), None]), None, "equal free");
    let verdict =
        compare(&list(vec![Some(1)]), Reference { rows: &list(vec![Some(2)]), sql, unlimited: None }).unwrap();
    assert!(!verdict.is_equal());
}

#[test]
fn neighbouring_text_does_not_run_together() {
    let columns = "a:text b:text";
    assert_ne!(rows(columns, "ab c").digest(), rows(columns, "a bc").digest());
    assert_ne!(rows(columns, "- a").digest(), rows(columns, "a -").digest());
}

#[test]
fn floats_are_near() {
    let sql = "SELECT a, f FROM t";
    let columns = "a:int f:float";
    check(columns, sql, "1 0.1; 2 5", "2 5.000000004; 1 0.10000000001", "equal free");
    check(columns, sql, "1 5", "1 5.00000001", "Rows unexpected row 1: a=1, f=5.0 / missing row 1: a=1, f=5.00000001");
    check(columns, sql, "1 NaN; 1 -; 1 -0.0; 1 inf", "1 -; 1 inf; 1 0.0; 1 NaN", "equal free");
    check(columns, sql, "1 NaN", "1 -", "Rows unexpected row 1: a=1, f=NaN / missing row 1: a=1, f=NULL");
    // A column that is floating point on one side.
    check_rows(
        sql,
        &rows("f:float", "0.3333333333"),
        &rows("f:dec5", "0.33333"),
        None,
        "Rows unexpected row 1: f=0.3333333333 / missing row 1: f=0.33333",
    );
    check_rows(sql, &rows("f:float", "0.5; 2"), &rows("f:dec2", "2; 0.5"), None, "equal free");
    check_rows(sql, &rows("f:small_float", "0.5"), &rows("f:float", "0.5"), None, "equal free");
}

#[test]
fn floats_that_cross_find_their_partner() {
    // By the first float the rows sort the other way round than their partners.
    let columns = "f:float g:float";
    let sql = "SELECT f, g FROM t";
    check(columns, sql, "1.0000000001 1; 1 2", "1 1; 1.0000000001 2", "equal free");
    check(
        columns,
        sql,
        "1.0000000001 1; 1 2",
        "1 1; 1.0000000001 3",
        "Rows unexpected row 2: f=1.0, g=2.0 / missing row 2: f=1.0000000001, g=3.0",
    );
    // Missing and surplus rows among near ones: only they are named.
    check(columns, sql, "1 1; 2 2; 3 3", "3 3; 1 1", "Rows 3 rows; expected 2 / unexpected row 2: f=2.0, g=2.0");
}

#[test]
fn order_is_that_of_the_keys() {
    let columns = "a:int b:text f:float";
    let order = |clause: &str| format!("SELECT a, b, f FROM t ORDER BY {clause}");
    let reference = "1 x 1; 1 y 2; 2 x 3; - z 4";
    check(columns, &order("a"), "1 y 2; 1 x 1; 2 x 3; - z 4", reference, "equal");
    check(columns, &order("a NULLS FIRST"), "- z 4; 1 y 2 | 1 x 1; 2 x 3", reference, "equal");
    check(columns, &order("a DESC"), "- z 4; 2 x 3; 1 y 2; 1 x 1", reference, "equal");
    check(columns, &order("a DESC, f"), "- z 4; 2 x 3; 1 x 1; 1 y 2", reference, "equal");
    check(columns, &order("f DESC"), "- z 4; 2 x 3; 1 y 2; 1 x 1", reference, "equal");
    check(columns, &order("a, u"), reference, reference, "equal partly 1");
    check(columns, &order("CASE WHEN a = 1 THEN b END, 3"), reference, reference, "equal");
    check(
        columns,
        &order("b, a"),
        reference,
        reference,
        "Order not in the order of b, a: / row row 2: a=1, b=y, f=2.0 / before row 3: a=2, b=x, f=3.0",
    );
}

#[test]
fn at_a_limit_the_last_rows_may_be_others_with_the_same_key() {
    let columns = "k:int v:text";
    let sql = "SELECT k, v FROM t ORDER BY k LIMIT 3";
    let unlimited = rows(columns, "1 a; 2 b; 2 c; 2 d; 3 e");
    let reference = rows(columns, "1 a; 2 b; 2 c");
    let check = |actual: &str, expect: &str| {
        check_rows(sql, &rows(columns, actual), &reference, Some(&unlimited), expect);
    };
    check("1 a; 2 c; 2 b", "equal");
    check("1 a; 2 d; 2 b", "equal");
    check("1 a; 2 d; 2 d", "Rows unexpected row 3: k=2, v=d");
    check("1 a; 2 d; 2 x", "Rows unexpected row 3: k=2, v=x");
    check("2 b; 2 c; 2 d", "Rows missing row 1: k=1, v=a");
    check("1 a; 2 d; 3 e", "Rows missing row 2: k=2, v=b / missing row 3: k=2, v=c");
    check(
        "1 a; 2 d",
        "Rows 2 rows; expected 3 / unexpected row 2: k=2, v=d / missing row 2: k=2, v=b / missing row 3: k=2, v=c",
    );
    check("2 d; 1 a; 2 b", "Order not in the order of k: / row row 1: k=2, v=d / before row 2: k=1, v=a");
    check_rows(sql, &rows(columns, "1 a; 2 c; 2 b"), &reference, None, "equal");
    check_rows(sql, &rows(columns, "1 a; 2 d; 2 b"), &reference, None, "needs unlimited");

    // No order: any rows of all.
    let any = "SELECT k, v FROM t LIMIT 2";
    let limited = rows(columns, "1 a; 2 b");
    check_rows(any, &rows(columns, "3 e; 2 d"), &limited, Some(&unlimited), "equal free");
    check_rows(any, &rows(columns, "3 e; 3 e"), &limited, Some(&unlimited), "Rows unexpected row 2: k=3, v=e");
}

#[test]
fn a_limit_over_floats_tolerates_their_last_digits() {
    let sql = "SELECT f, v FROM t ORDER BY f DESC LIMIT 2";
    let unlimited = rows("f:float v:dict", "9 a; 5.000000001 b; 5 c; 1 d");
    let reference = rows("f:float v:dict", "9 a; 5.000000001 b");
    let actual = rows("f:float v:view", "9 a; 5.000000002 c");
    check_rows(sql, &actual, &reference, Some(&unlimited), "equal");
}
