#!/usr/bin/env python3
"""Proves our statements of the TPC-DS and TPC-H queries against DuckDB's.

`queries/tpcds` and `queries/tpch` hold our own wording of the benchmarks' queries. DuckDB ships its wording in its
`tpcds` and `tpch` extensions. Over one folder of Parquet this program shows, query by query:

1. **Rows, without the final LIMIT.** DuckDB runs both texts; every row must be equal, in the order of the ORDER BY.
2. **Rows, with it.** Ours must be a right beginning of DuckDB's unlimited result: above the last sort key the same
   rows, at it (where a LIMIT may cut rows that tie) rows that are among those with that key.
3. **The parts DuckDB lacks** (of TPC-DS 14, 23, 24 and 39 it has one of two): ours on DuckDB against ours in
   `volley sql --engine single`, with the LIMIT and without.
4. **Joins.** DataFusion's physical plans of both texts must have the same joins in the same order: a wording must not
   make a query faster or slower. Where they differ, both are timed, alternating, and the difference is printed; that
   is information, not a failure.

How rows are compared: column names as in DuckDB's text, unless the text leaves the name to the engine; integers,
decimals, dates and strings exactly; a column that is floating-point in either text to a relative 1e-9. Rows whose sort
keys are equal may come in any order, and keys after a floating-point key do not count, since the last digits of that key
decide. NULLs sort as in DataFusion (last ascending, first descending).

Usage:

    scripts/check-queries.py --data tpcds=DIR --data tpch=DIR --volley target/release/volley
    scripts/check-queries.py --suite tpcds --data DIR --query q3,q7-q12,q14b --duckdb-only

DIR holds TABLE.parquet or TABLE/*.parquet for every table, as `volley tpcds` and `volley tpch` write it. DuckDB 1.5.5
comes from PyPI into `.venv/check-queries`, once, unless the Python that runs this program has it.

Exit status: 0 all right; 1 a difference; 2 usage, data or environment; 3 no difference, but parts were not run.

The queries are derived from TPC-DS and TPC-H, restated; results are not audited and not comparable to published ones.
"""

import argparse
import csv
import datetime
import decimal
import io
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DUCKDB = "1.5.5"
PACKAGES = [f"duckdb=={DUCKDB}", f"duckdb-extension-tpcds=={DUCKDB}", f"duckdb-extension-tpch=={DUCKDB}"]

TABLES = {
    "tpcds": (
        "call_center catalog_page catalog_returns catalog_sales customer customer_address customer_demographics "
        "date_dim household_demographics income_band inventory item promotion reason ship_mode store store_returns "
        "store_sales time_dim warehouse web_page web_returns web_sales web_site"
    ).split(),
    "tpch": "customer lineitem nation orders part partsupp region supplier".split(),
}
QUERIES = {"tpcds": 99, "tpch": 22}
# The queries of two statements, and which of the two DuckDB has.
TWO_PARTS = {"tpcds": {14: "a", 23: "b", 24: "a", 39: "a"}, "tpch": {}}

# Sums of doubles differ in their last digits with the order of addition; nothing else may.
RELATIVE = 1e-9

# A statement that goes wrong (a cross product) is to fail, not to fill the disk.
SPILL = "16GB"


def main():
    options = parse_options()
    enter_environment()
    passed, failed, not_run = 0, 0, []
    for suite, folder in options.data.items():
        checker = Checker(suite, folder, options)
        for query in select(suite, options.query):
            outcome = checker.check(query)
            print(f"{suite} {outcome}", flush=True)
            passed += outcome.verdict == "ok"
            failed += outcome.verdict == "FAILED"
            not_run += [f"{suite} {query.name}: {part}" for part in outcome.not_run]
    summarise_not_run(not_run, options)
    print(f"{passed} passed, {failed} failed")
    if failed:
        return 1
    return 3 if not_run and not options.duckdb_only else 0


def summarise_not_run(not_run, options):
    if not_run:
        why = "--duckdb-only" if options.duckdb_only else "no --volley PATH"
        print(f"not run ({why}): {len(not_run)} checks")
        for line in not_run:
            # The join checks are one for every query: counting them says enough.
            if not line.endswith(JOINS):
                print(f"  {line}")


