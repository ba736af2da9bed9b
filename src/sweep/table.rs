//! The table that `sweep collect` writes: its columns, and how it is read again. The rows of a point become
//! a point.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::files;

/// Columns before and after those of the axes.
pub(super) const BEFORE: [&str; 1] = ["point"];
pub(super) const AFTER: [&str; 7] = ["result", "message", "metric", "value", "unit", "config", "version"];
/// A point of a sweep.
#[derive(Debug, PartialEq, Serialize)]
pub struct SweepPoint {
    /// Its value of each axis.
    pub axes: Vec<String>,
    /// pass, fail, unchecked, fault, stopped or refused.
    pub result: String,
    /// Why the point failed; empty where it did not.
    pub message: String,
    /// Its metrics.
    pub values: BTreeMap<String, f64>,
}

/// A sweep: the CSV file of `warpsim sweep collect`.
#[derive(Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// Name.
    pub name: String,
    /// Names of the axes.
    pub axes: Vec<String>,
    /// Points in the order of the table.
    pub points: Vec<SweepPoint>,
}

/// Reads a table.
///
/// # Errors
/// It cannot be read, or is no such table.
pub fn read_table(name: &str, path: &Path) -> Result<Sweep, String> {
    read(name, files::read_text(path)?.as_bytes()).map_err(|reason| format!("{}: {reason}", path.display()))
}

fn read(name: &str, text: impl std::io::Read) -> Result<Sweep, String> {
    let mut reader = csv::Reader::from_reader(text);
    let header: Vec<String> =
        reader.headers().map_err(|e| e.to_string())?.iter().map(str::to_string).collect();
    let behind = header.len().saturating_sub(AFTER.len());
    if behind < BEFORE.len() || header[..BEFORE.len()] != BEFORE || header[behind..] != AFTER {
        return Err("this is not a table of `sweep collect`".to_string());
    }
    let column = |word: &str| behind + AFTER.iter().position(|own| *own == word).unwrap_or(0);
    let (result, message, metric, value) =
        (column("result"), column("message"), column("metric"), column("value"));
    let mut sweep =
        Sweep { name: name.to_string(), axes: header[BEFORE.len()..behind].to_vec(), points: Vec::new() };
    let mut places: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for row in reader.records() {
        let row = row.map_err(|e| e.to_string())?;
        // Points that are the same simulation differ in their axes.
        let axes: Vec<String> = row.iter().take(behind).skip(BEFORE.len()).map(str::to_string).collect();
        let at = *places.entry(axes.clone()).or_insert_with(|| {
            let (result, message) = (row[result].to_string(), row[message].to_string());
            sweep.points.push(SweepPoint { axes, result, message, values: BTreeMap::new() });
            sweep.points.len() - 1
        });
        if !row[metric].is_empty() {
            let line = row.position().map_or(0, csv::Position::line);
            let number =
                row[value].parse().map_err(|_| format!("line {line}: `{}` is not a number", &row[value]))?;
            sweep.points[at].values.insert(row[metric].to_string(), number);
        }
    }
    Ok(sweep)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "point,chip,l1,result,message,metric,value,unit,config,version\n";

    #[test]
    fn rows_become_points() {
        let text = format!(
            "{HEADER}a,x,1,pass,,cycles,5,c,h,v\na,x,1,pass,,ipc,0.25,c,h,v\na,y,1,pass,,cycles,5,c,h,v\n\
             b,y,2,refused,too old,,,,,v\n"
        );
        let sweep = read("s", text.as_bytes()).expect("a table");
        assert_eq!(sweep.axes, ["chip", "l1"]);
        let points: Vec<_> =
            sweep.points.iter().map(|p| (p.axes.join(" "), p.result.as_str(), p.values.len())).collect();
        assert_eq!(
            points,
            [("x 1".into(), "pass", 2), ("y 1".into(), "pass", 1), ("y 2".into(), "refused", 0)]
        );
        assert_eq!(sweep.points[0].values["ipc"], 0.25);
        assert_eq!(sweep.points[2].message, "too old");
    }

    #[test]
    fn other_tables_are_told() {
        assert_eq!(read("s", "a,b\n1,2\n".as_bytes()), Err("this is not a table of `sweep collect`".into()));
        let others = HEADER.replace("metric,value", "figure,number");
        assert!(read("s", others.as_bytes()).is_err(), "as many columns of other names");
        let bad = format!("{HEADER}a,x,1,pass,,cycles,many,c,h,v\n");
        assert_eq!(read("s", bad.as_bytes()), Err("line 2: `many` is not a number".into()));
    }
}
