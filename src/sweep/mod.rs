//! `warpsim sweep`: many points, each computed once, kept in a folder, one table at the end.

mod collect;
mod merge;
mod plan;
mod points;
mod run;
pub mod spec;
pub mod store;
pub mod table;
pub mod values;
pub mod workloads;

pub use collect::collect;
pub use merge::merge;
pub use plan::plan;
pub use run::run;
