//! What many runs have in common, read and checked once: workloads, chips, texts, digests of files.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde::Serialize;
use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::{Diagnostic, Source};
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::workload::WorkloadSpec;

use crate::configs::{self, ChipFile};
use crate::digest::hash;
use crate::files;
use crate::find::{Found, find_workload};

/// Things of one kind that are kept; a sweep of more chips than that makes some of them again.
const MOST: usize = 10_000;

/// What is wrong with a file, for all who ask for it.
type Outcome<T> = Result<T, Vec<Diagnostic>>;

/// A digest that is made when it is first asked for.
#[derive(Clone, Debug, Default)]
pub struct Digest(Arc<OnceLock<String>>);

impl Digest {
    /// The digest of `parts` as JSON.
    pub fn of(&self, parts: &impl Serialize) -> &str {
        self.0.get_or_init(|| hash(&[&serde_json::to_vec(parts).unwrap_or_default()]))
    }
}

/// A workload.
#[derive(Clone)]
pub struct KnownWorkload {
    /// The workload.
    pub spec: Arc<WorkloadSpec>,
    /// Its folder.
    pub folder: PathBuf,
    /// Its digest.
    pub digest: Digest,
}

/// A chip with values that were changed.
#[derive(Clone)]
pub struct KnownChip {
    /// The chip.
    pub spec: Arc<ChipSpec>,
    /// Its costs.
    pub costs: Arc<IsaCosts>,
    /// The digest of both.
    pub digest: Digest,
}

/// A PTX file.
#[derive(Clone)]
pub struct KnownText {
    /// Its text.
    pub source: Source,
    /// Its digest.
    pub digest: Digest,
}

/// Values by key, each made once, whoever asks first.
struct Memo<K, V>(Mutex<HashMap<K, Arc<OnceLock<V>>>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<K: Eq + Hash, V: Clone> Memo<K, V> {
    fn get(&self, key: K, make: impl FnOnce() -> V) -> V {
        let slot = {
            let mut known = self.0.lock();
            if known.len() >= MOST && !known.contains_key(&key) {
                known.clear();
            }
            Arc::clone(known.entry(key).or_default())
        };
        slot.get_or_init(make).clone()
    }
}

/// A chip by its name and what is changed of it.
type ChipKey = (String, Vec<(String, String)>);

/// What is known so far. A file that changes later is seen by those who ask another one.
#[derive(Default)]
pub struct Known {
    workloads: Memo<String, Outcome<KnownWorkload>>,
    chip_files: Memo<String, Outcome<Arc<ChipFile>>>,
    chips: Memo<ChipKey, Outcome<KnownChip>>,
    texts: Memo<PathBuf, Outcome<KnownText>>,
    files: Memo<PathBuf, String>,
}

impl Known {
    /// A workload by name, folder or file.
    pub(crate) fn workload(&self, name: &str) -> Outcome<KnownWorkload> {
        self.workloads.get(name.to_string(), || {
            let Found { spec, folder } = find_workload(name)?;
            Ok(KnownWorkload { spec: Arc::new(spec), folder, digest: Digest::default() })
        })
    }

    /// A chip by name or file; `set` changes values by their paths.
    pub(crate) fn chip(&self, name: &str, set: &[(&str, &str)]) -> Outcome<KnownChip> {
        let changed = set.iter().map(|(path, value)| ((*path).to_string(), (*value).to_string()));
        self.chips.get((name.to_string(), changed.collect()), || {
            let file = self.chip_files.get(name.to_string(), || ChipFile::read(name).map(Arc::new))?;
            let (spec, costs) = file.chip(set)?;
            Ok(KnownChip { spec: Arc::new(spec), costs, digest: Digest::default() })
        })
    }

    /// A text file.
    pub(crate) fn text(&self, path: &Path) -> Outcome<KnownText> {
        self.texts.get(path.to_path_buf(), || {
            let source = configs::read(path).map_err(|error| vec![error])?;
            Ok(KnownText { source, digest: Digest::default() })
        })
    }

    /// The digest of a file's bytes; of none where it cannot be read.
    pub(crate) fn file(&self, path: &Path) -> String {
        self.files.get(path.to_path_buf(), || hash(&[&files::read(path, u64::MAX).unwrap_or_default()]))
    }
}