# ---------------------------------------------------------------------------------------------------------------------
# Options and environment


def parse_options():
    parser = argparse.ArgumentParser(
        description="Proves our statements of the TPC-DS and TPC-H queries against DuckDB's, over the same Parquet.",
        epilog="Exit status: 0 all right, 1 a difference, 2 usage, data or environment, 3 parts were not run.",
    )
    parser.add_argument("--suite", choices=["tpcds", "tpch", "all"], help="default: the suites that --data names, else tpcds")
    parser.add_argument("--data", action="append", required=True, metavar="[SUITE=]DIR",
                        help="folder with TABLE.parquet or TABLE/*.parquet; give it twice, with SUITE=, for both suites")
    parser.add_argument("--query", metavar="LIST", help="which queries, as q3,q7-q12,q14b (default: all)")
    parser.add_argument("--queries", metavar="DIR", default=ROOT / "queries", type=Path,
                        help="folder with tpcds/qNN.sql and tpch/qNN.sql (default: the repository's)")
    parser.add_argument("--volley", metavar="PATH", help="the volley binary; without it what needs DataFusion is not run")
    parser.add_argument("--duckdb-only", action="store_true", help="leave out what needs DataFusion, on purpose")
    parser.add_argument("--runs", type=int, default=3, metavar="N",
                        help="timed runs of each text where the joins differ (default 3)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), metavar="N", help="DuckDB's threads (default: all)")
    parser.add_argument("--memory", default="8GB", metavar="SIZE", help="DuckDB's memory (default 8GB)")
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS",
                        help="for one run of a statement (default 300)")
    parser.add_argument("--verbose", action="store_true", help="print both join orders where they differ")
    options = parser.parse_args()

    if options.runs < 1:
        parser.error("--runs must be at least 1")
    if options.duckdb_only and options.volley:
        parser.error("--duckdb-only and --volley exclude each other")
    if options.volley and not os.access(options.volley, os.X_OK):
        parser.error(f"--volley {options.volley} is no program that can be run")
    options.data = data_folders(parser, options.suite, options.data)
    for suite in options.data:
        try:
            select(suite, options.query)
        except ValueError as error:
            parser.error(str(error))
    return options


def data_folders(parser, suite, values):
    """`--suite` and `--data` -> {suite: folder}, each folder complete."""
    named, bare = {}, []
    for value in values:
        word, equals, folder = value.partition("=")
        if equals and word in TABLES:
            named[word] = folder
        else:
            bare.append(value)
    suites = list(TABLES) if suite == "all" else [suite] if suite else sorted(named) or ["tpcds"]
    if len(bare) > 1 or (bare and len(suites) > 1):
        parser.error("one folder holds one suite: give --data tpcds=DIR --data tpch=DIR")
    folders = {}
    for each in suites:
        if each not in named and not bare:
            parser.error(f"no data for {each}: add --data {each}=DIR")
        folder = Path(named.get(each) or bare[0]).resolve()
        missing = [table for table in TABLES[each] if parquet(folder, table) is None]
        if missing:
            lacks = "no table" if missing == TABLES[each] else f"no {', '.join(missing)}"
            parser.error(f"{folder} has {lacks} of {each}: volley {each} --data DIR makes them")
        if (folder / ".volley-partial").exists() and not (folder / "manifest.json").exists():
            parser.error(f"{folder} was being generated and is not complete: volley {each} --data {folder} makes it anew")
        folders[each] = folder
    return folders


def parquet(folder, table):
    """The table's folder or file; None if there is neither."""
    return next((path for path in (folder / table, folder / f"{table}.parquet") if path.exists()), None)


