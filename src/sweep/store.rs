//! A folder of results: one file a point, written whole or not at all, named by a hash of everything
//! that was simulated.

use std::fs::{File, OpenOptions};
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
    /// report.json; none where the run was refused.
    pub report: Option<Value>,
}

impl Stored {
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
            None if stored.result == "refused" => {}
            None => return wrong(format!("it has no key `report`, and its result is {}", stored.result)),
        }
        Ok(stored)
    }
}

/// A folder of results.
pub struct Store {
    folder: PathBuf,
}

/// The right to compute a point: the system gives it back when its process ends, however it ends.
pub struct Claim {
    file: File,
    path: PathBuf,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The lock goes with the file; a name that stays behind holds nobody up.
        let _ = std::fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

impl Store {
    /// Opens a folder, which is made if there is none.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder.join("points"))?;
        std::fs::create_dir_all(folder.join("configs"))?;
        // What killed processes left: results they had not finished, and claims that nobody holds.
        for part in ["points", "configs"] {
            let left =
                |name: &str| files::is_partial(name) || name.starts_with('.') && name.ends_with(".lock");
            files::remove_stale(&folder.join(part), left);
        }
        Ok(Self { folder: folder.to_path_buf() })
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join("points").join(format!("{id}.json"))
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

    /// Whether a point's result can be kept: nothing but a file stands where it and its claim go, and no
    /// result of a newer version does.
    ///
    /// # Errors
    /// A device, a pipe or a folder does, which might hold up who opens it; or such a result.
    pub fn is_free(&self, id: &str) -> io::Result<()> {
        for path in [self.path(id), self.lock(id)] {
            files::is_regular(&path).map_err(io::Error::other)?;
        }
        let path = self.path(id);
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

    fn lock(&self, id: &str) -> PathBuf {
        self.folder.join("points").join(format!(".{id}.lock"))
    }

    /// Claims a point; none where another process computes it now.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn claim(&self, id: &str) -> io::Result<Option<Claim>> {
        self.is_free(id)?;
        let path = self.lock(id);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Claim { file, path })),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// Keeps a point's result.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&self, stored: &Stored) -> io::Result<()> {
        self.is_free(&stored.id)?;
        let text = serde_json::to_string_pretty(stored)? + "\n";
        files::write_one_of_many(&self.path(&stored.id), text.as_bytes())
    }

    /// Keeps the values of a chip, by their hash.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put_config(&self, hash: &str, text: &str) -> io::Result<()> {
        let path = self.folder.join("configs").join(format!("{hash}.json"));
        if path.exists() { Ok(()) } else { files::write_one_of_many(&path, text.as_bytes()) }
    }

    /// The values of a chip.
    pub fn config(&self, hash: &str) -> Option<String> {
        files::read_text(&self.folder.join("configs").join(format!("{hash}.json"))).ok()
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
    fn results_are_whole_or_absent_and_claims_exclude_each_other() {
        let folder = std::env::temp_dir().join(format!("warpsim-store-{}", std::process::id()));
        let store = Store::open(&folder).expect("made");
        assert!(store.get("a").is_none());
        store.put(&stored("a")).expect("written");
        assert_eq!(store.get("a").and_then(|s| s.report), Some(report()));
        // Half a file, and one under another's name.
        let text = std::fs::read_to_string(store.path("a")).expect("there");
        std::fs::write(store.path("b"), &text[..text.len() / 2]).expect("written");
        std::fs::write(store.path("c"), &text).expect("written");
        assert!(store.get("b").is_none() && store.get("c").is_none());
        let first = store.claim("a").expect("a folder");
        assert!(first.is_some());
        assert!(store.claim("a").expect("a folder").is_none());
        assert!(store.claim("b").expect("a folder").is_some());
        drop(first);
        assert!(store.claim("a").expect("a folder").is_some());
        // What a killed process left is no result.
        std::fs::write(folder.join("points").join(".d.json.1.ThreadId(1)"), &text).expect("written");
        assert!(store.get("d").is_none());
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
