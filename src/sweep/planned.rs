//! A sweep that is planned: its points with the names of their results. The results folder keeps it, in
//! `sweeps/KEY.json`, so that tasks, status and tables need not read every workload and chip again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sim_frontend::diagnostic::{Diagnostic, Source};

use super::points::{id, load};
use super::spec::{Point, SweepSpec};
use super::store::{Store, in_folder, names};
use super::table::{AFTER, BEFORE};
use crate::digest::hash;
use crate::files;
use crate::known::Known;
use crate::study::{in_parallel, jobs};

/// Version of the format.
const SCHEMA: u32 = 1;

/// The file.
#[derive(Serialize, Deserialize)]
struct Kept {
    schema: u32,
    /// Name of the sweep.
    name: String,
    /// Its file, as it was named.
    file: String,
    /// Where the command was given: paths in the sweep are relative to it.
    folder: PathBuf,
    /// The version that planned it.
    version: String,
    /// Text of the sweep file.
    text: String,
    /// The points' results by name, in the order of the points.
    ids: Vec<String>,
}

/// A sweep with its points.
pub struct Plan {
    /// The sweep.
    pub spec: SweepSpec,
    /// Its points.
    pub points: Vec<Point>,
    /// Names of their results.
    pub ids: Vec<String>,
    /// The version that planned it.
    pub version: String,
    /// Where the command was given.
    pub folder: PathBuf,
    source: Source,
}

impl Plan {
    /// Plans a sweep: finds all that its points name.
    ///
    /// # Errors
    /// What is wrong with its file. A point that is refused has a name too.
    pub fn make(file: &Path, known: &Known) -> Result<Self, Vec<Diagnostic>> {
        let (source, spec, points) = load(file)?;
        let folder = std::env::current_dir().map_err(|error| {
            let message = format!("the current directory cannot be found: {}", files::reason(&error));
            vec![Diagnostic::error("sweep", message)]
        })?;
        let ids = in_parallel(&points, jobs(None), |point| id(point, &spec.run, known));
        Ok(Self { spec, points, ids, version: crate::VERSION.to_string(), folder, source })
    }

    /// The name of the plan: plans of other points have others.
    pub fn key(&self) -> String {
        let ids = self.ids.concat();
        hash(&[self.spec.name.as_bytes(), self.source.text.as_bytes(), ids.as_bytes()])
    }

    /// Keeps it in a results folder.
    ///
    /// # Errors
    /// The file cannot be written, in words.
    pub fn keep(&self, store: &Store) -> Result<(), String> {
        let kept = Kept {
            schema: SCHEMA,
            name: self.spec.name.clone(),
            file: self.source.name.to_string(),
            folder: self.folder.clone(),
            version: self.version.clone(),
            text: self.source.text.to_string(),
            ids: self.ids.clone(),
        };
        let folder = store.file("sweeps");
        let path = folder.join(format!("{}.json", self.key()));
        let text = serde_json::to_string(&kept).map_err(|error| error.to_string())? + "\n";
        in_folder(&folder, || files::write_one_of_many(&path, text.as_bytes()))
            .map_err(|error| files::unwritable(&path, &error))
    }

    /// Reads one of a results folder.
    ///
    /// # Errors
    /// There is none, or what is wrong with it.
    pub fn read(results: &Path, key: &str) -> Result<Self, String> {
        let path = results.join("sweeps").join(format!("{key}.json"));
        let kept: Kept = files::read_json(&path)?;
        let wrong = |why: String| {
            format!("{}: {why}; `warpsim sweep submit` or `run` plans it again", path.display())
        };
        if kept.schema != SCHEMA {
            return Err(wrong(format!("schema {}; this version reads {SCHEMA}", kept.schema)));
        }
        let source = Source::new(&kept.file, &kept.text);
        let first =
            |errors: Vec<Diagnostic>| wrong(errors.first().map_or(String::new(), ToString::to_string));
        let spec = SweepSpec::load(&source).map_err(first)?;
        let points = spec.points().map_err(|error| first(vec![error]))?;
        if points.len() != kept.ids.len() {
            return Err(wrong(format!("{} points have {} names", points.len(), kept.ids.len())));
        }
        Ok(Self { spec, points, ids: kept.ids, version: kept.version, folder: kept.folder, source })
    }