def enter_environment():
    """Goes on in a Python that has the pinned DuckDB, which is made when there is none. May not return."""
    try:
        import duckdb, duckdb_extension_tpcds, duckdb_extension_tpch  # noqa: F401, E401

        if duckdb.__version__ == DUCKDB:
            return
    except ImportError:
        pass
    folder = ROOT / ".venv" / "check-queries"
    python = folder / "bin" / "python"
    by_hand = f"python3 -m venv {folder} && {python} -m pip install {' '.join(PACKAGES)}"
    if Path(sys.prefix) == folder:
        # We are in it already, and it does not have what it should.
        fail(f"DuckDB {DUCKDB} is missing in {folder}; to repair it: rm -r {folder} && {by_hand}")
    if not python.exists():
        print(f"installing DuckDB {DUCKDB} into {folder}", file=sys.stderr)
        try:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True, stdout=sys.stderr)
            subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True, stdout=sys.stderr)
        except (OSError, subprocess.CalledProcessError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            fail(f"DuckDB {DUCKDB} could not be installed ({error}); by hand: {by_hand}")
    os.execv(python, [str(python), *sys.argv])


def fail(message):
    print(f"check-queries: {message}", file=sys.stderr)
    sys.exit(2)


# ---------------------------------------------------------------------------------------------------------------------
# Which statements there are


@dataclass(frozen=True)
class Query:
    """One statement: `q07`, or `q14a` and `q14b` of a query in two parts."""

    number: int
    part: str = ""

    @property
    def name(self):
        return f"q{self.number:02d}{self.part}"

    def in_duckdb(self, suite):
        return self.part == TWO_PARTS[suite].get(self.number, "")


def all_queries(suite):
    return [
        Query(number, part)
        for number in range(1, QUERIES[suite] + 1)
        for part in (("a", "b") if number in TWO_PARTS[suite] else ("",))
    ]


def select(suite, wanted):
    """`q3,q7-q12,q14b` -> queries in order. `q14` is both its parts. Raises ValueError for what does not exist."""
    everything = all_queries(suite)
    if not wanted:
        return everything
    chosen = set()
    for item in wanted.lower().split(","):
        single = re.fullmatch(r"q?0*(\d+)([ab]?)", item.strip())
        span = re.fullmatch(r"q?0*(\d+)-q?0*(\d+)", item.strip())
        if single:
            found = [q for q in everything if q.number == int(single[1]) and single[2] in ("", q.part)]
        elif span:
            found = [q for q in everything if int(span[1]) <= q.number <= int(span[2])]
        else:
            raise ValueError(f"--query {item!r} is not understood: write q3, q14b or q7-q12")
        if not found:
            raise ValueError(f"{suite} has no query {item!r}: it has q1 to q{QUERIES[suite]}")
        chosen.update(found)
    return [query for query in everything if query in chosen]


# ---------------------------------------------------------------------------------------------------------------------
# DuckDB


@dataclass
class Result:
    """Rows in result order. `keys`: per row its sort key, only in results that serve as the measure of others."""

    names: list
    types: list
    rows: list
    keys: list = field(default_factory=list)
    limit: int = None


class Duck:
    """A DuckDB connection with the suite's tables as views over Parquet."""

    def __init__(self, suite, folder, options):
        import duckdb

        self.connection = duckdb.connect()
        self.timeout = options.timeout
        # Removed with this object.
        self.spill = tempfile.TemporaryDirectory(prefix="check-queries-")
        self.connection.execute(f"SET threads = {options.threads}")
        self.connection.execute(f"SET memory_limit = {literal(options.memory)}")
        self.connection.execute(f"SET temp_directory = {literal(self.spill.name)}")
        self.connection.execute(f"SET max_temp_directory_size = '{SPILL}'")
        self.connection.execute("SET autoinstall_known_extensions = false")
        self.connection.execute("SET autoload_known_extensions = false")
        self.connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
        package = __import__(f"duckdb_extension_{suite}")
        extension = next(Path(package.__file__).parent.glob(f"extensions/*/{suite}.duckdb_extension"))
        self.connection.execute(f"LOAD '{extension}'")
        self.texts = dict(self.connection.execute(f"SELECT query_nr, query FROM {suite}_queries()").fetchall())
        for table in TABLES[suite]:
            path = parquet(folder, table)
            files = path / "*.parquet" if path.is_dir() else path
            self.connection.execute(f"CREATE VIEW {table} AS FROM read_parquet({literal(files)})")

    def run(self, text):
        watch = threading.Timer(self.timeout, self.connection.interrupt)
        watch.start()
        try:
            cursor = self.connection.execute(text)
            names = [column[0] for column in cursor.description]
            types = [str(column[1]) for column in cursor.description]
            return Result(names, types, [tuple(map(plain, row)) for row in cursor.fetchall()])
        finally:
            watch.cancel()

    def measure(self, text):
        """The whole result of `text` without its final LIMIT, with each row's sort key.

        Sort keys need not be in the output, so the statement is taken apart as DuckDB's own syntax tree: the LIMIT goes,
        and the keys that are no output column are added as columns. The tree is run as it is: written out as text again
        it would have a comma for each CROSS JOIN, which means something else before a JOIN.
        """
        tree = json.loads(self.connection.execute("SELECT json_serialize_sql(?)", [text]).fetchone()[0])
        if tree["error"]:
            raise ValueError(tree["error_message"])
        node = tree["statements"][0]["node"]
        names = [column[0] for column in self.connection.execute(f"DESCRIBE {text}").fetchall()]
        limit, orders, kept = None, [], []
        for modifier in node["modifiers"]:
            if modifier["type"] == "LIMIT_MODIFIER":
                limit = modifier["limit"]["value"]["value"]
            else:
                kept.append(modifier)
                orders += modifier.get("orders", [])
        node["modifiers"] = kept
        positions, added = [], []
        for order in orders:
            position = output_position(order["expression"], names)
            if position is None:
                position = len(names) + len(added)
                added.append({**order["expression"], "alias": f"sort key {len(added) + 1}"})
            positions.append(position)
        if len(node["select_list"]) == len(names):  # There is no `*` in it.
            name_apart(node["select_list"], names)
        node["select_list"] += added
        result = self.run(f"FROM json_execute_serialized_sql({literal(json.dumps(tree))})")
        positions = through_first_float(positions, result.types)
        result.keys = [tuple(row[p] for p in positions) for row in result.rows]
        result.rows = [row[: len(names)] for row in result.rows]
        result.names, result.types, result.limit = names, result.types[: len(names)], limit
        return result


def output_position(expression, names):
    """Where in the output a sort key stands: `ORDER BY 2`, or the name of an output column (which SQL prefers)."""
    if expression["type"] == "VALUE_CONSTANT":
        return int(expression["value"]["value"]) - 1
    if expression["type"] == "COLUMN_REF" and len(expression["column_names"]) == 1:
        lower = [name.lower() for name in names]
        name = expression["column_names"][0].lower()
        return lower.index(name) if lower.count(name) == 1 else None
    return None


def name_apart(select_list, names):
    """Gives an alias to a column whose name is taken: a table, which the tree is run as, has no two of one name."""
    seen = set()
    for position, name in enumerate(map(str.lower, names)):
        if name in seen:
            select_list[position]["alias"] = f"column {position + 1}"
        seen.add(name)


def through_first_float(positions, types):
    for index, position in enumerate(positions):
        if is_float(types[position]):
            return positions[: index + 1]
    return positions


def plain(value):
    """One Python form per SQL value: a timestamp at midnight is the date that other engines make of it."""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date()
    return value


def is_float(sql_type):
    return sql_type in ("DOUBLE", "FLOAT")


def literal(value):
    return "'" + str(value).replace("'", "''") + "'"


def without_limit(text):
    """The text without its final LIMIT, and the limit (or None)."""
    limit = re.search(r"\s+LIMIT\s+(\d+)\s*;?\s*$", text, flags=re.IGNORECASE)
    return (text[: limit.start()], int(limit[1])) if limit else (text, None)


# ---------------------------------------------------------------------------------------------------------------------
# Comparing rows


def difference(ours, measure, limit=None):
    """None if `ours` is a right result under `limit`, else the first difference in words.

    `measure` is the whole result with sort keys. Its rows fall into groups of equal keys; ours must have the groups in
    that order, each with the same rows; the group a limit cuts may hold any of its rows.
    """
    expected = len(measure.rows) if limit is None else min(limit, len(measure.rows))
    if len(ours.rows) != expected:
        return f"{len(ours.rows)} rows instead of {expected}"
    floats = [is_float(a) or is_float(b) for a, b in zip(ours.types, measure.types)]
    start = 0
    while start < len(ours.rows):
        end = end_of_ties(measure.keys, start)
        mine, theirs = ours.rows[start:end], measure.rows[start:end]
        if mine != theirs:
            stray = first_stray(mine, theirs, floats)
            if stray is not None:
                return f"row {start + stray + 1}: {show(mine[stray])}, expected {show(theirs[min(stray, len(theirs) - 1)])}"
        start = end
    return None


def end_of_ties(keys, start):
    end = start + 1
    while end < len(keys) and all(same(a, b) for a, b in zip(keys[end - 1], keys[end])):
        end += 1
    return end


def first_stray(mine, theirs, floats):
    """The index of the first of `mine` that has no partner among `theirs`; each row has one partner at most."""
    buckets = {}
    for row in theirs:
        exact, approximate = split(row, floats)
        buckets.setdefault(exact, []).append(approximate)
    for index, row in enumerate(mine):
        exact, approximate = split(row, floats)
        candidates = buckets.get(exact, [])
        partner = next((c for c in candidates if all(map(close, approximate, c))), None)
        if partner is None:
            return index
        candidates.remove(partner)
    return None


def split(row, floats):
    exact = tuple(value for value, is_float in zip(row, floats) if not is_float)
    approximate = [value for value, is_float in zip(row, floats) if is_float]
    return exact, approximate


def same(a, b):
    return close(a, b) if isinstance(a, float) and isinstance(b, float) else a == b


def close(a, b):
    if a is None or b is None:
        return a is b
    a, b = float(a), float(b)
    return math.isclose(a, b, rel_tol=RELATIVE) or (math.isnan(a) and math.isnan(b))


def show(row):
    return "(" + ", ".join("NULL" if value is None else str(value) for value in row) + ")"


def names_differ(ours, theirs):
    """Names are compared as SQL does, without case. One with a parenthesis is an expression the engine named."""
    if len(ours) != len(theirs):
        return f"{len(ours)} columns instead of {len(theirs)}"
    for position, (a, b) in enumerate(zip(ours, theirs), 1):
        if "(" not in b and a.lower() != b.lower():
            return f"column {position} is named {a!r} instead of {b!r}"
    return None


# ---------------------------------------------------------------------------------------------------------------------
# DataFusion, through the volley binary


class VolleyError(Exception):
    pass


class Volley:
    """Runs statements over the suite's tables in `volley sql --engine single`: plain DataFusion, one process."""

    def __init__(self, path, suite, folder, timeout):
        self.path, self.timeout, self.tables = path, timeout, TABLES[suite]
        self.tables_sql = ""
        for table in self.tables:
            path = parquet(folder, table)
            location = f"{path}/" if path.is_dir() else path
            self.tables_sql += f"CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION {literal(location)};\n"

    def records(self, sql):
        """The records of the CSV that `sql` makes, the header first."""
        command = [self.path, "sql", "--engine", "single", "--format", "csv", "-c", self.tables_sql + sql]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=self.timeout, check=False)
        except subprocess.TimeoutExpired:
            raise VolleyError(f"no answer within {self.timeout:.0f} s") from None
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            raise VolleyError(lines[-1])
        return [record for record in csv.reader(io.StringIO(done.stdout)) if record]

    def run(self, sql, types):
        """The rows of `sql`, read as the types DuckDB gives the same columns."""
        header, *records = self.records(sql)
        rows = [tuple(map(from_csv, record, types)) for record in records]
        return Result(header, types, rows)

    def seconds(self, sql):
        """Wall time of the whole process; start-up is the same for every text."""
        start = time.monotonic()
        self.records(sql)
        return time.monotonic() - start

    def joins(self, sql):
        plans = dict(record[:2] for record in self.records(f"EXPLAIN FORMAT INDENT {sql}") if len(record) >= 2)
        if "physical_plan" not in plans:
            raise VolleyError("EXPLAIN has no physical plan")
        return join_order(plans["physical_plan"], self.tables)


