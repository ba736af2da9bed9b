//! Observation of memory: for each byte that is loaded, which store it reads, and in which order stores are performed.
//! A checker of a memory model builds executions from it.
//!
//! Every transaction of global memory has a number. The number of a store stays with each byte that it wrote, in the
//! caches, in messages and in memory, as the byte itself does; the components log what they perform.

use rustc_hash::FxHashMap;

use crate::access::AccessKind;
use crate::line::{ByteMask, LINE_BYTES, offset_in_line};
use crate::vocabulary::{Cycle, LaneMask, Scope, Semantics, StateSpace, WARP_LANES};

/// The number of a transaction.
pub type Transaction = u32;
/// The store of a byte that no store of this run wrote.
pub const INITIAL: Transaction = 0;
/// The store of a byte is not known any more.
pub const FORGOTTEN: Transaction = Transaction::MAX;
/// For each byte of a line: the transaction that stored it.
pub type LineStores = [Transaction; LINE_BYTES as usize];
/// No store of this run.
pub static NO_STORES: LineStores = [INITIAL; LINE_BYTES as usize];

/// The transactions that stored the bytes of a line, in short where they are one.
#[derive(Clone, Debug)]
pub enum Stores {
    /// One for all bytes concerned.
    One(Transaction),
    /// One for each byte of the line.
    Each(Box<LineStores>),
}

impl Stores {
    /// Those of the bytes of `mask`.
    pub fn of(stores: &LineStores, mask: ByteMask) -> Self {
        if mask == 0 {
            return Self::One(INITIAL);
        }
        let first = stores[mask.trailing_zeros() as usize];
        if let Some(run) = run(mask) {
            let differ = stores[run].iter().fold(0, |differ, store| differ | store ^ first);
            return if differ == 0 { Self::One(first) } else { Self::Each(Box::new(*stores)) };
        }
        if mask.count_ones() <= FEW {
            let same = bytes(mask).all(|i| stores[i] == first);
            return if same { Self::One(first) } else { Self::Each(Box::new(*stores)) };
        }
        let mut differ = 0;
        for (i, store) in stores.iter().enumerate() {
            differ |= if mask >> i & 1 == 1 { store ^ first } else { 0 };
        }
        if differ == 0 { Self::One(first) } else { Self::Each(Box::new(*stores)) }
    }

    /// That of one byte.
    pub fn at(&self, byte: usize) -> Transaction {
        match self {
            Self::One(store) => *store,
            Self::Each(stores) => stores[byte],
        }
    }
}

/// A thread's part in a barrier: its warp slot, with lanes.
pub type Members = Vec<(u32, LaneMask)>;

