//! The front end: PTX text in, program environment out; chip files; workload files.
//! This crate knows no cycles.

pub mod awaited;
pub mod chip;
pub mod dependence;
pub mod diagnostic;
pub mod fairness;
pub mod form;
pub mod isa;
pub mod isa_cost;
mod launch_bounds;
pub mod link;
pub mod load;
pub mod lower;
pub mod matrix;
pub mod program;
pub mod program_flow;
pub mod ptx;
mod special_registers;
pub mod tensor_map;
pub mod values;
pub mod waits;
pub mod wgmma;
pub mod workload;
pub mod yaml;
