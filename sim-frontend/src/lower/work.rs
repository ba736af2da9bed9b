//! Steps of the passes that could grow faster than a text does, counted in tests: unlike times they are
//! the same on every machine.

#[cfg(test)]
use std::cell::Cell;

#[cfg(test)]
thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Counts steps; nothing outside tests.
#[inline(always)]
pub(crate) fn count(steps: usize) {
    #[cfg(test)]
    STEPS.with(|own| own.set(own.get() + steps as u64));
    #[cfg(not(test))]
    let _ = steps;
}

/// Steps that `of` took.
#[cfg(test)]
pub(crate) fn steps(of: impl FnOnce()) -> u64 {
    let before = STEPS.with(Cell::get);
    of();
    STEPS.with(Cell::get) - before
}

#[cfg(test)]
mod tests;
