//! What is decided about programs without timing them: axiomatic memory models, litmus tests, compiler mappings.
//!
//! ```
//! use sim_verify::cat::Model;
//!
//! let model = Model::parse("sc.cat", "SC\nlet fr = rf^-1; co0\n");
//! assert_eq!(model.unwrap_err().message, "`co0` is not defined");
//! ```

pub mod cat;
mod cursor;
pub mod execution;
pub mod expect;
pub mod explain;
pub mod litmus;
pub mod mapping;
pub mod models;
pub mod relation;
pub mod show;
pub mod sync;
pub mod verdict;
pub mod vocabulary;
