//! The compiler mapping from scoped C++ onto PTX, checked to a bound (MM §4, §5).
//!
//! A program is a set of threads, each a sequence of reads, writes, read-modify-writes and fences with memory orders and
//! scopes. Compiled by a table, every execution that the PTX model allows must have a counterpart that scoped RC11
//! allows, with the same sources of reads and a modification order that contains the coherence order; programs with a
//! data race are excepted.

pub mod counterexample;
pub mod execution;
pub mod program;
pub mod reduce;
pub mod search;
pub mod shapes;
pub mod table;

#[cfg(test)]
mod tests;
