//! The front end: PTX text in, program environment out; chip files; workload files.
//! This crate knows no cycles.

pub mod diagnostic;
pub mod ptx;
pub mod form;
pub mod isa;
pub mod program;
pub mod load;
pub mod lower;
pub mod chip;
pub mod isa_cost;
pub mod yaml;
pub mod workload;
