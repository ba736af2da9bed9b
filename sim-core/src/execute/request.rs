//! What a step asks of global and local memory.

use sim_memory::vocabulary::{LaneMask, StateSpace, WARP_LANES};

use crate::lookups::NO_LOOKUP;

/// What a split asks of global or local memory.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Request {
    /// Home warp of the lanes.
    pub warp: usize,
    /// Index of the operation in its program.
    pub pc: u32,
    /// Global or local.
    pub space: StateSpace,
    /// Lanes that access.
    pub lanes: LaneMask,
    /// Physical address of each lane.
    pub addresses: [u64; WARP_LANES],
    /// Store data of each lane.
    pub data: [[u8; 16]; WARP_LANES],
    /// Operands b and c of atomics; of copies the shared address and the bytes that are read.
    pub operands: [[u64; 2]; WARP_LANES],
    /// Bytes each lane accesses.
    pub bytes: u32,
    /// Local memory is interleaved by words, so larger elements are accessed word by word: this
    /// is word `part` of `parts`.
    pub part: u8,
    /// How many parts the access has.
    pub parts: u8,
    /// The lookup that it reads texels of.
    pub lookup: u32,
}

/// Requests of one step: one to global memory and four words of local memory.
const USUAL: usize = 5;

/// The requests of one step: a generic access may touch both spaces.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Requests {
    list: Vec<Request>,
    used: usize,
}

impl Default for Requests {
    fn default() -> Self {
        Self { list: vec![Request::empty(); USUAL], used: 0 }
    }
}

impl Request {
    fn empty() -> Self {
        Self {
            warp: 0,
            pc: 0,
            space: StateSpace::Global,
            lanes: 0,
            addresses: [0; WARP_LANES],
            data: [[0; 16]; WARP_LANES],
            operands: [[0; 2]; WARP_LANES],
            bytes: 0,
            part: 0,
            parts: 1,
            lookup: NO_LOOKUP,
        }
    }
}

impl Requests {
    /// The requests, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Request> {
        self.list[..self.used].iter()
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.used
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Removes all requests.
    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    /// A new one, with what an older one left in it.
    #[inline(always)]
    pub(super) fn next(&mut self) -> &mut Request {
        if self.used == self.list.len() {
            self.list.push(Request::empty());
        }
        self.used += 1;
        &mut self.list[self.used - 1]
    }

    /// The last one, which there is.
    pub(super) fn last_mut(&mut self) -> &mut Request {
        &mut self.list[self.used.saturating_sub(1)]
    }

    /// All are parts of one lookup.
    pub(super) fn number_parts(&mut self, parts: u8, lookup: u32) {
        for (part, request) in (0..parts).zip(&mut self.list[..self.used]) {
            (request.part, request.parts, request.lookup) = (part, parts, lookup);
        }
    }

    /// Request number `i`.
    pub fn get(&self, i: usize) -> &Request {
        &self.list[i]
    }
}
