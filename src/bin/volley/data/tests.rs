use std::fs;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::SessionContext;

use super::*;

fn scale(text: &str) -> Scale {
    text.parse().unwrap()
}

fn make(suite: Suite, text: &str, dir: &Path) -> Result<Dataset, CliError> {
    ensure(suite, &scale(text), dir, &Progress::silent(), &AtomicBool::new(false))
}

/// The names in `dir`, hidden ones too.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn write_own(path: &Path, rows: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let column: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows as i32));
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    let mut writer = ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

async fn count(ctx: &SessionContext, table: &str) -> u64 {
    ctx.table(table).await.unwrap().count().await.unwrap() as u64
}

#[test]
fn scales_are_written_shortest() {
    let check = |text: &str, expect: Option<&str>| {
        assert_eq!(text.parse::<Scale>().ok().map(|scale| scale.to_string()).as_deref(), expect, "{text}");
    };
    check("1", Some("1"));
    check("1.0", Some("1"));
    check(" 0.010", Some("0.01"));
    check("100000", Some("100000"));
    for bad in ["0", "-1", "nan", "inf", "1e9", "big", ""] {
        check(bad, None);
    }
}

#[tokio::test]
async fn data_is_made_once_and_then_used() {
    for suite in [Suite::TpcDs, Suite::TpcH] {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("some/where [new]");
        let made = make(suite, "0.01", &dir).unwrap();
        assert!(made.generated);
        assert_eq!(made.missing_tables(), Vec::<&str>::new());
        let manifest = fs::read_to_string(dir.join("manifest.json")).unwrap();
        let mut expect: Vec<_> = layout::table_names(suite).into_iter().map(str::to_owned).collect();
        expect.push("manifest.json".to_owned());
        expect.sort();
        assert_eq!(names(&dir), expect);

        let again = make(suite, "0.010", &dir).unwrap();
        assert!(!again.generated);
        assert_eq!(again.tables, made.tables);
        assert_eq!(fs::read_to_string(dir.join("manifest.json")).unwrap(), manifest);
        verify(&again, &AtomicBool::new(false)).unwrap();

        let ctx = SessionContext::new();
        register(&ctx, &again).await.unwrap();
        for table in &again.tables {
            assert_eq!(Some(count(&ctx, &table.name).await), table.rows, "{}", table.name);
        }
    }
}

#[tokio::test]
async fn rows_do_not_depend_on_the_number_of_parts() {
    let scale = scale("0.02");
    for suite in [Suite::TpcDs, Suite::TpcH] {
        for plan in
            layout::tables(suite, &scale).into_iter().filter(|plan| plan.parts > 1 || plan.name.ends_with("returns"))
        {
            let rows = |parts: u64| {
                let plan = layout::TablePlan { parts, ..plan.clone() };
                layout::parts(&plan)
                    .iter()
                    .flat_map(|part| generators::open(suite, &scale, part))
                    .map(Result::unwrap)
                    .collect::<Vec<_>>()
            };
            let schema = rows(1)[0].schema();
            let whole = datafusion::arrow::compute::concat_batches(&schema, &rows(1)).unwrap();
            for parts in [3, 4] {
                let cut = datafusion::arrow::compute::concat_batches(&schema, &rows(parts)).unwrap();
                assert!(whole == cut, "{} in {parts} parts", plan.name);
            }
        }
    }
}

#[test]
fn what_the_folder_must_not_be_is_named() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    make(Suite::TpcH, "0.001", &dir).unwrap();
    let check = |suite, scale: &str, code: &str, says: &str| {
        let error = make(suite, scale, &dir).unwrap_err();
        assert_eq!(error.code, code);
        let line = error.to_string();
        assert!(line.contains(says) && !line.contains('\n'), "{line}");
    };
    check(Suite::TpcH, "1", "VOLLEY-DATA-SCALE", "data holds tpch data of scale 0.001, not scale 1");
    check(Suite::TpcDs, "0.001", "VOLLEY-DATA-SUITE", "holds tpch data, not tpcds data");

    let part = dir.join("lineitem/part-0001.parquet");
    let bytes = fs::read(&part).unwrap();
    fs::write(&part, &bytes[..bytes.len() - 1]).unwrap();
    check(Suite::TpcH, "0.001", "VOLLEY-DATA-DAMAGED", "lineitem/part-0001.parquet has");
    fs::remove_file(&part).unwrap();
    check(Suite::TpcH, "0.001", "VOLLEY-DATA-DAMAGED", "lineitem/part-0001.parquet is missing");

    // Same size, another byte: only reading shows it.
    let mut wrong = bytes.clone();
    wrong[bytes.len() / 2] ^= 1;
    fs::write(&part, &wrong).unwrap();
    let dataset = make(Suite::TpcH, "0.001", &dir).unwrap();
    assert_eq!(verify(&dataset, &AtomicBool::new(false)).unwrap_err().code, "VOLLEY-DATA-DAMAGED");

    fs::write(dir.join("manifest.json"), r#"{"format": 99, "new": true}"#).unwrap();
    check(Suite::TpcH, "0.001", "VOLLEY-DATA-MANIFEST", "its format is 99");
    fs::write(dir.join("manifest.json"), "{").unwrap();
    check(Suite::TpcH, "0.001", "VOLLEY-DATA-MANIFEST", "manifest.json cannot be used");
}

