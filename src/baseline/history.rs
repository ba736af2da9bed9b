//! `warpsim baseline history`: a metric over the versions that were checked.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, params};

use super::suite::Measured;
use crate::cli::baseline::BaselineHistoryArgs;
use crate::console::{status, table};
use crate::files;
use crate::metrics::{METRICS, shown};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS history \
                     (seconds INTEGER, version TEXT, suite TEXT, run TEXT, metric TEXT, value REAL)";

/// Whether a file is a history, or can become one: found out before the work whose result it is to hold.
///
/// # Errors
/// It cannot.
pub fn probe(path: &Path) -> Result<(), String> {
    files::is_regular(path)?;
    files::claim(path)?;
    open(path).map(|_| ()).map_err(|error| files::unwritable(path, &error))
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.execute_batch(TABLE)?;
    Ok(connection)
}

/// Adds the results of a suite.
///
/// # Errors
/// The database cannot be written.
pub fn append(path: &Path, suite: &str, runs: &[Measured]) -> rusqlite::Result<()> {
    let mut connection = open(path)?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let transaction = connection.transaction()?;
    for run in runs {
        for (metric, value) in &run.metrics {
            transaction.execute(
                "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?)",
                params![seconds as i64, crate::VERSION, suite, run.run, metric, value],
            )?;
        }
    }
    transaction.commit()
}

/// Prints a metric's history; gives the exit status.
pub fn history(args: &BaselineHistoryArgs) -> u8 {
    let Some(metric) = METRICS.iter().find(|metric| metric.name == args.metric) else {
        let names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        eprintln!("error: there is no metric `{}`; available: {}", args.metric, names.join(", "));
        return status::BAD_INPUT;
    };
    if !args.history.exists() {
        eprintln!(
            "error: there is no {}; `warpsim baseline check --history` creates it",
            args.history.display()
        );
        return status::BAD_INPUT;
    }
    let rows = files::is_regular(&args.history).and_then(|()| {
        rows(&args.history, metric.name, args.run.as_deref())
            .map_err(|error| files::unreadable(&args.history, &error))
    });
    let rows = match rows {
        Ok(rows) => rows,
        Err(message) => {
            eprintln!("error: {message}");
            return status::BAD_INPUT;
        }
    };
    let mut out = table(&["run", "version", metric.name, "change"]);
    let mut before: Option<(String, f64)> = None;
    for (run, version, value) in rows {
        let by = match &before {
            Some((last, old)) if *last == run && *old != 0.0 => {
                format!("{:+.2} %", (value / old - 1.0) * 100.0)
            }
            _ => String::new(),
        };
        out.add_row([run.clone(), version, shown(value), by]);
        before = Some((run, value));
    }
    println!("{out}\nin {}: {}", metric.unit, metric.doc);
    status::DONE
}

/// Run, version and value, the oldest of each run first; equal neighbours of one version once.
fn rows(path: &Path, metric: &str, run: Option<&str>) -> rusqlite::Result<Vec<(String, String, f64)>> {
    let connection = open(path)?;
    let mut query = connection.prepare(
        "SELECT run, version, value FROM history WHERE metric = ?1 AND (?2 IS NULL OR run = ?2) \
         ORDER BY run, seconds, rowid",
    )?;
    let found = query.query_map(params![metric, run], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let mut rows: Vec<(String, String, f64)> = found.collect::<Result<_, _>>()?;
    rows.dedup();
    Ok(rows)
}