/// An event of an SM or a partition.
#[derive(Clone, Debug)]
pub enum Event {
    /// A block starts in the warp slots of the SM.
    Block {
        /// Its grid.
        grid: u32,
        /// Its number in the grid.
        number: u64,
        /// Warp slots of its warps, in order, with their threads.
        warps: Members,
    },
    /// A transaction is issued.
    Issued {
        /// Its number.
        transaction: Transaction,
        /// Warp slot and address of the instruction.
        origin: (u32, u32),
        /// Load, store or atomic.
        kind: AccessKind,
        /// Its memory ordering semantics.
        semantics: Semantics,
        /// Its memory ordering scope.
        scope: Scope,
        /// Its line.
        line: u64,
        /// The bytes it loads or stores.
        bytes: ByteMask,
        /// Its lanes.
        lanes: LaneMask,
        /// Position in the line of each lane's bytes.
        offsets: [u8; WARP_LANES],
        /// Bytes of each lane.
        size: u8,
    },
    /// The bytes of a load have arrived.
    Loaded {
        /// The transaction.
        transaction: Transaction,
        /// The stores it reads.
        stores: Stores,
    },
    /// The result of an atomic has reached its threads.
    Returned {
        /// The transaction.
        transaction: Transaction,
    },
    /// Stores or an atomic are performed at L2 or memory, where all SMs see them.
    Performed {
        /// The line.
        line: u64,
        /// The bytes written.
        bytes: ByteMask,
        /// The transactions that wrote them.
        stores: Stores,
        /// For an atomic: the store that each lane reads.
        reads: Option<Box<[Transaction; WARP_LANES]>>,
    },
    /// A fence of these threads is complete.
    Fence {
        /// Warp slot.
        warp: u32,
        /// Its lanes.
        lanes: LaneMask,
        /// Its scope.
        scope: Scope,
        /// Its semantics: acquire, release, both, or sequentially consistent.
        semantics: Semantics,
    },
    /// Threads that do not wait arrive at a barrier of their block (`bar.arrive`).
    Arrived {
        /// Warp slot.
        warp: u32,
        /// Its lanes.
        lanes: LaneMask,
        /// The barrier.
        barrier: u32,
    },
    /// A barrier of a block is complete.
    Barrier {
        /// The barrier.
        barrier: u32,
        /// Threads that waited for it.
        waited: Members,
        /// Threads that arrived without waiting.
        arrived: Members,
    },
    /// An instruction that synchronizes begins: what reports name as the last synchronization of its threads.
    Synchronizes {
        /// Warp slot and address of the instruction.
        origin: (u32, u32),
        /// Its lanes.
        lanes: LaneMask,
    },
    /// Threads have met at `bar.warp.sync`.
    WarpSync {
        /// Warp slot.
        warp: u32,
        /// Its lanes.
        lanes: LaneMask,
    },
    /// An access to shared or local memory, which never leaves the SM.
    OnChip {
        /// Warp slot and address of the instruction.
        origin: (u32, u32),
        /// Shared or local.
        space: StateSpace,
        /// Load, store or atomic.
        kind: AccessKind,
        /// Its memory ordering semantics.
        semantics: Semantics,
        /// Its memory ordering scope.
        scope: Scope,
        /// Its lanes.
        lanes: LaneMask,
        /// The address of each lane.
        addresses: [u32; WARP_LANES],
        /// Bytes of each lane.
        size: u8,
    },
    /// An asynchronous copy to shared memory of each lane begins (`cp.async`).
    Copy {
        /// Warp slot and address of the instruction.
        origin: (u32, u32),
        /// Its lanes.
        lanes: LaneMask,
        /// The shared address of each lane.
        to: [u32; WARP_LANES],
        /// Bytes of each lane.
        size: u8,
    },
    /// Lanes commit their copies to a group.
    Commit {
        /// Warp slot.
        warp: u32,
        /// Its lanes.
        lanes: LaneMask,
    },
    /// Lanes have waited for their copies, but for those of the newest groups; `None`: for all.
    Awaited {
        /// Warp slot.
        warp: u32,
        /// Its lanes.
        lanes: LaneMask,
        /// The number of groups.
        newest: Option<u8>,
    },
    /// The copies of a lane so far will arrive at an mbarrier object (`cp.async.mbarrier.arrive`).
    CopiesArrive {
        /// Warp slot.
        warp: u32,
        /// The lane.
        lane: u32,
        /// The shared address of the object.
        object: u32,
    },
    /// A bulk copy is issued that begins when its tensor map has arrived.
    BulkHeld {
        /// Warp slot and address of the instruction.
        origin: (u32, u32),
        /// The lane.
        lane: u32,
        /// Its number among what the SM follows.
        ticket: u32,
    },
    /// All that follows of a copy that was held has been told.
    BulkDropped {
        /// Its number.
        ticket: u32,
    },
    /// A bulk copy to shared memory begins.
    Bulk {
        /// Warp slot and address of the instruction.
        origin: (u32, u32),
        /// The lane.
        lane: u32,
        /// The shared address.
        to: u32,
        /// Number of bytes.
        bytes: u32,
        /// The shared address of the object that counts them.
        object: u32,
        /// The number in the grid of the block where they go, if that is not the thread's own.
        block: Option<u64>,
        /// That of the block whose object counts them, if they do not go there.
        counter: Option<u64>,
        /// They are combined with what is there: two such copies do not race.
        reduces: bool,
        /// Its number, where it was held.
        ticket: Option<u32>,
    },
    /// A bulk copy from shared memory begins.
    BulkRead {
        /// Warp slot and address of the instruction.
        origin: (u32, u32),
        /// The lane.
        lane: u32,
        /// The shared address.
        from: u32,
        /// Number of bytes.
        bytes: u32,
        /// Where an mbarrier object counts them: the number of its block in the grid, and its shared address.
        counted: Option<(u64, u32)>,
        /// Where they go in global memory: addresses and numbers of bytes.
        stored: Vec<(u64, u32)>,
        /// Its number, where it was held.
        ticket: Option<u32>,
    },
    /// A warp issues its part of a product of a warpgroup, which reads shared memory: addresses and numbers of bytes.
    ProductRead {
        /// Warp slot and address of the instruction.
        origin: (u32, u32),
        /// What it reads.
        ranges: Vec<(u32, u32)>,
    },
    /// A thread of a warp orders what threads and asynchronous operations do in shared memory.
    ProxyFence {
        /// Warp slot.
        warp: u32,
    },
    /// Lanes commit their bulk copies to global memory to a group.
    BulkCommit {
        /// Warp slot.
        warp: u32,
        /// Its lanes.
        lanes: LaneMask,
    },
    /// Lanes have waited until their bulk copies to global memory have read their sources, but for those of the newest
    /// groups.
    BulkAwaited {
        /// Warp slot.
        warp: u32,
        /// Its lanes.
        lanes: LaneMask,
        /// The number of groups.
        newest: u8,
    },
    /// An access to the shared memory of another block of the cluster is sent there.
    Remote {
        /// Warp slot and address of the instruction.
        origin: (u32, u32),
        /// Its number among those of the SM.
        ticket: u32,
        /// The number of the other block in the grid.
        block: u64,
        /// Load, store or atomic.
        kind: AccessKind,
        /// Its memory ordering semantics.
        semantics: Semantics,
        /// Its memory ordering scope.
        scope: Scope,
        /// Its lanes.
        lanes: LaneMask,
        /// The address of each lane there.
        addresses: [u32; WARP_LANES],
        /// Bytes of each lane.
        size: u8,
    },
    /// Operations on mbarrier objects of another block of the cluster are sent there.
    RemoteCount {
        /// Warp slot and address of the instruction.
        origin: (u32, u32),
        /// Their number among what the SM has sent.
        ticket: u32,
        /// Its lanes.
        lanes: LaneMask,
        /// What they do.
        action: ObjectAction,
    },
    /// What an SM sent is performed at this one.
    RemotePerformed {
        /// The SM that sent it.
        sm: u32,
        /// Its number there.
        ticket: u32,
    },
    /// An operation of another block, or of a copy that it made, on an mbarrier object.
    RemoteObject {
        /// The SM that sent it, and its number there; `None` for a copy, which arrives.
        sent: Option<(u32, u32)>,
        /// The grid.
        grid: u32,
        /// The number of the object's block in the grid.
        block: u64,
        /// The lane.
        lane: u32,
        /// The shared address of the object.
        object: u32,
        /// What is done.
        action: ObjectAction,
        /// A phase of it is complete.
        completes: bool,
    },
    /// The answer to an access of this SM is there.
    RemoteAnswered {
        /// Its number.
        ticket: u32,
    },
    /// An operation on an mbarrier object.
    Object {
        /// Warp slot and address of the instruction; none where a copy arrives.
        origin: (u32, u32),
        /// The lane.
        lane: u32,
        /// The shared address of the object.
        object: u32,
        /// What is done.
        action: ObjectAction,
        /// There was an object at the address before.
        existed: bool,
        /// A phase of it is complete.
        completes: bool,
    },
    /// Lanes arrive at the barrier of their cluster, or have waited for it.
    ClusterBarrier {
        /// Warp slot.
        warp: u32,
        /// The lanes.
        lanes: LaneMask,
        /// What they do.
        action: ClusterAction,
        /// The phase has an odd number.
        odd: bool,
    },
    /// `bar.sync` and its like, which all threads of a warp must execute together, by some of them only.
    Divergent {
        /// Warp slot and address of the instruction.
        origin: (u32, u32),
        /// Its lanes.
        lanes: LaneMask,
        /// Threads of the warp that have not ended.
        live: LaneMask,
    },
    /// Registers are read that these lanes have not written.
    Unwritten {
        /// Warp slot and address of the instruction.
        origin: (u32, u32),
        /// Its lanes.
        lanes: LaneMask,
    },
}

