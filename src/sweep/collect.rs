//! `warpsim sweep collect`: the results as one tidy table, a row for each point and metric.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Statement, params_from_iter};

use super::merge::same;
use super::planned::Plan;
use super::run::is_results;
use super::spec::Point;
use super::store::{Store, Stored};
use super::table::read_table;
use crate::cli::sweep::SweepCollectArgs;
use crate::console::{complain, status};
use crate::files::{self, Output};
use crate::kernels;
use crate::known::Known;
use crate::metrics::{self, METRICS};
use crate::report::{self, Results};
use crate::study::{in_parallel, jobs};

/// Columns that hold no numbers.
const TEXTS: [&str; 7] = ["point", "result", "message", "metric", "unit", "config", "version"];

/// Points whose results are read at a time.
const CHUNK: usize = 256;
/// Files without a result in them that are told of.
const TOLD: usize = 5;

/// Collects what a sweep has, and makes a page of it; gives the exit status.
pub(super) fn page(file: &Path, results: &Path, page: &Path) -> u8 {
    let csv = results.join("table.csv");
    let args = SweepCollectArgs {
        paths: vec![file.to_path_buf()],
        results: Some(results.to_path_buf()),
        csv: Some(csv.clone()),
        sqlite: None,
        plan: None,
    };
    match collect(&args) {
        status::DONE => {}
        other => return other,
    }
    let name = file.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
    let written = read_table(&name, &csv).and_then(|sweep| {
        let mut all = Results::default();
        all.add_sweep(sweep);
        report::write(page, None, all)
    });
    match written {
        Ok(()) => status::DONE,
        Err(message) => {
            eprintln!("error: {message}");
            status::BAD_INPUT
        }
    }
}

/// Writes the tables; gives the exit status.
pub fn collect(args: &SweepCollectArgs) -> u8 {
    let (plan, folders) = match planned(args) {
        Ok(planned) => planned,
        Err(code) => return code,
    };
    match collected(args, &plan, folders) {
        Ok(()) => status::DONE,
        Err(message) => {
            eprintln!("error: {message}");
            status::BAD_INPUT
        }
    }
}

/// The sweep and its result folders; what is wrong has been said.
fn planned(args: &SweepCollectArgs) -> Result<(Plan, &[PathBuf]), u8> {
    let wrong = |message: String| {
        eprintln!("error: {message}");
        status::BAD_INPUT
    };
    if let Some(results) = &args.results {
        let [file] = args.paths.as_slice() else {
            return Err(wrong(
                "--results goes with one sweep file; result folders are named without it".into(),
            ));
        };
        let plan = Plan::make(file, &Known::default()).map_err(|errors| {
            complain(&errors);
            status::BAD_INPUT
        })?;
        is_results(results).map_err(wrong)?;
        return Ok((plan, std::slice::from_ref(results)));
    }
    let mut found: Option<(Plan, &Path)> = None;
    for folder in &args.paths {
        if folder.is_file() {
            let message = format!("{} is a file: a sweep file is named with --results DIR", folder.display());
            return Err(wrong(message));
        }
        is_results(folder).map_err(wrong)?;
        let plan = Plan::one(folder, args.plan.as_deref()).map_err(wrong)?;
        match &found {
            None => found = Some((plan, folder)),
            Some((first, _)) if first.same(&plan) => {}
            Some((first, at)) => {
                return Err(wrong(format!(
                    "{} holds `{}` as {} planned it, {} `{}` as {} did: their points differ; folders of one table are \
                     made from one sweep file by one version of warpsim",
                    at.display(),
                    first.spec.name,
                    first.version,
                    folder.display(),
                    plan.spec.name,
                    plan.version
                )));
            }
        }
    }
    let (plan, _) = found.ok_or_else(|| wrong("no result folder is named".into()))?;
    Ok((plan, &args.paths))
}

fn collected(args: &SweepCollectArgs, plan: &Plan, folders: &[PathBuf]) -> Result<(), String> {
    let stores: Vec<Store> = folders.iter().map(|folder| Store::read_only(folder)).collect();
    let first = stores.first().ok_or("no result folder is named")?;
    let csv = args.csv.clone().unwrap_or_else(|| first.file("table.csv"));
    let sqlite = args.sqlite.clone().unwrap_or_else(|| first.file("table.sqlite"));
    files::probe(&csv).and_then(|()| files::probe(&sqlite))?;
    let mut tables = Tables { plan, stores: &stores, rows: 0, missing: 0, faults: 0, unread: Vec::new() };
    tables.write(&csv, &sqlite)?;
    for message in tables.unread.iter().take(TOLD) {
        eprintln!("warning: {message}; the point is as good as not simulated");
    }
    println!(
        "{}: {} points in {} rows, {} faulted, differed or were refused, {} have no result yet: {} and {}",
        plan.spec.name,
        plan.points.len() - tables.missing,
        tables.rows,
        tables.faults,
        tables.missing,
        csv.display(),
        sqlite.display()
    );
    Ok(())
}

