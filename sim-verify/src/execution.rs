//! Executions of a litmus test: paths of its threads, what its reads read, how its barriers pair.

pub mod barriers;
pub mod candidate;
mod liveness;
pub mod paths;

pub use candidate::{Candidate, Event, EventKind};
pub use paths::{Outcome, Path};
