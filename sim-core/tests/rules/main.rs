//! The rules of CS ch. 5 on whole programs: each test carries the id of the rule it shows
//! (docs/rules.md) and fails if the rule is broken.

#![allow(missing_docs, reason = "tests")]

mod assembler;
mod asynchronous;
mod blackwell;
mod bulk;
mod clusters;
mod contract;
mod dispatch;
mod dual_issue;
mod hierarchy;
mod hints;
mod independent;
mod launch_control;
mod limits;
mod liveness;
mod machine;
mod made_maps;
mod matrix;
mod memory_order;
mod newer;
mod newer_copies;
mod random_programs;
mod runtime;
mod tensor_copies;
mod tensor_maps;
mod textures;
mod threads;
mod warpgroup;
mod wide;
mod workers;
