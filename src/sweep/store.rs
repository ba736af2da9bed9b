//! A folder of results: one file a point, written whole or not at all, named by a hash of everything
//! that was simulated. The files lie in folders by the first two digits of their names: 10⁶ points are 4,000 a folder.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::files;
use crate::report_file::is_report;

/// Version of the format of a point's result.
pub const SCHEMA: u32 = 1;

/// The stored result of a point.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stored {
    /// Version of this format, [`SCHEMA`].
    pub schema: u32,
    /// The hash that names the file.
    pub id: String,
    /// The hash of the chip with all its values and costs.
    pub config: String,
    /// Version of the simulator.
    pub version: String,
    /// Arguments of `warpsim run` that give the same.
    pub run: Vec<String>,
    /// pass, fail, unchecked, fault, stopped or refused.
    pub result: String,
    /// What was wrong, in one line.
    pub message: String,
    /// Host seconds inside the simulator.
    pub seconds: f64,
    /// report.json; none where the run was refused, or ended its process.
    pub report: Option<Value>,
}

impl Stored {
    /// Whether nothing was wrong with the point.
    pub fn is_good(&self) -> bool {
        matches!(self.result.as_str(), "pass" | "unchecked")
    }

    /// Reads the result of the point that names the file.
    ///
    /// # Errors
    /// The file cannot be read, is no result, one of another point, or of another format.
    pub fn load(path: &Path) -> Result<Self, String> {
        let stored: Self = files::read_json(path)?;
        let id = path.file_stem().unwrap_or_default();
        let wrong = |why: String| Err(format!("{}: {why}", path.display()));
        if stored.schema != SCHEMA {
            return wrong(format!("schema {}; this version reads {SCHEMA}", stored.schema));
        }
        if id != stored.id.as_str() {
            return wrong(format!("it is the result of another point, {}", stored.id));
        }
        match &stored.report {
            Some(report) => is_report(path, report)?,
            // The process of a point that faults so ended before it could report.
            None if matches!(stored.result.as_str(), "refused" | "fault") => {}
            None => return wrong(format!("it has no key `report`, and its result is {}", stored.result)),
        }
        Ok(stored)
    }
}

/// A folder of results.
pub struct Store {
    folder: PathBuf,
    /// It has results beside the folders of `points`, as earlier versions wrote them.
    flat: bool,
}

/// The folder of a point within `points`, `claims` and `failed`: the first two digits of its name.
pub fn part(id: &str) -> &str {
    id.get(..2).unwrap_or(id)
}

/// The names of a folder; none where there is no such folder.
///
/// # Errors
/// It cannot be read.
pub fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Results of a folder by name. Unfinished files begin with a dot.
fn results(folder: &Path) -> io::Result<impl Iterator<Item = String>> {
    let of = |name: String| name.strip_suffix(".json").filter(|id| !id.starts_with('.')).map(str::to_string);
    Ok(names(folder)?.into_iter().filter_map(of))
}

/// Does `write`; where the folder is lacking it is made first.
///
/// # Errors
/// As `write`.
pub fn in_folder<T>(folder: &Path, mut write: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match write() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(folder)?;
            write()
        }
        done => done,
    }
}