def from_csv(cell, sql_type):
    """CSV has no NULL: an empty cell is one."""
    if cell == "":
        return None
    if is_float(sql_type):
        return float(cell)
    if re.match(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$|DECIMAL", sql_type):
        return decimal.Decimal(cell)
    if sql_type in ("DATE", "TIMESTAMP"):
        return plain(datetime.datetime.fromisoformat(cell))
    return cell


def without_null_strings(result):
    """DuckDB's rows as CSV would bring them."""
    rows = [tuple(None if value == "" else value for value in row) for row in result.rows]
    return Result(result.names, result.types, rows, result.keys, result.limit)


def join_order(plan, tables):
    """A physical plan reduced to its joins, unions and scans, in the order they stand.

        HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(d_date_sk@0, ss_sold_date_sk@0)]
          CoalescePartitionsExec                                   ->  Inner/1(date_dim, store_sales)
            DataSourceExec: file_groups={1 group: [[data/date_dim.parquet]]}, …
          DataSourceExec: file_groups={1 group: [[data/store_sales/part-0000.parquet, …

    A join shows its type, the number of its keys and whether a filter goes with it. Operators with one input are left
    out; aliases do not matter, since scans are named by their table.
    """
    lines = [line for line in plan.splitlines() if line.strip()]

    def node(index):
        """The reduced subtree at line `index`, and the line after it."""
        depth = indent(lines[index])
        after, inputs = index + 1, []
        while after < len(lines) and indent(lines[after]) > depth:
            reduced, after = node(after)
            inputs.append(reduced)
        operator, _, details = lines[index].strip().partition(":")
        if not inputs:
            return scanned_table(details, tables) or operator, after
        if len(inputs) == 1:
            return inputs[0], after
        return f"{join_label(operator, details)}({', '.join(inputs)})", after

    return node(0)[0]


def indent(line):
    return len(line) - len(line.lstrip())


def join_label(operator, details):
    join_type = re.search(r"join_type=(\w+)", details)
    if not join_type:
        return operator.removesuffix("Exec")
    filtered = "+filter" if ", filter=" in details else ""
    kind = "" if operator == "HashJoinExec" else f"{operator.removesuffix('Exec')}:"
    return f"{kind}{join_type[1]}/{count_keys(details)}{filtered}"


def count_keys(details):
    """How many pairs `on=[(a@0, b@1), (c@2, d@3)]` has, whatever parentheses and brackets the names contain."""
    start = details.find("on=[")
    if start < 0:
        return 0
    depth = pairs = 0
    for character in details[start + 3 :]:
        if character in "[(":
            depth += 1
            pairs += character == "(" and depth == 2
        elif character in "])":
            depth -= 1
            if depth == 0:
                break
    return pairs


def scanned_table(details, tables):
    path = re.search(r"\[\[([^\]]+?\.parquet)", details)
    if not path:
        return None
    file = Path(path[1])
    return next((name for name in (file.stem, file.parent.name) if name in tables), file.stem)


# ---------------------------------------------------------------------------------------------------------------------
# One query


# What an outcome says is not run; the words are matched when they are counted.
ROWS, JOINS = "rows in DataFusion", "join order in DataFusion"


@dataclass
class Outcome:
    query: Query
    faults: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    not_run: list = field(default_factory=list)
    compared: bool = False

    @property
    def verdict(self):
        if self.faults:
            return "FAILED"
        return "ok" if self.compared else "not run"

    def __str__(self):
        return f"{self.query.name:<5} {self.verdict:<8}{'; '.join(self.faults + self.notes)}"


class Checker:
    """Everything about one suite over one folder."""

    def __init__(self, suite, folder, options):
        self.suite, self.options = suite, options
        try:
            self.duck = Duck(suite, folder, options)
        except Exception as error:  # A damaged file, an extension of another version: nothing can be checked.
            fail(f"DuckDB cannot read {folder}: {first_line(error)}")
        self.volley = Volley(options.volley, suite, folder, options.timeout) if options.volley else None

    def check(self, query):
        outcome = Outcome(query)
        path = self.options.queries / self.suite / f"{query.name}.sql"
        if not path.is_file():
            outcome.faults.append(f"{path} does not exist")
            return outcome
        ours = path.read_text()
        if not ours.startswith("--"):
            outcome.faults.append("does not start with a comment that says what is asked")
        try:
            statements = self.duck.connection.extract_statements(ours)
            if len(statements) != 1:
                outcome.faults.append(f"{len(statements)} statements in one file")
                return outcome
            if query.in_duckdb(self.suite):
                theirs = self.duck.texts[query.number]
                self.check_rows(outcome, ours, theirs)
                self.check_joins(outcome, ours, theirs)
            else:
                self.check_without_reference(outcome, ours)
        except Exception as error:  # From DuckDB or volley: the statement's fault, and the others go on.
            outcome.faults.append(first_line(error))
        return outcome

    def check_rows(self, outcome, ours, theirs):
        """Both texts in DuckDB: steps 1 and 2."""
        measure = self.duck.measure(theirs)
        outcome.compared = True
        outcome.notes.append(f"{len(measure.rows)} rows")
        unlimited, limit = without_limit(ours)
        whole = self.duck.run(unlimited)
        fault = names_differ(whole.names, measure.names)
        if fault:
            outcome.faults.append(fault)
            return
        fault = difference(whole, measure)
        if fault:
            outcome.faults.append(f"without LIMIT: {fault}" if limit else fault)
        if limit != measure.limit:
            outcome.faults.append(f"LIMIT {limit} instead of {measure.limit}")
        elif limit:
            fault = difference(self.duck.run(ours), measure, limit)
            if fault:
                outcome.faults.append(f"with LIMIT: {fault}")

    def check_without_reference(self, outcome, ours):
        """Ours in DuckDB against ours in DataFusion: step 3."""
        measure = without_null_strings(self.duck.measure(ours))
        outcome.notes.append(f"{len(measure.rows)} rows, not in DuckDB's texts")
        if not self.volley:
            outcome.not_run.append(ROWS)
            return
        outcome.compared = True
        fault = difference(self.volley.run(ours, measure.types), measure, measure.limit)
        if fault:
            outcome.faults.append(f"DataFusion: {fault}")
        unlimited, limit = without_limit(ours)
        if limit:
            fault = difference(self.volley.run(unlimited, measure.types), measure)
            if fault:
                outcome.faults.append(f"DataFusion, without LIMIT: {fault}")

    def check_joins(self, outcome, ours, theirs):
        """The plans of both texts: step 4."""
        if not self.volley:
            outcome.not_run.append(JOINS)
            return
        mine = self.volley.joins(ours)
        try:
            other = self.volley.joins(theirs)
        except VolleyError as error:
            outcome.notes.append(f"joins not compared, DataFusion refuses DuckDB's text: {error}")
            return
        if mine == other:
            outcome.notes.append("joins as in DuckDB's text")
            return
        outcome.notes.append("joins differ")
        if self.options.verbose:
            outcome.notes.append(f"ours {mine}, DuckDB's text {other}")
        outcome.notes.append(self.time_both(ours, theirs))

    def time_both(self, ours, theirs):
        """Alternating, each text first as often as second, so that a drift of the machine meets both."""
        seconds = {ours: [], theirs: []}
        for text in seconds:
            self.volley.seconds(text)
        for run in range(self.options.runs):
            for text in (ours, theirs) if run % 2 == 0 else (theirs, ours):
                seconds[text].append(self.volley.seconds(text))
        mine, other = (statistics.median(seconds[text]) for text in (ours, theirs))
        return f"ours {mine:.2f} s, DuckDB's text {other:.2f} s ({(mine / other - 1) * 100:+.0f} %)"


def first_line(error):
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
