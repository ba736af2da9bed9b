//! References: what workloads should compute, computed on the host in the plainest way.

mod compute;
mod divergence;
mod images;
mod inputs;
mod irregular;
mod kernels;
mod microbenchmarks;
mod tensor;

pub use inputs::{Inputs, Reference, ReferenceError};

fn all() -> impl Iterator<Item = &'static (&'static str, Reference)> {
    kernels::ALL
        .iter()
        .chain(microbenchmarks::ALL)
        .chain(divergence::ALL)
        .chain(irregular::ALL)
        .chain(compute::ALL)
        .chain(images::ALL)
        .chain(tensor::ALL)
}

/// The reference of a name.
pub fn find(name: &str) -> Option<Reference> {
    all().find(|(n, _)| *n == name).map(|(_, f)| *f)
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().map(|(name, _)| *name)
}
