//! The points of a sweep: what each asks for, and what it came to.

use std::path::Path;

use sim_frontend::diagnostic::{Diagnostic, Source};

use super::spec::{Common, Point, SweepSpec};
use crate::configs;
use crate::digest::hash;
use crate::known::Known;
use crate::request::Request;
use crate::run::simulator;
use crate::shipped;
use crate::study::{in_parallel, jobs};
use crate::work::Work;

/// Reads a sweep and lists its points.
///
/// # Errors
/// What is wrong with it.
pub fn load(file: &Path) -> Result<(Source, SweepSpec, Vec<Point>), Vec<Diagnostic>> {
    let source = configs::read(&shipped::or_shipped(file, "configs/sweeps")).map_err(|e| vec![e])?;
    let spec = SweepSpec::load(&source)?;
    let points = spec.points().map_err(|e| vec![e])?;
    if points.is_empty() {
        let message = format!("{}: no point of the sweep is left after `only` and `exclude`", spec.name);
        return Err(vec![Diagnostic::error("sweep", message).in_source(&source)]);
    }
    Ok((source, spec, points))
}

/// A point, ready to be simulated or refused.
pub enum Candidate {
    /// It can be simulated.
    Ready {
        /// Hash of all that is simulated.
        id: String,
        /// What is asked for.
        request: Box<Request>,
        /// Arguments of `warpsim run` that ask for it.
        words: Vec<String>,
    },
    /// It cannot, whatever is done.
    Refused {
        /// Arguments of `warpsim run`.
        words: Vec<String>,
        /// Why, in one line.
        message: String,
    },
}

impl Candidate {
    /// What a point of a sweep comes to.
    pub fn of(point: &Point, common: &Common, known: &Known) -> Self {
        let words = point.words(common);
        let ready = point.request(common).and_then(|request| {
            let id = Work::known(request.clone(), known)?.identity(known)?.id;
            Ok((id, Box::new(request)))
        });
        match ready {
            Ok((id, request)) => Self::Ready { id, request, words },
            Err(errors) => {
                let message = first(&errors);
                Self::Refused { words, message }
            }
        }
    }

    /// Its warp instructions, by a functional run.
    pub fn instructions(&self) -> Option<u64> {
        let Self::Ready { request, .. } = self else { return None };
        let request = Request { functional: true, max_cycles: None, ..(**request).clone() };
        let done = Work::new(request).ok()?.run().ok()?;
        Some(done.kernels().iter().map(|(.., instructions)| instructions).sum())
    }
}

/// What the points of a sweep come to, in their order.
pub fn candidates(spec: &SweepSpec, points: &[Point]) -> Vec<Candidate> {
    let known = Known::default();
    in_parallel(points, jobs(None), |point| Candidate::of(point, &spec.run, &known))
}

/// The name of a point's result.
pub fn id(point: &Point, common: &Common, known: &Known) -> String {
    match Candidate::of(point, common, known) {
        Candidate::Ready { id, .. } => id,
        Candidate::Refused { words, .. } => refused_id(&words),
    }
}

/// The identity of a point that is refused: it has no configuration that could be named, so its words
/// name it.
pub fn refused_id(words: &[String]) -> String {
    hash(&[words.join("\0").as_bytes(), simulator().as_bytes()])
}

/// The first of several errors and its way out, in one line.
pub fn first(errors: &[Diagnostic]) -> String {
    let Some(error) = errors.first() else { return String::new() };
    match error.help.as_deref().filter(|help| help.starts_with("did you mean")) {
        Some(help) => format!("{}; {help}", error.message),
        None => error.message.clone(),
    }
}
