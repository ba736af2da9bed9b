//! Commands that run many simulations for one table.

pub mod microbenchmarks;