    /// The plans of a results folder: of plans of one name the last one.
    ///
    /// # Errors
    /// The folder has none, or one cannot be read; in words.
    pub fn all(results: &Path) -> Result<Vec<Self>, String> {
        let folder = results.join("sweeps");
        let mut found = Vec::new();
        for name in names(&folder).map_err(|error| files::unreadable(&folder, &error))? {
            let Some(key) = name.strip_suffix(".json").filter(|key| !key.starts_with('.')) else { continue };
            let at = std::fs::metadata(folder.join(&name)).and_then(|facts| facts.modified());
            found.push((at.unwrap_or(SystemTime::UNIX_EPOCH), key.to_string()));
        }
        // Of the same time the one whose name is greater.
        found.sort();
        let mut last: BTreeMap<String, Self> = BTreeMap::new();
        for (_, key) in found {
            let plan = Self::read(results, &key)?;
            last.insert(plan.spec.name.clone(), plan);
        }
        match last.is_empty() {
            true => Err(format!(
                "{} holds no planned sweep; `warpsim sweep submit FILE --results DIR` or `sweep run` makes one",
                results.display()
            )),
            false => Ok(last.into_values().collect()),
        }
    }

    /// The only plan of a results folder, or the one of a key.
    ///
    /// # Errors
    /// There is none, or there are several; in words.
    pub fn one(results: &Path, key: Option<&str>) -> Result<Self, String> {
        if let Some(key) = key {
            return Self::read(results, key);
        }
        let mut all = Self::all(results)?;
        match (all.pop(), all.as_slice()) {
            (Some(plan), []) => Ok(plan),
            (last, others) => {
                let names = others.iter().chain(&last).map(|plan| plan.spec.name.as_str());
                Err(format!(
                    "{} holds several sweeps ({}): name the sweep file and --results",
                    results.display(),
                    names.collect::<Vec<_>>().join(", ")
                ))
            }
        }
    }

    /// Whether two plans are of the same points.
    pub fn same(&self, other: &Self) -> bool {
        (&self.spec.name, &self.source.text, &self.ids) == (&other.spec.name, &other.source.text, &other.ids)
    }

    /// The columns of its table.
    pub(super) fn header(&self) -> Vec<&str> {
        let axes = self.points.first().map_or(&[][..], |point| &point.values);
        let axes = axes.iter().map(|(axis, _)| axis.as_str());
        BEFORE.into_iter().chain(axes).chain(AFTER).collect()
    }

    /// The distinct points: names with the numbers of the points they belong to, in the order of the first of them.
    pub fn items(&self, mine: impl Fn(usize) -> bool) -> Vec<Item> {
        let mut at: BTreeMap<&str, usize> = BTreeMap::new();
        let mut items: Vec<Item> = Vec::new();
        for (i, id) in self.ids.iter().enumerate().filter(|(i, _)| mine(*i)) {
            let place = *at.entry(id).or_insert(items.len());
            match items.get_mut(place) {
                Some(item) => item.points.push(i),
                None => items.push(Item { id: id.clone(), points: vec![i] }),
            }
        }
        items
    }

    /// What `warpsim run` takes for a point.
    pub fn words(&self, item: &Item) -> String {
        let point = item.points.first().and_then(|i| self.points.get(*i));
        point.map_or(String::new(), |point| point.words(&self.spec.run).join(" "))
    }
}

/// A result that is wanted, with the numbers of the points that it belongs to.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its name.
    pub id: String,
    /// The points.
    pub points: Vec<usize>,
}
