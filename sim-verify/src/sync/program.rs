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
    /// A write by an asynchronous copy, between its command and its completion.
    Copy,
    /// A read by one, or by a product of matrices.
    Source,
}

/// What goes on beside a thread and is waited for by groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// `cp.async`: writes shared memory.
    Copies,
    /// Bulk copies from shared memory, which they read.
    Stores,
    /// `wgmma.mma_async`: reads it.
    Products,
}

impl Queue {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// What is done to shared memory.
    pub fn access(self) -> Access {
        if self == Self::Copies { Access::Copy } else { Access::Source }
    }
}

impl Access {
    /// Unordered, these two are a race if they have a byte in common.
    pub fn conflicts(self, other: Self) -> bool {
        let reads = |access| matches!(access, Self::Read | Self::Source);
        !(reads(self) && reads(other) || (self, other) == (Self::Atomic, Self::Atomic))
    }

    /// As a verb.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Write => "writes",
            Self::Atomic => "atomically updates",
            Self::Copy => "asynchronously writes",
            Self::Source => "asynchronously reads",
        }
    }
}

/// What is done to an mbarrier object (PTX ISA "mbarrier").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// `mbarrier.init`: each phase expects so many arrivals.
    Init {
        /// How many.
        count: u32,
    },
    /// `mbarrier.inval`.
    Inval,
    /// `mbarrier.arrive`.
    Arrive {
        /// How many arrivals.
        count: u32,
        /// `.expect_tx`: bytes that the phase waits for, first.
        bytes: u32,
        /// `arrive_drop`: no later phase expects them.
        drop: bool,
    },
    /// `mbarrier.expect_tx`: the phase waits for so many bytes more.
    Expect {
        /// How many.
        bytes: u32,
    },
    /// `mbarrier.complete_tx`: so many bytes have come.
    Complete {
        /// How many.
        bytes: u32,
    },
    /// A loop of `mbarrier.test_wait` or `try_wait`: goes on once the parity of the object's phase is not this one.
    Wait {
        /// The parity of the phase that is waited for.
        odd: bool,
    },
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
    /// An operation on an mbarrier object, by the number of the object.
    Object(u32, Act),
    /// `cp.async`: these bytes are written at any time from now on.
    Copy(Range),
    /// `cp.async.commit_group`: the copies since the last one are a group.
    Commit,
    /// `cp.async.wait_group`: waits until all groups but so many newest ones are written; `None`, `cp.async.wait_all`: until
    /// all copies are.
    Await(Option<u8>),
    /// `cp.async.mbarrier.arrive`: an arrival when the copies of the thread so far are written.
    CopiesArrive {
        /// The object.
        object: u32,
        /// Without `.noinc`: the phase expects one arrival more from now on.
        inc: bool,
    },
    /// `cp.async.bulk`: these bytes are written at any time from now on, and then counted at the object.
    Bulk {
        /// The object.
        object: u32,
        /// The bytes.
        to: Range,
    },
    /// `barrier.cluster.arrive`, in a cluster of one block.
    ClusterArrive,
    /// `barrier.cluster.wait`: waits until all threads that have not returned have arrived as often as this one.
    ClusterWait,
    /// What comes before is visible to whoever observes the event of this number. There is one signal of each.
    Signal(u32),
    /// Waits for the event.
    Observe(u32),
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
    /// An operation on an mbarrier object.
    Object {
        /// Its address.
        object: u32,
        /// What is done.
        act: Act,
        /// It orders no accesses to memory.
        relaxed: bool,
    },
    /// `cp.async`, or another one of a queue.
    Copy {
        /// Of which.
        queue: Queue,
        /// Another part of the same follows: of a product, each part has some of its bytes.
        more: bool,
        /// Bytes of each lane.
        bytes: u32,
        /// Where.
        addresses: Addresses,
    },
    /// `cp.async.commit_group` and its like.
    Commit {
        /// Of which.
        queue: Queue,
    },
    /// `cp.async.wait_group` and its like, `cp.async.wait_all`.
    Await {
        /// Of which.
        queue: Queue,
        /// The number of newest groups that may be under way; `None`: no copy may be.
        newest: Option<u8>,
    },
    /// `cp.async.mbarrier.arrive`.
    CopiesArrive {
        /// The object's address.
        object: u32,
        /// Without `.noinc`.
        inc: bool,
    },
    /// `cp.async.bulk`.
    Bulk {
        /// The object's address.
        object: u32,
        /// Bytes of each lane.
        bytes: u32,
        /// Where.
        addresses: Addresses,
    },
    /// `barrier.cluster`.
    Cluster {
        /// `.wait`.
        wait: bool,
        /// It orders no accesses to memory.
        relaxed: bool,
    },
    /// What one lane does before is visible to whoever observes this event: a release that was read.
    Signal {
        /// The event, of which this is the only signal.
        event: u32,
        /// It orders no accesses to memory: what comes before has been executed.
        relaxed: bool,
    },
    /// Waits for an event: an acquire that has read what its signal released.
    Observe {
        /// The event.
        event: u32,
        /// It orders no accesses to memory.
        relaxed: bool,
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

impl Operation {
    /// It is one of independent threads only: warps in lockstep need not meet, and the order of their atomic operations is
    /// not followed.
    pub fn is_of_threads(&self) -> bool {
        matches!(self, Self::Meet { .. } | Self::Signal { .. } | Self::Observe { .. })
    }
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

/// How the blocks of a cluster lie one behind another, by their ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// Numbers of threads from one block to the next: a block's warps have those of its own.
    pub threads: u32,
    /// Addresses from the shared memory of one block to that of the next.
    pub bytes: u32,
}

/// Thread programs of a block, or of the blocks of a cluster, by warps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Programs {
    /// The blocks of a cluster of several.
    pub blocks: Option<Blocks>,
    /// What a warp counts for at a barrier with a thread count once all of its threads that do not return without have
    /// arrived.
    pub warp_size: u32,
    /// The warps.
    pub streams: Vec<Stream>,
}

