//! `warpsim report`: results as one page for a browser, which loads nothing from anywhere.

mod input;
mod page;

use std::path::Path;

use crate::cli::report::ReportArgs;
use crate::console::status;
use crate::files;
use crate::report_file::is_report;

pub use input::{Results, Study};

/// Writes the page; gives the exit status.
pub fn report(args: &ReportArgs) -> u8 {
    let mut results = Results::default();
    let mut bad = false;
    for path in &args.results {
        if let Err(message) = results.add(path) {
            eprintln!("error: {message}");
            bad = true;
        }
    }
    if bad {
        return status::BAD_INPUT;
    }
    match write(&args.output, args.title.as_deref(), results) {
        Ok(()) => status::DONE,
        Err(message) => {
            eprintln!("error: {message}");
            status::BAD_INPUT
        }
    }
}

/// A page of runs, by their names and `report.json`s.
///
/// # Errors
/// What is no report, in words.
pub fn page(title: &str, runs: Vec<(String, serde_json::Value)>) -> Result<String, String> {
    let mut results = Results::default();
    for (name, report) in runs {
        is_report(Path::new(&name), &report)?;
        results.add_run(name, report);
    }
    page::render(title, results).map_err(|error| format!("the page cannot be made: {error}"))
}

/// Writes a page of results, and says so.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, title: Option<&str>, results: Results) -> Result<(), String> {
    let title = title.map_or_else(|| results.title(), str::to_string);
    let page = page::render(&title, results).map_err(|error| format!("the page cannot be made: {error}"))?;
    files::write(path, page.as_bytes()).map_err(|error| files::unwritable(path, &error))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}