/// The tables that are being written, with what they came to.
struct Tables<'a> {
    plan: &'a Plan,
    stores: &'a [Store],
    rows: usize,
    missing: usize,
    faults: usize,
    /// Files that hold no result.
    unread: Vec<String>,
}

/// What databases hold besides the rows.
#[derive(Default)]
struct Seen {
    kernels: BTreeMap<String, (&'static str, &'static str)>,
    configs: BTreeSet<String>,
}

/// A point's result, with files that hold none; or why there is no one result.
type Found = Result<(Option<Stored>, Vec<String>), String>;

impl Tables<'_> {
    /// The result of a point, in whichever folder it is.
    fn found(&self, id: &str) -> Found {
        let mut found: Option<(Stored, &Store)> = None;
        let mut unread = Vec::new();
        for store in self.stores.iter().filter(|store| store.has(id)) {
            match (store.read(id), &found) {
                (Err(message), _) => unread.push(message),
                (Ok(stored), None) => found = Some((stored, store)),
                (Ok(stored), Some((other, _))) if same(other, &stored) => {}
                (Ok(stored), Some((other, at))) => {
                    return Err(format!(
                        "`{}` is {} in {} and {} in {}, with different metrics: the results of one point must agree; \
                         remove one of {} and {}",
                        stored.run.join(" "),
                        other.result,
                        at.folder().display(),
                        stored.result,
                        store.folder().display(),
                        at.path(id).display(),
                        store.path(id).display()
                    ));
                }
            }
        }
        Ok((found.map(|(stored, _)| stored), unread))
    }

    /// Writes both tables, some points at a time: all of them may be more than the memory holds.
    fn write(&mut self, csv_path: &Path, sqlite_path: &Path) -> Result<(), String> {
        let csv_wrong = |error: &dyn std::fmt::Display| files::unwritable(csv_path, error);
        let wrong = |error: &dyn std::fmt::Display| files::unwritable(sqlite_path, error);
        let header = self.plan.header();
        let mut writer = csv::Writer::from_writer(Output::create(csv_path).map_err(|e| csv_wrong(&e))?);
        writer.write_record(&header).map_err(|error| csv_wrong(&error))?;
        // The database is made anew and put in place whole.
        let file = Output::create(sqlite_path).map_err(|e| wrong(&e))?;
        let temporary = file.path().ok_or_else(|| wrong(&"a database needs a regular file"))?;
        let mut connection = Connection::open(temporary).map_err(|e| wrong(&e))?;
        // The file is nobody's until it is whole: it needs no journal beside it, which a killed process would leave.
        connection.execute_batch("PRAGMA journal_mode = MEMORY").map_err(|e| wrong(&e))?;
        let transaction = connection.transaction().map_err(|e| wrong(&e))?;
        create(&transaction, &header).map_err(|e| wrong(&e))?;
        let mut seen = Seen::default();
        {
            let marks = vec!["?"; header.len()].join(", ");
            let insert = transaction.prepare(&format!("INSERT INTO results VALUES ({marks})"));
            let mut insert = insert.map_err(|e| wrong(&e))?;
            let points: Vec<(&Point, &String)> = self.plan.points.iter().zip(&self.plan.ids).collect();
            for chunk in points.chunks(CHUNK) {
                let found = in_parallel(chunk, jobs(None), |(_, id)| self.found(id));
                for ((point, _), found) in chunk.iter().zip(found) {
                    let (stored, unread) = found?;
                    self.unread.extend(unread);
                    let Some(stored) = stored else {
                        self.missing += 1;
                        continue;
                    };
                    self.faults += usize::from(!stored.is_good());
                    for row in rows(point, &stored) {
                        self.rows += 1;
                        writer.write_record(&row).map_err(|error| csv_wrong(&error))?;
                        insert_row(&mut insert, &header, &row).map_err(|e| wrong(&e))?;
                    }
                    seen.note(&stored);
                }
            }
        }
        self.facts(&transaction, &seen).map_err(|e| wrong(&e))?;
        transaction.commit().map_err(|e| wrong(&e))?;
        connection.close().map_err(|(_, error)| wrong(&error))?;
        let csv_file = writer.into_inner().map_err(|error| csv_wrong(&error))?;
        csv_file.finish().map_err(|error| csv_wrong(&error))?;
        file.finish().map_err(|error| wrong(&error))
    }

    /// What metrics mean, and the values of the chips.
    fn facts(&self, connection: &Connection, seen: &Seen) -> rusqlite::Result<()> {
        let mut insert = connection.prepare("INSERT INTO metrics VALUES (?, ?, ?)")?;
        for metric in METRICS {
            insert.execute([metric.name, metric.unit, metric.doc])?;
        }
        for (name, (unit, doc)) in &seen.kernels {
            insert.execute([name.as_str(), unit, doc])?;
        }
        let mut insert = connection.prepare("INSERT INTO configs VALUES (?, ?)")?;
        for hash in &seen.configs {
            if let Some(text) = self.stores.iter().find_map(|store| store.config(hash)) {
                insert.execute([hash, &text])?;
            }
        }
        Ok(())
    }
}