/// What is done at the barrier of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterAction {
    /// An arrival that releases.
    Arrive,
    /// A wait for a phase is over.
    Waited,
}

/// An operation on an mbarrier object, as far as it orders memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum ObjectAction {
    /// The object is made.
    Init,
    /// It ends.
    Inval,
    /// An arrival, which releases.
    Arrive,
    /// A test for the end of a phase; true: it has ended, and the test acquires.
    Wait(bool),
    /// Bytes are expected or counted.
    Count,
}

/// What one component has performed, in order.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Events with their cycles.
    pub events: Vec<(Cycle, Event)>,
}

/// Observation at an SM.
#[derive(Clone, Debug)]
pub struct SmObservation {
    /// What was performed.
    pub log: Log,
    /// For each instance: the stores of the bytes of its line.
    pub stores: Vec<LineStores>,
    /// Warp slot and address of the instruction whose access begins.
    pub origin: (u32, u32),
    /// The number of the next transaction, and the distance to the one after it.
    next: Transaction,
    step: Transaction,
}

impl SmObservation {
    /// Observation at SM `sm` of `sms`; the numbers of transactions are those of this SM only.
    pub fn new(sm: u32, sms: u32) -> Self {
        Self { log: Log::default(), stores: Vec::new(), origin: (0, 0), next: sm + 1, step: sms.max(1) }
    }