impl Store {
    /// Opens a folder to write to it; it is made if there is none. What killed processes left is removed.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(folder: &Path) -> io::Result<Self> {
        for part in ["points", "configs"] {
            std::fs::create_dir_all(folder.join(part))?;
        }
        for kind in ["points", "configs", "failed", "claims", "sweeps", "jobs"].map(|kind| folder.join(kind))
        {
            files::remove_stale(&kind, files::is_partial);
            for part in names(&kind)?.iter().filter(|name| name.len() <= 2 && !name.starts_with('.')) {
                files::remove_stale(&kind.join(part), files::is_partial);
            }
        }
        Ok(Self::read_only(folder))
    }

    /// Opens a folder as it is.
    pub fn read_only(folder: &Path) -> Self {
        let flat = results(&folder.join("points")).is_ok_and(|mut names| names.next().is_some());
        Self { folder: folder.to_path_buf(), flat }
    }

    /// The path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folders of its points.
    fn parts(&self) -> io::Result<Vec<String>> {
        let mut parts = names(&self.folder.join("points"))?;
        parts.retain(|name| name.len() <= 2 && !name.starts_with('.'));
        Ok(parts)
    }

    /// The file of a point's result.
    pub fn path(&self, id: &str) -> PathBuf {
        let points = self.folder.join("points");
        let name = format!("{id}.json");
        let flat = points.join(&name);
        if self.flat && flat.exists() { flat } else { points.join(part(id)).join(name) }
    }

    /// All results by name, in order. A name says nothing of what is in the file.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn ids(&self) -> io::Result<BTreeSet<String>> {
        let points = self.folder.join("points");
        let mut ids: BTreeSet<String> = results(&points)?.collect();
        for part in self.parts()? {
            ids.extend(results(&points.join(part))?);
        }
        Ok(ids)
    }

    /// Results of a part of the points.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn ids_of(&self, part: &str) -> io::Result<BTreeSet<String>> {
        let points = self.folder.join("points");
        let mut ids: BTreeSet<String> = results(&points.join(part))?.collect();
        if self.flat {
            ids.extend(results(&points)?.filter(|id| id.starts_with(part)));
        }
        Ok(ids)
    }

    /// Whether a point has a file of a result, whatever is in it.
    pub fn has(&self, id: &str) -> bool {
        self.path(id).is_file()
    }

    /// A point's result. A file that is none is as good as absent: it is computed again.
    pub fn get(&self, id: &str) -> Option<Stored> {
        self.read(id).ok()
    }

    /// The same, with the reason why there is none.
    ///
    /// # Errors
    /// The file cannot be read, or is no result.
    pub fn read(&self, id: &str) -> Result<Stored, String> {
        Stored::load(&self.path(id))
    }

    /// Whether a point's result can be kept: nothing but a file stands where it goes, and no result of a newer version
    /// does.
    ///
    /// # Errors
    /// A device, a pipe or a folder does, which might hold up who opens it; or such a result.
    pub fn is_free(&self, id: &str) -> io::Result<()> {
        let path = self.path(id);
        files::is_regular(&path).map_err(io::Error::other)?;
        let there: Option<Value> = if path.exists() { files::read_json(&path).ok() } else { None };
        match there.and_then(|there| there.get("schema")?.as_u64()) {
            Some(schema) if schema > u64::from(SCHEMA) => Err(io::Error::other(format!(
                "{}: schema {schema}: this was written by a newer version; this one reads up to {SCHEMA}: name \
                 another folder of results, or remove the file",
                path.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Keeps a point's result. That of a point that failed is noted beside it first, so that all that failed are found
    /// without a look into all results.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&self, stored: &Stored) -> io::Result<()> {
        self.is_free(&stored.id)?;
        let note = self.failure(&stored.id);
        let folder = self.folder.join("failed").join(part(&stored.id));
        if stored.is_good() {
            // A failure of an earlier time, whose result was lost.
            let _ = std::fs::remove_file(&note);
        } else {
            let text = format!("{}\n{}\n{}\n", stored.result, stored.message, stored.run.join(" "));
            in_folder(&folder, || files::write_one_of_many(&note, text.as_bytes()))?;
        }
        let text = serde_json::to_string_pretty(stored)? + "\n";
        let path = self.path(&stored.id);
        let folder = path.parent().unwrap_or(&self.folder);
        in_folder(folder, || files::write_one_of_many(&path, text.as_bytes()))
    }

    fn failure(&self, id: &str) -> PathBuf {
        self.folder.join("failed").join(part(id)).join(id)
    }

    /// Points that failed, and may have lost their result since, in order.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn failed(&self) -> io::Result<Vec<String>> {
        let failed = self.folder.join("failed");
        let mut ids = Vec::new();
        for part in names(&failed)? {
            ids.extend(names(&failed.join(part))?.into_iter().filter(|name| !name.starts_with('.')));
        }
        ids.sort();
        Ok(ids)
    }

    /// Result and message of a point that failed.
    pub fn why(&self, id: &str) -> Option<(String, String)> {
        let text = files::read_text(&self.failure(id)).ok()?;
        let mut lines = text.lines();
        Some((lines.next()?.to_string(), lines.next()?.to_string()))
    }

    /// Keeps the values of a chip, by their hash.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put_config(&self, hash: &str, values: impl FnOnce() -> String) -> io::Result<()> {
        let path = self.config_path(hash);
        if path.exists() {
            return Ok(());
        }
        let text = values();
        in_folder(path.parent().unwrap_or(&self.folder), || files::write_one_of_many(&path, text.as_bytes()))
    }

    fn config_path(&self, hash: &str) -> PathBuf {
        self.folder.join("configs").join(part(hash)).join(format!("{hash}.json"))
    }

    /// The values of a chip.
    pub fn config(&self, hash: &str) -> Option<String> {
        let flat = || files::read_text(&self.folder.join("configs").join(format!("{hash}.json")));
        files::read_text(&self.config_path(hash)).or_else(|_| flat()).ok()
    }

    /// A file of the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Value {
        let mut report = serde_json::json!({"schema": 2, "cycles": 7, "stalls": {}, "memory": {}});
        for key in ["workload", "chip", "policy", "result"] {
            report[key] = "x".into();
        }
        report
    }

    fn stored(id: &str) -> Stored {
        Stored {
            schema: 1,
            id: id.into(),
            config: "c".into(),
            version: "v".into(),
            run: vec!["vecadd".into()],
            result: "pass".into(),
            message: String::new(),
            seconds: 1.0,
            report: Some(report()),
        }
    }

    #[test]
    fn results_are_whole_or_absent() {
        let folder = std::env::temp_dir().join(format!("warpsim-store-{}", std::process::id()));
        let store = Store::open(&folder).expect("made");
        assert!(store.get("a").is_none());
        store.put(&stored("a")).expect("written");
        assert_eq!(store.get("a").and_then(|s| s.report), Some(report()));
        // Half a file, and one under another's name.
        assert_eq!(store.path("abc"), folder.join("points/ab/abc.json"));
        let text = std::fs::read_to_string(store.path("a")).expect("there");
        for id in ["b", "c"] {
            std::fs::create_dir_all(folder.join("points").join(id)).expect("made");
        }
        std::fs::write(store.path("b"), &text[..text.len() / 2]).expect("written");
        std::fs::write(store.path("c"), &text).expect("written");
        assert!(store.get("b").is_none() && store.get("c").is_none());
        // What a killed process left is no result.
        std::fs::write(folder.join("points").join(".d.json.1.ThreadId(1)"), &text).expect("written");
        assert!(store.get("d").is_none());
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn results_of_older_versions_lie_beside_the_folders() {
        let folder = tempfile::tempdir().expect("made");
        let store = Store::open(folder.path()).expect("made");
        store.put(&stored("ab1")).expect("written");
        let flat = folder.path().join("points/ab2.json");
        let text = std::fs::read_to_string(store.path("ab1")).expect("there").replace("ab1", "ab2");
        std::fs::write(&flat, text).expect("written");
        let store = Store::open(folder.path()).expect("there");
        assert!(store.get("ab2").is_some() && store.has("ab2") && store.path("ab2") == flat);
        let both = ["ab1", "ab2"].map(str::to_string);
        assert_eq!(store.ids().expect("a folder"), both.clone().into());
        assert_eq!(store.ids_of("ab").expect("a folder"), both.into());
        assert!(store.ids_of("ac").expect("a folder").is_empty());
    }

    #[test]
    fn what_failed_is_noted() {
        let folder = tempfile::tempdir().expect("made");
        let store = Store::open(folder.path()).expect("made");
        let bad = Stored { result: "fault".into(), message: "m".into(), report: None, ..stored("ab1") };
        store.put(&bad).expect("written");
        store.put(&stored("ab2")).expect("written");
        assert!(store.get("ab1").is_some(), "a fault without a report is a result");
        assert_eq!(store.failed().expect("a folder"), ["ab1"]);
        assert_eq!(store.why("ab1"), Some(("fault".into(), "m".into())));
        store.put(&stored("ab1")).expect("written");
        assert!(store.failed().expect("a folder").is_empty());
    }
}