#[test]
fn an_unfinished_folder_is_made_anew() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    // As a process leaves it that is killed while it moves tables into place.
    fs::create_dir_all(dir.join(".volley-partial/orders")).unwrap();
    fs::write(dir.join(".volley-partial/orders/part-0000.parquet"), "half").unwrap();
    fs::write(dir.join(".volley-partial/lock"), "").unwrap();
    write_own(&dir.join("lineitem/part-0007.parquet"), 3);
    assert!(open(Suite::TpcH, None, &dir).unwrap().is_none());
    let made = make(Suite::TpcH, "0.001", &dir).unwrap();
    assert!(made.generated);
    assert!(!dir.join(".volley-partial").exists());
    assert!(!dir.join("lineitem/part-0007.parquet").exists());
}

#[test]
fn interrupting_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let stopped = AtomicBool::new(true);
    let error = ensure(Suite::TpcH, &scale("1"), &dir, &Progress::silent(), &stopped).unwrap_err();
    assert_eq!(error.code, "VOLLEY-INTERRUPTED");
    assert!(!dir.exists());

    // In the middle of the work.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let work = scope.spawn(|| ensure(Suite::TpcH, &scale("1"), &dir, &Progress::silent(), &stop));
        while !dir.join(".volley-partial/lineitem").exists() {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(work.join().unwrap().unwrap_err().code, "VOLLEY-INTERRUPTED");
    });
    assert!(!dir.exists());
}

#[test]
fn two_at_once_make_it_once() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let made: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| make(Suite::TpcH, "0.01", &dir).unwrap().generated)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(made.iter().filter(|made| **made).count(), 1, "{made:?}");
    assert!(!dir.join(".volley-partial").exists());
}

#[tokio::test]
async fn a_users_own_folder_is_used_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path();
    assert!(open(Suite::TpcDs, None, dir).unwrap().is_none(), "empty");
    fs::write(dir.join("notes.txt"), "mine").unwrap();
    assert_eq!(make(Suite::TpcDs, "1", dir).unwrap_err().code, "VOLLEY-DATA-FOREIGN");

    write_own(&dir.join("item.parquet"), 5);
    write_own(&dir.join("Mine/a.parquet"), 3);
    write_own(&dir.join("Mine/b.parquet"), 4);
    write_own(&dir.join("empty.parquet"), 0);
    let own = make(Suite::TpcDs, "1", dir).unwrap();
    assert!(own.manifest.is_none() && !own.generated);
    assert_eq!(own.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), ["Mine", "empty", "item"]);
    assert!(own.missing_tables().contains(&"store_sales") && !own.missing_tables().contains(&"item"));
    let ctx = SessionContext::new();
    register(&ctx, &own).await.unwrap();
    register(&ctx, &own).await.unwrap();
    assert_eq!(count(&ctx, "item").await, 5);
    assert_eq!(count(&ctx, "empty").await, 0);
    assert_eq!(count(&ctx, "\"Mine\"").await, 7);

    fs::write(dir.join("item.parquet"), "no Parquet").unwrap();
    let own = make(Suite::TpcDs, "1", dir).unwrap();
    let error = register(&ctx, &own).await.unwrap_err();
    assert_eq!(error.code, "VOLLEY-DATA-DAMAGED");
    assert!(error.to_string().contains("item.parquet"), "{error}");

    write_own(&dir.join("item/a.parquet"), 1);
    assert_eq!(make(Suite::TpcDs, "1", dir).unwrap_err().code, "VOLLEY-DATA-FOREIGN");
}