    /// The number of a new transaction. After the last one, [`FORGOTTEN`].
    pub fn number(&mut self) -> Transaction {
        let number = self.next;
        self.next = number.checked_add(self.step).unwrap_or(FORGOTTEN);
        number
    }
}

/// Observation at a partition.
#[derive(Clone, Debug, Default)]
pub struct PartitionObservation {
    /// What was performed.
    pub log: Log,
    /// For each instance: the stores of the bytes of its line.
    pub stores: Vec<LineStores>,
    /// For each instance of an atomic: the stores that its lanes read.
    pub reads: Vec<Option<Box<[Transaction; WARP_LANES]>>>,
    memory: FxHashMap<u64, Box<LineStores>>,
    forgot: bool,
}

/// Lines of device memory whose stores a partition knows at most.
const MOST_LINES: usize = 1 << 16;

impl PartitionObservation {
    /// Provides room for instances `0..=slot`.
    pub fn reserve(&mut self, slot: usize) {
        if self.stores.len() <= slot {
            self.stores.resize(slot + 1, NO_STORES);
            self.reads.resize(slot + 1, None);
        }
    }

    /// True if stores of a line are recorded.
    pub fn has(&self, line: u64) -> bool {
        self.memory.contains_key(&line)
    }

    /// Copies the stores of a line of device memory.
    pub fn read_memory(&self, line: u64, mask: ByteMask, out: &mut LineStores) {
        match self.memory.get(&line) {
            Some(stores) => copy(out, stores, mask),
            None => fill(out, mask, if self.forgot { FORGOTTEN } else { INITIAL }),
        }
    }

    /// The stores of bytes of a line of device memory.
    pub fn stores_of(&self, line: u64, mask: ByteMask) -> Stores {
        match self.memory.get(&line) {
            Some(stores) => Stores::of(stores, mask),
            None => Stores::One(if self.forgot && mask != 0 { FORGOTTEN } else { INITIAL }),
        }
    }

