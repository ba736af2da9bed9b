//! A sweep as another program has it: points that have no result are simulated, nothing is printed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use sim_frontend::diagnostic::Diagnostic;

use super::claims::Claims;
use super::collect;
use super::planned::Plan;
use super::store::Store;
use super::worker::Worker;
use crate::files;
use crate::known::Known;
use crate::study::jobs;

/// A sweep with the folder that its results are in.
pub struct Sweep {
    plan: Plan,
    known: Known,
    results: PathBuf,
}

/// What came of the points.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// Simulated by this call.
    pub simulated: usize,
    /// Points that had results.
    pub had: usize,
    /// Points that another process is at.
    pub elsewhere: usize,
    /// What was wrong, and the points it was wrong with, as arguments of `warpsim run`. They are rows of the table.
    pub bad: Vec<(String, Vec<String>)>,
    /// Points without a result, and why.
    pub broken: Vec<String>,
}

impl Sweep {
    /// Reads a sweep and plans it. A file that is not there may be one that ships.
    ///
    /// # Errors
    /// What is wrong with its file.
    pub fn new(file: &Path, results: &Path) -> Result<Self, Vec<Diagnostic>> {
        let known = Known::default();
        let plan = Plan::make(file, &known)?;
        Ok(Self { plan, known, results: results.to_path_buf() })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.plan.spec.name
    }

    /// Number of its points.
    pub fn points(&self) -> usize {
        self.plan.points.len()
    }

    /// Simulates the points that have no result; `progress` is told how many points of how many are done.
    ///
    /// # Errors
    /// The folder of results cannot be read or written, in words.
    pub fn simulate(
        &self,
        at_a_time: Option<usize>,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Swept, String> {
        let store = Store::open(&self.results).map_err(|error| files::unwritable(&self.results, &error))?;
        self.plan.keep(&store)?;
        let (done, all) = (AtomicUsize::new(0), self.points());
        let more = |points: usize| progress(done.fetch_add(points, Ordering::Relaxed) + points, all);
        let (claims, key) = (Claims::of(store.folder()), self.plan.key());
        let worker = Worker {
            plan: &self.plan,
            store: &store,
            claims: &claims,
            known: &self.known,
            key: &key,
            jobs: jobs(at_a_time),
            reads: true,
            progress: &more,
        };
        let counts = worker.run(self.plan.items(|_| true), 0.0);
        match counts.stuck {
            Some(message) => Err(message),
            None => Ok(Swept {
                simulated: counts.simulated,
                had: counts.had,
                elsewhere: counts.elsewhere,
                bad: counts.bad.into_iter().collect(),
                broken: counts.broken.into_values().collect(),
            }),
        }
    }

    /// The table: its columns, and a row for each point and metric, as `sweep collect` writes it.
    ///
    /// # Errors
    /// A result that cannot be read, in words.
    pub fn table(&self) -> Result<(Vec<String>, Vec<Vec<String>>), String> {
        collect::table(&self.plan, &Store::read_only(&self.results))
    }
}