#[test]
fn a_path_that_is_a_file_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = make(Suite::TpcDs, "1", file.path()).unwrap_err();
    assert!(error.to_string().contains(&*file.path().to_string_lossy()), "{error}");
}

/// Digests of all rows, as the generators' own command makes them at scale 0.01 in one file a table.
#[test]
fn rows_are_those_of_the_generators_command() {
    let check = |suite, expect: &[(&str, usize, &str)]| {
        let scale = scale("0.01");
        for plan in layout::tables(suite, &scale).iter().filter(|plan| plan.name != "dbgen_version") {
            let parts = layout::parts(plan);
            let mut readers = parts.iter().map(|part| generators::open(suite, &scale, part)).peekable();
            let schema = readers.peek().unwrap().schema();
            let rows = crate::compare::Rows::new(schema, readers.flatten().map(Result::unwrap).collect());
            let found = (plan.name, rows.count(), rows.digest().to_string());
            let found = (found.0, found.1, found.2.as_str());
            assert!(expect.contains(&found), "{found:?}");
        }
    };
    check(Suite::TpcDs, &TPC_DS_DIGESTS);
    check(Suite::TpcH, &TPC_H_DIGESTS);
}

const TPC_DS_DIGESTS: [(&str, usize, &str); 24] = [
    ("call_center", 2, "830f63fb04524559f41ad2fd5f7ca196"),
    ("catalog_page", 11_718, "f17b9c95db5ae4525cdc316dc8a3ac9a"),
    ("catalog_returns", 8_923, "33cb03a6764de69babd24da3a6c86e78"),
    ("catalog_sales", 89_807, "cec95089eef5a44f07ac6b4159a137fc"),
    ("customer", 1_000, "3e2d684db9403e93b2ed261233f9899d"),
    ("customer_address", 1_000, "25f0bd0c70bc870c4565b59657822a32"),
    ("customer_demographics", 1_920_800, "0fb862b25711cbbf4a65882bdfafd2d6"),
    ("date_dim", 73_049, "365811d981f902e25c243f774457b083"),
    ("household_demographics", 7_200, "f24a881688be941e28f02ac77775eec1"),
    ("income_band", 20, "3a67c93844b9ced098cd938557a12eae"),
    ("inventory", 261_261, "16252f266c85522921b4d5cbfa0affff"),
    ("item", 2_000, "8ea1780d42345683d4d50fd3c4966601"),
    ("promotion", 3, "e56ecf44a0cb0767b53e68ef947cc1bf"),
    ("reason", 75, "aadd2ce295ba1e26445a5cdddcf1256e"),
    ("ship_mode", 20, "34fbcdfa6f5a5c19f1c9bd3a13861521"),
    ("store", 2, "5a1037533999969bd769ddec4bd7d01d"),
    ("store_returns", 11_925, "55043910b3025719d025fef7d0f6df82"),
    ("store_sales", 120_527, "95a9ca88787e807478257c6237f7dacb"),
    ("time_dim", 86_400, "91708e46953bbaccbc5da637592c57fd"),
    ("warehouse", 1, "ddcbf7579b4884648dbc260c1a3a7bc9"),
    ("web_page", 2, "7f5343060349902f42846355b8c15725"),
    ("web_returns", 1_152, "c650ca7ed0e72349913efe9ed8a9a11e"),
    ("web_sales", 11_876, "86c54c0258046de65c298b86e091d7d8"),
    ("web_site", 2, "849504d6da7a2ef0a53e6a155bcbb9c6"),
];

const TPC_H_DIGESTS: [(&str, usize, &str); 8] = [
    ("customer", 1_500, "e57fafce416d49f5d7554f78f1f32a95"),
    ("lineitem", 60_175, "bf21fd139f35eb77edec96f0aaeda890"),
    ("nation", 25, "d58fa9e1807bf1fd34273c10f0ecf20f"),
    ("orders", 15_000, "e0f414f04c712eff6872f6b90fdad29f"),
    ("part", 2_000, "d20494acf5d02991422a632d2d28f460"),
    ("partsupp", 8_000, "e813abaf6d808e7fea695081377d37f9"),
    ("region", 5, "6ca61755ef68566f3275f21f5eaa2522"),
    ("supplier", 100, "3b7cf08bf14aef4171604899a38fdf36"),
];