    /// Records the stores of bytes that are written to device memory.
    pub fn write_memory(&mut self, line: u64, mask: ByteMask, stores: &LineStores) {
        if mask != 0 {
            copy(self.line(line), stores, mask);
        }
    }

    /// The stores of a line of device memory, to be changed.
    pub fn line(&mut self, line: u64) -> &mut LineStores {
        if self.memory.len() >= MOST_LINES && !self.memory.contains_key(&line) {
            self.memory.clear();
            self.forgot = true;
        }
        let unknown = if self.forgot { FORGOTTEN } else { INITIAL };
        self.memory.entry(line).or_insert_with(|| Box::new([unknown; LINE_BYTES as usize]))
    }
}

/// Bytes that are visited one by one; more of them, with the whole line.
const FEW: u32 = 32;

fn bytes(mut mask: ByteMask) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(first)
    })
}

/// The bytes of `mask` if they lie side by side, as those of one lane do.
fn run(mask: ByteMask) -> Option<std::ops::Range<usize>> {
    let (first, count) = (mask.trailing_zeros(), mask.count_ones());
    (mask != 0 && first + count + mask.leading_zeros() == ByteMask::BITS)
        .then(|| first as usize..(first + count) as usize)
}

/// Copies the stores of the bytes of `mask`.
pub fn copy(to: &mut LineStores, from: &LineStores, mask: ByteMask) {
    if let Some(run) = run(mask) {
        to[run.clone()].copy_from_slice(&from[run]);
        return;
    }
    if mask.count_ones() <= FEW {
        bytes(mask).for_each(|i| to[i] = from[i]);
        return;
    }
    for (i, (to, from)) in to.iter_mut().zip(from).enumerate() {
        *to = if mask >> i & 1 == 1 { *from } else { *to };
    }
}

/// Sets the store of the bytes of `mask`.
pub fn fill(to: &mut LineStores, mask: ByteMask, store: Transaction) {
    if let Some(run) = run(mask) {
        to[run].fill(store);
        return;
    }
    if mask.count_ones() <= FEW {
        bytes(mask).for_each(|i| to[i] = store);
        return;
    }
    for (i, to) in to.iter_mut().enumerate() {
        *to = if mask >> i & 1 == 1 { store } else { *to };
    }
}

/// The positions of lanes' addresses in their lines.
pub fn offsets(addresses: &[u64; WARP_LANES]) -> [u8; WARP_LANES] {
    std::array::from_fn(|lane| offset_in_line(addresses[lane]) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn masks_of_any_shape_are_followed_byte_by_byte(
            (first, last) in (0u32..128, 0u32..128),
            some: u64,
            more: u64,
            kind in 0u32..4,
            base in 0u32..3,
        ) {
            let all = ByteMask::MAX;
            let run = all << first.min(last) & all >> (127 - first.max(last));
            let scattered = ByteMask::from(some & more) | ByteMask::from(some) << 64;
            let mask = [run, scattered, run & scattered, 0][kind as usize];
            let from: LineStores = std::array::from_fn(|i| base + (i as u32 / 32) * (base / 2));
            let (mut copied, mut filled) = (NO_STORES, from);
            copy(&mut copied, &from, mask);
            fill(&mut filled, mask, 9);
            for i in 0..128 {
                let inside = mask >> i & 1 == 1;
                proptest::prop_assert_eq!(copied[i], if inside { from[i] } else { INITIAL });
                proptest::prop_assert_eq!(filled[i], if inside { 9 } else { from[i] });
            }
            let of = Stores::of(&from, mask);
            for i in (0..128).filter(|i| mask >> i & 1 == 1) {
                proptest::prop_assert_eq!(of.at(i), from[i]);
            }
            let one = (0..128).filter(|i| mask >> i & 1 == 1).all(|i| from[i] == from[mask.trailing_zeros() as usize]);
            proptest::prop_assert_eq!(matches!(of, Stores::One(_)), one);
        }
    }
}
