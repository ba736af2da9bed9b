//! Commands that run many simulations for one table.

mod agreement;
pub mod liveness;
pub mod microbenchmarks;
pub mod policies;
pub mod registers;
pub mod silicon;

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

/// Who is told how many of how many simulations are done.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Computes `f` of every item, `jobs` at a time; results keep the order of the items.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], jobs: usize, f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = jobs.clamp(1, items.len().max(1));
    match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
        // One item is a whole simulation: they are handed out one by one.
        Ok(pool) => pool.install(|| items.par_iter().with_max_len(1).map(&f).collect()),
        // The host has no thread left: this one does it all.
        Err(_) => items.iter().map(f).collect(),
    }
}

/// [`in_parallel`], and `progress` is told after each.
fn told<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    progress: Progress<'_>,
    f: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let done = AtomicUsize::new(0);
    in_parallel(items, jobs, |item| {
        let result = f(item);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, items.len());
        result
    })
}

/// Simulations at a time where none are asked for: the host's cores.
pub fn jobs(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}
