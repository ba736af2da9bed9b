//! The device: contexts, grids, blocks, warps, threads, reconvergence, pipelines, the event
//! engine, monitors, statistics. Files are named after the levels of the thesis.

pub mod answers;
pub mod barrier;
pub mod block;
pub mod bulk;
pub mod by_split;
pub mod cluster_barrier;
pub mod clusters;
pub mod code;
pub mod context;
pub mod copies;
pub mod copy_counts;
pub mod counts;
pub mod device;
pub mod engine;
pub mod error;
pub mod execute;
pub mod functional;
pub mod grid;
pub mod instruction_set;
pub mod lanes;
#[cfg(test)]
mod literal;
mod liveness;
pub mod lookups;
pub mod mbarrier;
pub mod memory_model;
pub mod monitor;
pub mod options;
pub mod packet;
pub mod printf;
pub mod products;
pub mod reconvergence;
pub mod recording;
pub mod register_pool;
pub mod registers;
pub mod report;
pub mod sampling;
pub mod sanitizer;
pub mod scoreboard;
pub mod sm;
mod state;
mod tensor;
pub mod tensor_counts;
pub mod tensor_map;
pub mod texture;
pub mod touched;
#[cfg(target_arch = "x86_64")]
mod vectors;
pub mod warp;
pub mod wheel;
pub mod writes;
