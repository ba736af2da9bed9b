//! `warpsim sweep collect`: the results as one tidy table, a row for each point and metric.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rusqlite::{Connection, params_from_iter};

use super::points::{load, result};
use super::spec::Point;
use super::store::{Store, Stored};
use super::table::{AFTER, BEFORE, read_table};
use crate::cli::sweep::SweepCollectArgs;
use crate::console::{complain, status};
use crate::files::{self, Output};
use crate::kernels;
use crate::metrics::{self, METRICS};
use crate::report::{self, Results};
use crate::study::{in_parallel, jobs};

/// Columns that hold no numbers.
const TEXTS: [&str; 7] = ["point", "result", "message", "metric", "unit", "config", "version"];

/// Collects what a sweep has, and makes a page of it; gives the exit status.
pub(super) fn page(file: &Path, results: &Path, page: &Path) -> u8 {
    let csv = results.join("table.csv");
    let args = SweepCollectArgs {
        file: file.to_path_buf(),
        results: results.to_path_buf(),
        csv: Some(csv.clone()),
        sqlite: None,
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
    let (spec, points) = match load(&args.file) {
        Ok(loaded) => loaded,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    if !args.results.is_dir() {
        eprintln!("error: there is no folder {}; `warpsim sweep run` creates it", args.results.display());
        return status::BAD_INPUT;
    }
    let store = match Store::open(&args.results) {
        Ok(store) => store,
        Err(error) => {
            eprintln!("error: {} cannot be opened: {}", args.results.display(), files::reason(&error));
            return status::BAD_INPUT;
        }
    };
    let csv = args.csv.clone().unwrap_or_else(|| store.file("table.csv"));
    let sqlite = args.sqlite.clone().unwrap_or_else(|| store.file("table.sqlite"));
    if let Err(message) = files::probe(&csv).and_then(|()| files::probe(&sqlite)) {
        eprintln!("error: {message}");
        return status::BAD_INPUT;
    }
    let found = in_parallel(&points, jobs(None), |point| result(&store, point, &spec.run));
    let missing = found.iter().filter(|stored| stored.is_none()).count();
    let axes: Vec<&str> = points
        .first()
        .map_or(Vec::new(), |point| point.values.iter().map(|(axis, _)| axis.as_str()).collect());
    let header: Vec<&str> = BEFORE.into_iter().chain(axes.iter().copied()).chain(AFTER).collect();
    let rows: Vec<Vec<String>> = points
        .iter()
        .zip(&found)
        .filter_map(|(point, stored)| Some(rows(point, stored.as_ref()?)))
        .flatten()
        .collect();
    let written = write_csv(&csv, &header, &rows).map_err(|error| (csv.clone(), error)).and_then(|()| {
        write_sqlite(&sqlite, &header, &rows, &store, &found)
            .map_err(|error| (sqlite.clone(), error.to_string()))
    });
    if let Err((path, error)) = written {
        eprintln!("error: {}", files::unwritable(&path, &error));
        return status::BAD_INPUT;
    }
    let faults =
        found.iter().flatten().filter(|s| !matches!(s.result.as_str(), "pass" | "unchecked")).count();
    println!(
        "{}: {} points in {} rows, {faults} faulted, differed or were refused, {missing} have no result yet: {} and {}",
        spec.name,
        points.len() - missing,
        rows.len(),
        csv.display(),
        sqlite.display()
    );
    status::DONE
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

fn write_csv(path: &Path, header: &[&str], rows: &[Vec<String>]) -> Result<(), String> {
    let file = Output::create(path).map_err(|error| error.to_string())?;
    let mut writer = csv::Writer::from_writer(file);
    let all = std::iter::once(writer.write_record(header)).collect::<Result<(), _>>();
    all.and_then(|()| rows.iter().try_for_each(|row| writer.write_record(row)))
        .map_err(|error| error.to_string())?;
    let file = writer.into_inner().map_err(|error| error.to_string())?;
    file.finish().map_err(|error| error.to_string())
}

/// Table `results` as in the CSV file, with numbers as numbers; `metrics` with what they mean;
/// `configs` with the values of the chips.
fn write_sqlite(
    path: &Path,
    header: &[&str],
    rows: &[Vec<String>],
    store: &Store,
    found: &[Option<Stored>],
) -> rusqlite::Result<()> {
    // The table is made anew and put in place whole.
    let wrong = |error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
    let file = Output::create(path).map_err(wrong)?;
    let Some(temporary) = file.path() else {
        return Err(wrong(std::io::Error::other("a database needs a regular file")));
    };
    let mut connection = Connection::open(temporary)?;
    let transaction = connection.transaction()?;
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    // Columns without a type keep numbers as numbers where they are bound as such.
    let columns: Vec<String> = header.iter().map(|name| quoted(name)).collect();
    transaction.execute_batch(&format!(
        "CREATE TABLE results ({}); CREATE TABLE metrics (name TEXT, unit TEXT, doc TEXT); CREATE TABLE configs (hash TEXT, json TEXT);",
        columns.join(", ")
    ))?;
    {
        let marks = vec!["?"; header.len()].join(", ");
        let mut insert = transaction.prepare(&format!("INSERT INTO results VALUES ({marks})"))?;
        for row in rows {
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
            insert.execute(params_from_iter(values))?;
        }
        let mut insert = transaction.prepare("INSERT INTO metrics VALUES (?, ?, ?)")?;
        for metric in METRICS {
            insert.execute([metric.name, metric.unit, metric.doc])?;
        }
        let kernels: BTreeMap<String, (&str, &str)> = found
            .iter()
            .flatten()
            .filter_map(|stored| Some(kernels::of(stored.report.as_ref()?)))
            .flatten()
            .map(|figure| (figure.name, (figure.unit, figure.doc)))
            .collect();
        for (name, (unit, doc)) in &kernels {
            insert.execute([name.as_str(), unit, doc])?;
        }
        let mut insert = transaction.prepare("INSERT INTO configs VALUES (?, ?)")?;
        let hashes: BTreeSet<&str> = found.iter().flatten().map(|stored| stored.config.as_str()).collect();
        for hash in hashes {
            if let Some(text) = store.config(hash) {
                insert.execute([hash, &text])?;
            }
        }
    }
    transaction.commit()?;
    connection.close().map_err(|(_, error)| error)?;
    file.finish().map_err(wrong)
}
