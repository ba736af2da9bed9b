//! An mbarrier object (PTX ISA "mbarrier"): what its phase waits for, and what must not be done to it.

use super::agents::Does;
use super::program::Act;

/// Most arrivals of a phase, and most bytes either way (PTX ISA "Contents of the mbarrier object").
pub const MOST: u32 = (1 << 20) - 1;

/// What the phase of an object waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    expected: u32,
    pending: u32,
    bytes: i64,
}

/// An operation that must not be there, whatever the interleaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Misuse {
    /// There is no object: it is not initialized, or no longer valid.
    NotInitialized,
    /// An object is initialized that is valid.
    StillValid,
    /// An object that expects no arrival or too many.
    Count,
    /// More arrivals than the phase still waits for.
    TooManyArrivals,
    /// Threads with the same program contribute to different phases.
    OtherPhase,
    /// The bytes of a phase are too many.
    TooManyBytes,
    /// A thread arrives at the barrier of its cluster and has not waited for its arrival before.
    ArrivedTwice,
    /// A thread waits at the barrier of its cluster where it has not arrived.
    NotArrived,
}

impl Misuse {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotInitialized => "not_initialized",
            Self::StillValid => "still_valid",
            Self::Count => "count",
            Self::TooManyArrivals => "too_many_arrivals",
            Self::OtherPhase => "other_phase",
            Self::TooManyBytes => "too_many_bytes",
            Self::ArrivedTwice => "arrived_twice",
            Self::NotArrived => "not_arrived",
        }
    }
}

impl Object {
    /// An object that expects `count` arrivals a phase, if it can.
    pub fn new(count: u32) -> Option<Self> {
        (1..=MOST).contains(&count).then_some(Self { expected: count, pending: count, bytes: 0 })
    }

    /// Arrivals that a phase begins with.
    pub fn expected(&self) -> u32 {
        self.expected
    }

    /// Arrivals and bytes that the phase still waits for.
    pub fn left(&self) -> (u32, i64) {
        (self.pending, self.bytes)
    }

    /// What a thread contributes, with what comes of it later; true: the phase is complete.
    ///
    /// # Errors
    /// It cannot.
    pub fn perform(&mut self, does: Does) -> Result<bool, Misuse> {
        let (expected, arrivals, bytes, drop) = match does {
            Does::Object(Act::Arrive { count, bytes, drop }) => (0, count, i64::from(bytes), drop),
            Does::Object(Act::Expect { bytes }) => (0, 0, i64::from(bytes), false),
            Does::Object(Act::Complete { bytes }) | Does::CopiesBulk(bytes) => {
                (0, 0, -i64::from(bytes), false)
            }
            Does::ArrivesLater(inc) => (u32::from(inc), 1, 0, false),
            _ => return Ok(false),
        };
        self.bytes += bytes;
        self.pending += expected;
        if self.bytes.unsigned_abs() > MOST.into() {
            return Err(Misuse::TooManyBytes);
        }
        if arrivals > self.pending {
            return Err(Misuse::TooManyArrivals);
        }
        self.pending -= arrivals;
        self.expected -= if drop { arrivals.min(self.expected) } else { 0 };
        let only_expects = matches!(does, Does::Object(Act::Expect { .. }));
        let complete = self.pending == 0 && self.bytes == 0 && !only_expects;
        if complete {
            self.pending = self.expected;
        }
        Ok(complete)
    }
}