impl Seen {
    fn note(&mut self, stored: &Stored) {
        let kernels = stored.report.iter().flat_map(kernels::of);
        self.kernels.extend(kernels.map(|figure| (figure.name, (figure.unit, figure.doc))));
        if !self.configs.contains(&stored.config) {
            self.configs.insert(stored.config.clone());
        }
    }
}

/// The table of a sweep whose results are in one folder: its columns and its rows, of points that have results.
///
/// # Errors
/// A result that cannot be read, in words.
pub fn table(plan: &Plan, store: &Store) -> Result<(Vec<String>, Vec<Vec<String>>), String> {
    let tables = Tables {
        plan,
        stores: std::slice::from_ref(store),
        rows: 0,
        missing: 0,
        faults: 0,
        unread: Vec::new(),
    };
    let mut out = Vec::new();
    for (point, id) in plan.points.iter().zip(&plan.ids) {
        let (stored, unread) = tables.found(id)?;
        if let Some(message) = unread.into_iter().next() {
            return Err(message);
        }
        out.extend(stored.iter().flat_map(|stored| rows(point, stored)));
    }
    Ok((plan.header().into_iter().map(str::to_string).collect(), out))
}

/// The rows of a point: one for each metric it has, or one that says what happened to it.
fn rows(point: &Point, stored: &Stored) -> Vec<Vec<String>> {
    let row = |metric: &str, value: String, unit: &str| {
        let mut row = vec![stored.id.clone()];
        row.extend(point.values.iter().map(|(_, value)| value.clone()));
        row.extend([
            stored.result.clone(),
            stored.message.clone(),
            metric.to_string(),
            value,
            unit.to_string(),
            stored.config.clone(),
            stored.version.clone(),
        ]);
        row
    };
    let report =
        stored.report.as_ref().filter(|_| matches!(stored.result.as_str(), "pass" | "unchecked" | "fail"));
    let Some(report) = report else { return vec![row("", String::new(), "")] };
    let all = metrics::of(report).map(|(metric, value)| row(metric.name, value.to_string(), metric.unit));
    let kernels = kernels::of(report)
        .into_iter()
        .map(|figure| row(&figure.name, figure.value.to_string(), figure.unit));
    all.chain(kernels).collect()
}

/// Table `results` as in the CSV file, with numbers as numbers; `metrics` with what they mean;
/// `configs` with the values of the chips.
fn create(connection: &Connection, header: &[&str]) -> rusqlite::Result<()> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    // Columns without a type keep numbers as numbers where they are bound as such.
    let columns: Vec<String> = header.iter().map(|name| quoted(name)).collect();
    connection.execute_batch(&format!(
        "CREATE TABLE results ({}); CREATE TABLE metrics (name TEXT, unit TEXT, doc TEXT); CREATE TABLE configs (hash TEXT, json TEXT);",
        columns.join(", ")
    ))
}

fn insert_row(insert: &mut Statement<'_>, header: &[&str], row: &[String]) -> rusqlite::Result<usize> {
    let values = header.iter().zip(row).map(|(column, text)| -> Box<dyn rusqlite::ToSql> {
        // Hashes may look like numbers.
        let plain = !TEXTS.contains(column);
        // Integers beyond those of SQLite stay text, so that no digit is lost.
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(integer), _) if plain => Box::new(integer),
            (_, Ok(number)) if plain && number.is_finite() && !digits => Box::new(number),
            _ if text.is_empty() => Box::new(rusqlite::types::Null),
            _ => Box::new(text.clone()),
        }
    });
    insert.execute(params_from_iter(values))
}
