//! Synchronization by the named barriers of a block, decided for all interleavings of its threads, after Sharma, Bauer and
//! Aiken, "Verification of Producer-Consumer Synchronization in GPU Programs" (NB, PLDI 2015).
//!
//! [`program`] has thread programs, [`semantics`] the operational semantics as printed, [`search`] every interleaving of
//! small programs, [`figure4`] the algorithm WELLSYNC as printed. [`decide()`] is what scales: one execution
//! ([`trace`]), its barrier dependence graph ([`order`]), and a sweep over the accesses ([`races`]).
//!
//! ```
//! use sim_verify::sync::program::{Block, arrive, read, sync, write};
//! use sim_verify::sync::{Verdict, View, decide};
//!
//! let good = Block::new(vec![vec![write(0, 4), arrive(1, 2)], vec![sync(1, 2), read(0, 4)]]);
//! assert!(matches!(decide(&(&good).into(), View::Threads).verdict, Verdict::Verified));
//! let bad = Block::new(vec![vec![arrive(1, 2), write(0, 4)], vec![sync(1, 2), read(0, 4)]]);
//! assert!(matches!(decide(&(&bad).into(), View::Threads).verdict, Verdict::Races(_)));
//! ```

pub mod agents;
pub mod asynchronous;
pub mod decide;
pub mod figure4;
pub mod object;
pub mod order;
pub mod phases;
pub mod program;
pub mod races;
pub mod search;
pub mod semantics;
pub mod trace;

pub use agents::View;
pub use decide::{Decision, Measures, Recycling, Verdict, decide};

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod phase_tests;
#[cfg(test)]
mod tests;
