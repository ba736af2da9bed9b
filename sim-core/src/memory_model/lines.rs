//! The stores of a line in coherence order, those in flight, and who has read them.

use std::collections::VecDeque;
use std::sync::Arc;

use sim_memory::access::AccessKind;
use sim_memory::line::{ByteMask, LINE_BYTES};
use sim_memory::observation::{LineStores, NO_STORES, Stores, Transaction};
use sim_memory::vocabulary::{Cycle, LaneMask, Scope, Semantics, WARP_LANES};

use super::clock::Thread;
use super::threads::{Release, Snapshot, inclusive};

/// Stores of a line that are known at most; of what older ones wrote nothing is checked.
const MOST_STORES: usize = 48;
/// Threads known to have read a store by strong loads, at most.
const MOST_READERS: usize = 32;

/// Set in the addresses of lines of shared memory, beside the number of their block and, in the lowest 24 bits, the
/// address.
pub const SHARED: u64 = 1 << 63;
/// Set beside it where other blocks of a cluster access the memory too.
pub const OF_CLUSTER: u64 = 1 << 62;

/// True if a line is of shared memory that is one block's alone.
pub fn is_of_one_block(line: u64) -> bool {
    line & (SHARED | OF_CLUSTER) == SHARED
}

/// A transaction of a warp.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Its number.
    pub number: Transaction,
    /// SM and address of the instruction.
    pub sm: u32,
    /// Address of the instruction.
    pub pc: u32,
    /// Warp slot of the SM.
    pub slot: u32,
    /// The grid of its warp.
    pub grid: u32,
    /// The cycle of its issue.
    pub issued: Cycle,
    /// Load, store or atomic.
    pub kind: AccessKind,
    /// Its memory ordering semantics.
    pub semantics: Semantics,
    /// Its memory ordering scope.
    pub scope: Scope,
    /// First address of its line.
    pub line: u64,
    /// Bytes of the line that it loads or stores.
    pub bytes: ByteMask,
    /// Lanes that take part.
    pub lanes: LaneMask,
    /// Position in the line of each lane's bytes.
    pub offsets: [u8; WARP_LANES],
    /// Bytes of each lane.
    pub size: u8,
    /// No two lanes have a byte in common.
    pub exclusive: bool,
    /// The thread that copies, where lane 0 stands for the agent of a bulk copy.
    pub copies: Option<Thread>,
    /// Its threads, and what they knew.
    pub warp: Arc<Snapshot>,
}

impl Transfer {
    /// Becomes another one, in place.
    pub fn set(&mut self, new: &Self) {
        // Each field is named, so that none is forgotten.
        let Self {
            number,
            sm,
            pc,
            slot,
            grid,
            issued,
            kind,
            semantics,
            scope,
            line,
            bytes,
            lanes,
            offsets,
            size,
            exclusive,
            copies,
            warp,
        } = new;
        (self.number, self.sm, self.pc, self.slot) = (*number, *sm, *pc, *slot);
        (self.grid, self.issued, self.line, self.bytes) = (*grid, *issued, *line, *bytes);
        (self.kind, self.semantics, self.scope) = (*kind, *semantics, *scope);
        (self.lanes, self.offsets, self.size) = (*lanes, *offsets, *size);
        (self.exclusive, self.copies) = (*exclusive, *copies);
        if !Arc::ptr_eq(&self.warp, warp) {
            self.warp = Arc::clone(warp);
        }
    }

    /// The bytes of a lane.
    pub fn bytes_of(&self, lane: usize) -> std::ops::Range<usize> {
        let at = usize::from(self.offsets[lane]);
        at..(at + usize::from(self.size)).min(LINE_BYTES as usize)
    }

    /// The same as a mask.
    pub fn mask_of(&self, lane: usize) -> ByteMask {
        let bytes = u32::from(self.size).min(LINE_BYTES);
        let low = if bytes == LINE_BYTES { ByteMask::MAX } else { (1 << bytes) - 1 };
        low << self.offsets[lane]
    }

    /// The address of a byte in its state space.
    pub fn address(&self, byte: usize) -> u64 {
        let line = if self.line & SHARED != 0 { self.line & 0xff_ffff } else { self.line };
        line + byte as u64
    }

