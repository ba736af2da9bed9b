//! Thread programs: straight lines of barrier operations and accesses to shared memory; and the same for the lanes of
//! warps, as a run gives them.

use serde::Serialize;

/// Lanes of a stream at most.
pub const LANES: usize = 32;

/// Bytes of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Range {
    /// The first one.
    pub start: u32,
    /// How many.
    pub bytes: u32,
}

impl Range {
    /// They have a byte in common.
    pub fn overlaps(self, other: Self) -> bool {
        let end = |range: Self| u64::from(range.start) + u64::from(range.bytes);
        u64::from(self.start) < end(other) && u64::from(other.start) < end(self)
    }
}

/// What is done to bytes of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// `read g`.
    Read,
    /// `write g`.
    Write,
    /// A read-modify-write that no other atomic interrupts; NB has none.
    Atomic,
}

impl Access {
    /// Unordered, these two are a race if they have a byte in common.
    pub fn conflicts(self, other: Self) -> bool {
        !matches!((self, other), (Self::Read, Self::Read) | (Self::Atomic, Self::Atomic))
    }

    /// As a verb.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Write => "writes",
            Self::Atomic => "atomically updates",
        }
    }
}

/// A command of a thread program (NB §3.1): `read g`, `write g`, `arrive b n`, `sync b n`; a program ends with `return`,
/// which is left out here [nb-syntax].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// An access to shared memory.
    Access(Access, Range),
    /// Arrives at a barrier and does not wait.
    Arrive {
        /// The barrier.
        barrier: u32,
        /// How many threads it expects.
        count: u32,
    },
    /// Arrives at a barrier and waits until it is complete.
    Sync {
        /// The barrier.
        barrier: u32,
        /// How many threads it expects; `None`, which NB does not have: all threads of the block that have not returned.
        count: Option<u32>,
    },
}

/// The commands of a thread, in order.
pub type Thread = Vec<Command>;

/// A block (CTA) `P1 || P2 || … || PN`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Its threads.
    pub threads: Vec<Thread>,
}

impl Block {
    /// A block of these threads.
    pub fn new(threads: Vec<Thread>) -> Self {
        Self { threads }
    }
}

/// `read g`.
pub fn read(start: u32, bytes: u32) -> Command {
    Command::Access(Access::Read, Range { start, bytes })
}

/// `write g`.
pub fn write(start: u32, bytes: u32) -> Command {
    Command::Access(Access::Write, Range { start, bytes })
}

/// An atomic read-modify-write.
pub fn atomic(start: u32, bytes: u32) -> Command {
    Command::Access(Access::Atomic, Range { start, bytes })
}

/// `arrive b n`.
pub fn arrive(barrier: u32, count: u32) -> Command {
    Command::Arrive { barrier, count }
}

/// `sync b n`.
pub fn sync(barrier: u32, count: u32) -> Command {
    Command::Sync { barrier, count: Some(count) }
}

/// `sync b` of all threads that have not returned.
pub fn sync_all(barrier: u32) -> Command {
    Command::Sync { barrier, count: None }
}

/// Addresses of lanes, in short where they lie at equal distances.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// `base + lane * stride`, modulo 2^32.
    Affine {
        /// The address of lane 0.
        base: u32,
        /// From one lane to the next.
        stride: u32,
    },
    /// One by one.
    Each(Box<[u32; LANES]>),
}

impl Addresses {
    /// Those of `lanes`; what the others have does not matter.
    pub fn of(lanes: u32, addresses: &[u32; LANES]) -> Self {
        let first = lanes.trailing_zeros().min(31);
        let rest = lanes & !(1 << first);
        let at = addresses[first as usize];
        let mut stride = 0;
        if rest != 0 {
            let second = rest.trailing_zeros();
            let (distance, lanes_between) =
                (addresses[second as usize].wrapping_sub(at).cast_signed(), (second - first).cast_signed());
            stride = (distance / lanes_between).cast_unsigned();
        }
        let base = at.wrapping_sub(first.wrapping_mul(stride));
        let affine = |lane: u32| base.wrapping_add(lane.wrapping_mul(stride));
        match (0..LANES as u32).all(|lane| lanes >> lane & 1 == 0 || affine(lane) == addresses[lane as usize])
        {
            true => Self::Affine { base, stride },
            false => Self::Each(Box::new(*addresses)),
        }
    }

    /// That of a lane.
    pub fn at(&self, lane: u32) -> u32 {
        match self {
            Self::Affine { base, stride } => base.wrapping_add(lane.wrapping_mul(*stride)),
            Self::Each(addresses) => addresses[lane as usize],
        }
    }
}

/// What lanes of a warp do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// An access to shared memory.
    Access {
        /// Of which kind.
        access: Access,
        /// Bytes of each lane.
        bytes: u32,
        /// Where.
        addresses: Addresses,
    },
    /// `arrive b n`.
    Arrive {
        /// The barrier.
        barrier: u32,
        /// How many threads it expects.
        count: u32,
    },
    /// `sync b n`.
    Sync {
        /// The barrier.
        barrier: u32,
        /// How many threads it expects; `None`: all that have not returned.
        count: Option<u32>,
    },
    /// Waits for the lanes of a mask that have not returned.
    Meet {
        /// The mask.
        mask: u32,
        /// Accesses to memory before it are ordered before those behind it: `bar.warp.sync` does that, other collectives
        /// do not.
        orders_memory: bool,
    },
}

/// A step of lanes of a warp.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// Which lanes.
    pub lanes: u32,
    /// Where in the program: a number of whoever made it.
    pub site: u32,
    /// What they do.
    pub operation: Operation,
}

/// The steps of a warp in the order in which it executed them. The program of a thread is what its lane takes part in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    /// The number of the thread of lane 0.
    pub first_thread: u32,
    /// Its lanes that have threads.
    pub lanes: u32,
    /// Its steps.
    pub steps: Vec<Step>,
}

/// Thread programs of a block, by warps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Programs {
    /// What a warp counts for at a barrier with a thread count once all of its threads that do not return without have
    /// arrived.
    pub warp_size: u32,
    /// The warps.
    pub streams: Vec<Stream>,
}

impl Programs {
    /// Number of threads.
    pub fn threads(&self) -> u32 {
        self.streams.iter().map(|stream| stream.lanes.count_ones()).sum()
    }
}

impl From<&Block> for Programs {
    /// Each thread is a warp of its own; sites are positions in its program.
    fn from(block: &Block) -> Self {
        let step = |(site, command): (usize, &Command)| Step {
            lanes: 1,
            site: site as u32,
            operation: match *command {
                Command::Access(access, Range { start, bytes }) => Operation::Access {
                    access,
                    bytes,
                    addresses: Addresses::Affine { base: start, stride: 0 },
                },
                Command::Arrive { barrier, count } => Operation::Arrive { barrier, count },
                Command::Sync { barrier, count } => Operation::Sync { barrier, count },
            },
        };
        let stream = |(thread, commands): (usize, &Thread)| Stream {
            first_thread: thread as u32,
            lanes: 1,
            steps: commands.iter().enumerate().map(step).collect(),
        };
        Self { warp_size: 1, streams: block.threads.iter().enumerate().map(stream).collect() }
    }
}
