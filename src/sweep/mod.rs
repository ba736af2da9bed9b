//! `warpsim sweep`: many points, each computed once, kept in a folder, one table at the end.

mod collect;
mod merge;
mod plan;
mod points;
mod spec;
mod store;
mod table;

pub use collect::collect;
pub use merge::merge;
pub use plan::plan;
pub use points::run;
pub use spec::SweepSpec;
pub use store::Stored;
pub use table::read_table;