    /// The lane that wrote a byte: where several did, the highest.
    pub fn writer(&self, byte: usize) -> usize {
        let mut rest = self.lanes;
        while rest != 0 {
            let lane = rest.ilog2() as usize;
            if self.bytes_of(lane).contains(&byte) {
                return lane;
            }
            rest &= !(1 << lane);
        }
        0
    }

    /// True for anything but a weak access (MM §3.3).
    pub fn strong(&self) -> bool {
        self.semantics != Semantics::Weak || matches!(self.kind, AccessKind::Atomic { .. })
    }

    /// True if a lane of this transaction and one of `other` are morally strong (MM §3.3), or of one thread.
    pub fn morally_strong(&self, lane: usize, other: &Self, other_lane: usize) -> bool {
        let (a, b) = (self.warp.in_cluster(lane), other.warp.in_cluster(other_lane));
        a.0 == b.0 || (self.strong() && other.strong() && inclusive((self.scope, a), (other.scope, b)))
    }

    /// True if a lane's access precedes that of a lane of `later` in program order or causality order.
    pub fn precedes(&self, lane: usize, later: &Self, later_lane: usize) -> bool {
        let (a, b) = (self.warp.point(lane), later.warp.thread(later_lane));
        if a.thread == b {
            return self.number < later.number;
        }
        later.warp.knows(later_lane, a)
    }
}

/// What a lane observed: releases, and the lane of them that wrote what it read.
pub type Read = (usize, Arc<Vec<(u8, Release)>>, u8);
/// For each lane of an access, what it observed.
pub type Reads = Vec<Read>;

/// A store, or the write of an atomic.
#[derive(Clone, Debug)]
pub struct Store {
    /// The transaction.
    pub transfer: Arc<Transfer>,
    /// Release patterns that end with it, by lane.
    pub releases: Arc<Vec<(u8, Release)>>,
    /// The bytes of it that are performed.
    pub bytes: ByteMask,
    /// Threads that have read it by strong loads.
    pub readers: Vec<(Thread, u8)>,
}

/// A line that was stored to.
#[derive(Clone, Debug)]
pub struct Line {
    /// For each byte, the last store in coherence order.
    pub current: LineStores,
    /// Stores in coherence order.
    pub stores: VecDeque<Store>,
    /// Stores that are not performed yet.
    pub pending: Vec<Store>,
    /// Older stores were dropped.
    pub forgot: bool,
}

impl Default for Line {
    fn default() -> Self {
        Self { current: NO_STORES, stores: VecDeque::new(), pending: Vec::new(), forgot: false }
    }
}

impl Line {
    /// True if these bytes were last written by these stores, and none is in flight.
    pub fn agrees(&self, bytes: ByteMask, stores: &Stores) -> bool {
        let mut differ = 0;
        match stores {
            Stores::One(store) => {
                for (i, current) in self.current.iter().enumerate() {
                    differ |= if bytes >> i & 1 == 1 { current ^ store } else { 0 };
                }
            }
            Stores::Each(stores) => {
                for (i, (current, store)) in self.current.iter().zip(stores.iter()).enumerate() {
                    differ |= if bytes >> i & 1 == 1 { current ^ store } else { 0 };
                }
            }
        }
        differ == 0 && self.pending.is_empty()
    }

    /// The store of a number, with its place in coherence order.
    pub fn store(&self, number: Transaction) -> Option<(usize, &Store)> {
        self.stores.iter().enumerate().rev().find(|(_, store)| store.transfer.number == number)
    }

    /// A thread has read a byte of a store by a strong load.
    pub fn read_by(&mut self, place: usize, thread: Thread, byte: usize) {
        let readers = &mut self.stores[place].readers;
        if readers.len() < MOST_READERS && !readers.contains(&(thread, byte as u8)) {
            readers.push((thread, byte as u8));
        }
    }

    /// Appends a store in coherence order.
    pub fn perform(&mut self, store: Store) {
        if self.stores.len() >= MOST_STORES {
            self.stores.pop_front();
            self.forgot = true;
        }
        sim_memory::observation::fill(&mut self.current, store.bytes, store.transfer.number);
        self.stores.push_back(store);
    }
}
