//! `warpsim sweep`: many points, each computed once, kept in a folder, one table at the end.

pub mod claims;
mod collect;
pub mod host;
pub mod library;
mod merge;
mod plan;
pub mod planned;
mod points;
mod run;
mod slurm;
pub mod spec;
mod standing;
pub mod store;
mod submit;
pub mod table;
pub mod values;
pub mod worker;
pub mod workloads;

pub use collect::collect;
pub use merge::merge;
pub use plan::plan;
pub use run::{run, work};
pub use standing::status;
pub use submit::{cancel, submit};