impl Programs {
    /// The rank of the block of a thread.
    pub fn block_of(&self, thread: u32) -> u32 {
        self.blocks.map_or(0, |blocks| thread / blocks.threads.max(1))
    }

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
            operation: operation(*command),
        };
        let stream = |(thread, commands): (usize, &Thread)| Stream {
            first_thread: thread as u32,
            lanes: 1,
            steps: commands.iter().enumerate().map(step).collect(),
        };
        Self { blocks: None, warp_size: 1, streams: block.threads.iter().enumerate().map(stream).collect() }
    }
}

/// Bytes from an mbarrier object of small programs to the next: they lie beyond the places of accesses there.
const OBJECT_BYTES: u32 = 8;

/// The address of an mbarrier object of small programs.
pub fn object_address(object: u32) -> u32 {
    0x100 + OBJECT_BYTES * object
}

/// The same by a warp of one lane.
fn operation(command: Command) -> Operation {
    let at = |range: Range| Addresses::Affine { base: range.start, stride: 0 };
    match command {
        Command::Access(access, to) => Operation::Access { access, bytes: to.bytes, addresses: at(to) },
        Command::Arrive { barrier, count } => Operation::Arrive { barrier, count },
        Command::Sync { barrier, count } => Operation::Sync { barrier, count },
        Command::Object(object, act) => {
            Operation::Object { object: object_address(object), act, relaxed: false }
        }
        Command::Copy(to) => {
            Operation::Copy { queue: Queue::Copies, more: false, bytes: to.bytes, addresses: at(to) }
        }
        Command::Commit => Operation::Commit { queue: Queue::Copies },
        Command::Await(newest) => Operation::Await { queue: Queue::Copies, newest },
        Command::CopiesArrive { object, inc } => {
            Operation::CopiesArrive { object: object_address(object), inc }
        }
        Command::Bulk { object, to } => {
            Operation::Bulk { object: object_address(object), bytes: to.bytes, addresses: at(to) }
        }
        Command::ClusterArrive => Operation::Cluster { wait: false, relaxed: false },
        Command::ClusterWait => Operation::Cluster { wait: true, relaxed: false },
        Command::Signal(event) => Operation::Signal { event, relaxed: false },
        Command::Observe(event) => Operation::Observe { event, relaxed: false },
    }
}
