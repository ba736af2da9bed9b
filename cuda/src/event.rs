//! An event: a point of simulated time.

use sim_core::report::Time;

/// When an event was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At a time.
    At(Time),
    /// At the end of a launch that is queued.
    After(u64),
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// When it was last recorded.
    pub when: Option<When>,
    /// It keeps its time.
    pub timing: bool,
    /// It was made for other processes too.
    pub interprocess: bool,
}
