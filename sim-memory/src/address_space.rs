//! The address map. Global memory is identity-mapped: its physical, virtual and generic addresses are equal.
//! Shared, local and constant memory and kernel parameters have windows in the generic address space, low
//! enough for 32-bit addresses. Local and constant memory lie in DRAM above the virtual addresses, so that
//! the spaces are disjoint (CS §4.3) [env-spaces]. Stores to constant memory are refused where the access is
//! executed (`read_only` in `sim-core/src/execute/on_chip.rs`).

use std::ops::Range;

use crate::line::LINE_BYTES;
use crate::vocabulary::StateSpace;

/// First generic address of the shared memory window.
pub const SHARED_WINDOW: u64 = 0x0100_0000;
/// First generic address of the local memory window.
pub const LOCAL_WINDOW: u64 = 0x0200_0000;
/// First generic address of the constant memory window.
pub const CONST_WINDOW: u64 = 0x0300_0000;
/// First generic address of the kernel parameter window.
pub const PARAM_WINDOW: u64 = 0x0400_0000;
/// Bytes of each window.
pub const WINDOW_BYTES: u64 = 0x0100_0000;
/// Bits of an offset in the shared memory of a block. Within the window of shared memory the block's own memory comes
/// first, then, from `(rank + 1) << CLUSTER_SHIFT` on, that of the block of each rank of its cluster.
pub const CLUSTER_SHIFT: u32 = 19;
/// Address range of all windows, which are contiguous.
pub const WINDOWS: Range<u64> = SHARED_WINDOW..PARAM_WINDOW + WINDOW_BYTES;
/// First global address.
pub const GLOBAL_BASE: u64 = 0x1000_0000;
/// First physical address of local memory.
pub const LOCAL_PHYSICAL: u64 = 1 << 40;
/// First physical address of constant memory; a constant address is an offset from it.
pub const CONST_BASE: u64 = 1 << 41;

/// Alignment of allocations in bytes, as `cudaMalloc` promises.
const ALIGNMENT: u64 = 256;

/// The most bytes of local memory a thread can have (CUDA C++ Programming Guide, technical specifications:
/// 512 KB from compute capability 2.x on).
pub const LOCAL_BYTES: u64 = 512 << 10;

/// Lines of a warp's local memory that lie together: 256 bytes of each thread.
const LOCAL_LINES: u64 = 64;

/// Most warp slots of a device.
const WARP_SLOTS: u64 = 1 << 16;

/// Physical address of byte `offset` of a lane's local memory: interleaved by lane in words, so that one word offset of
/// a warp is one line. Pieces of [`LOCAL_LINES`] lines of one warp after the other lie next to each other, as where the
/// driver reserves what a kernel needs: threads with little local memory share rows of DRAM.
pub fn local_physical(sm: u32, warp_slot: u32, lane: u32, offset: u64) -> u64 {
    let warp = u64::from(sm) * 64 + u64::from(warp_slot);
    let line = offset / 4;
    let (piece, within) = (line / LOCAL_LINES, line % LOCAL_LINES);
    let line = (piece * WARP_SLOTS + warp % WARP_SLOTS) * LOCAL_LINES + within;
    LOCAL_PHYSICAL + line * u64::from(LINE_BYTES) + u64::from(lane) * 4 + offset % 4
}

/// The shared address by which all blocks of a cluster name byte `offset` of the block of a rank.
pub fn in_cluster(rank: u32, offset: u32) -> u32 {
    // Ranks beyond the window are no blocks of any cluster; they stay within it, so that the access names them.
    let most = (WINDOW_BYTES >> CLUSTER_SHIFT) as u32 - 1;
    rank.saturating_add(1).min(most) << CLUSTER_SHIFT | offset & ((1 << CLUSTER_SHIFT) - 1)
}

/// The rank that a shared address names, `None` for the block's own memory, and the offset there.
pub fn of_cluster(address: u64) -> (Option<u64>, u64) {
    ((address >> CLUSTER_SHIFT).checked_sub(1), address & ((1 << CLUSTER_SHIFT) - 1))
}

/// The base of a space's window in the generic address space; `None` for global memory, which has no window.
pub fn window(space: StateSpace) -> Option<u64> {
    match space {
        StateSpace::Shared => Some(SHARED_WINDOW),
        StateSpace::Local => Some(LOCAL_WINDOW),
        StateSpace::Const => Some(CONST_WINDOW),
        StateSpace::Param => Some(PARAM_WINDOW),
        StateSpace::Global | StateSpace::Generic => None,
    }
}

/// Resolves a generic address to its state space and the address within that space.
pub fn resolve(address: u64) -> (StateSpace, u64) {
    let spaces = [StateSpace::Shared, StateSpace::Local, StateSpace::Const, StateSpace::Param];
    let inside = |space: StateSpace| {
        let offset = address.wrapping_sub(window(space)?);
        (offset < WINDOW_BYTES).then_some((space, offset))
    };
    spaces.into_iter().find_map(inside).unwrap_or((StateSpace::Global, address))
}

/// A buffer or variable in device memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The buffer's or variable's name, for diagnostics.
    pub name: String,
    /// Its address range.
    pub range: Range<u64>,
}

/// The allocations of device memory: global and constant.
#[derive(Clone, Debug)]
pub struct Allocations {
    list: Vec<Allocation>,
    next_global: u64,
    next_const: u64,
    global_bytes: u64,
    const_bytes: u64,
    /// Freed ranges of global memory in the order of their addresses; no two touch.
    holes: Vec<Range<u64>>,
}

impl Allocations {
    /// No allocations yet, with a capacity of `global_bytes` of global and `const_bytes` of constant memory.
    pub fn new(global_bytes: u64, const_bytes: u64) -> Self {
        Self {
            list: Vec::new(),
            next_global: GLOBAL_BASE,
            next_const: CONST_BASE,
            global_bytes,
            const_bytes,
            holes: Vec::new(),
        }
    }

    /// Allocates global memory; `None` where it does not fit.
    pub fn global(&mut self, name: &str, bytes: u64) -> Option<u64> {
        self.global_aligned(name, bytes, ALIGNMENT)
    }

    /// The same at a multiple of `align`, a power of two, in whole multiples of it: the first freed range that
    /// is large enough, or what was never used.
    pub fn global_aligned(&mut self, name: &str, bytes: u64, align: u64) -> Option<u64> {
        let align = align.max(ALIGNMENT);
        let end = GLOBAL_BASE.checked_add(self.global_bytes)?;
        let size = bytes.max(1).checked_next_multiple_of(align)?;
        let fits = |hole: &Range<u64>| {
            let at = hole.start.next_multiple_of(align);
            (hole.end.checked_sub(at)? >= size).then_some(at)
        };
        let at = match self.holes.iter().enumerate().find_map(|(i, hole)| Some((i, fits(hole)?))) {
            Some((i, at)) => {
                let hole = self.holes[i].clone();
                let rest = [hole.start..at, at + size..hole.end];
                self.holes.splice(i..=i, rest.into_iter().filter(|rest| !rest.is_empty()));
                at
            }
            None => {
                let at = self.next_global.checked_next_multiple_of(align)?;
                if at.checked_add(bytes.max(1))? > end {
                    return None;
                }
                if at > self.next_global {
                    self.give_back(self.next_global..at);
                }
                self.next_global = at.checked_add(size)?;
                at
            }
        };
        self.insert(name, at..at + bytes);
        Some(at)
    }

    /// An address is beyond those that memory gets by itself: only [`global_at`](Self::global_at) allocates there.
    fn is_far(&self, at: u64) -> bool {
        at >= GLOBAL_BASE.saturating_add(self.global_bytes)
    }

    /// Allocates global memory at an address, a multiple of the alignment, where that is free; `None` where it is not.
    /// It may lie at any address of global memory, also beyond as many bytes as there are: who allocates counts them.
    pub fn global_at(&mut self, name: &str, at: u64, bytes: u64) -> Option<u64> {
        let end = at.checked_add(bytes.max(1).checked_next_multiple_of(ALIGNMENT)?)?;
        let far = self.is_far(at);
        let most = if far { LOCAL_PHYSICAL } else { GLOBAL_BASE.checked_add(self.global_bytes)? };
        if !at.is_multiple_of(ALIGNMENT) || at < GLOBAL_BASE || at.checked_add(bytes.max(1))? > most {
            return None;
        }
        if far {
            let meets = |other: &Allocation| at < other.range.end && other.range.start < end;
            if self.list.iter().any(meets) {
                return None;
            }
            self.insert(name, at..at + bytes);
            return Some(at);
        }
        if at >= self.next_global {
            if at > self.next_global {
                self.give_back(self.next_global..at);
            }
            self.next_global = end;
        } else {
            let i = self.holes.iter().position(|hole| hole.start <= at && end <= hole.end)?;
            let hole = self.holes[i].clone();
            let rest = [hole.start..at, end..hole.end];
            self.holes.splice(i..=i, rest.into_iter().filter(|rest| !rest.is_empty()));
        }
        self.insert(name, at..at + bytes);
        Some(at)
    }

    /// The same of constant memory at an offset.
    pub fn constant_at(&mut self, name: &str, offset: u64, bytes: u64) -> Option<u64> {
        let at = CONST_BASE.checked_add(offset)?;
        let end = at.checked_add(bytes)?;
        let meets = |other: &Allocation| at < other.range.end && other.range.start < end;
        if end > CONST_BASE + self.const_bytes || self.list.iter().any(meets) {
            return None;
        }
        self.next_const = self.next_const.max(end);
        self.insert(name, at..end);
        Some(offset)
    }

    /// Frees the allocation of global memory that begins at an address, in multiples of its alignment; gives its
    /// size, `None` where none begins there.
    pub fn free(&mut self, address: u64, align: u64) -> Option<u64> {
        let first = self.list.partition_point(|a| a.range.start < address);
        let found = self.list.get(first).filter(|a| a.range.start == address && address < LOCAL_PHYSICAL)?;
        let bytes = found.range.end - address;
        self.list.remove(first);
        if self.is_far(address) {
            return Some(bytes);
        }
        self.give_back(address..address + bytes.max(1).next_multiple_of(align.max(ALIGNMENT)));
        Some(bytes)
    }

    /// A range can be allocated again.
    fn give_back(&mut self, range: Range<u64>) {
        let at = self.holes.partition_point(|hole| hole.start < range.start);
        self.holes.insert(at, range);
        for i in [at + 1, at] {
            if i > 0 && i < self.holes.len() && self.holes[i - 1].end == self.holes[i].start {
                self.holes[i - 1].end = self.holes[i].end;
                self.holes.remove(i);
            }
        }
    }

    /// Allocates constant memory and returns its offset, which is the constant address.
    pub fn constant(&mut self, name: &str, bytes: u64, align: u64) -> Option<u64> {
        let at = self.next_const.checked_next_multiple_of(align.max(1))?;
        if at.checked_add(bytes)? > CONST_BASE + self.const_bytes {
            return None;
        }
        self.next_const = at + bytes;
        self.insert(name, at..at + bytes);
        Some(at - CONST_BASE)
    }

    fn insert(&mut self, name: &str, range: Range<u64>) {
        let at = self.list.partition_point(|a| a.range.start < range.start);
        self.list.insert(at, Allocation { name: name.to_string(), range });
    }

    /// The allocation that contains all of the `bytes` bytes from `address` on.
    #[inline]
    pub fn find(&self, address: u64, bytes: u64) -> Option<&Allocation> {
        let after = self.list.partition_point(|a| a.range.start <= address);
        let found = self.list.get(after.checked_sub(1)?)?;
        (address.checked_add(bytes)? <= found.range.end).then_some(found)
    }

    /// The allocation nearest to an address.
    pub fn nearest(&self, address: u64) -> Option<&Allocation> {
        self.list.iter().min_by_key(|a| {
            if address < a.range.start { a.range.start - address } else { address - a.range.end.min(address) }
        })
    }

    /// All allocations in the order of their addresses.
    pub fn iter(&self) -> impl Iterator<Item = &Allocation> {
        self.list.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_memory_of_warps_lies_together_and_apart() {
        let line =
            |sm: u32, warp: u32, offset: u64| local_physical(sm, warp, 0, offset) / u64::from(LINE_BYTES);
        // 256 bytes of each thread of a warp, then those of the next warp slot and of the next SM.
        let first = line(0, 0, 0);
        assert_eq!(
            (line(0, 0, 252), line(0, 1, 0), line(1, 0, 0)),
            (first + 63, first + 64, first + 64 * 64)
        );
        // No two places are one, to the last byte.
        let mut seen = std::collections::BTreeSet::new();
        let offsets = [0, 1, 4, 252, 256, 260, 512, LOCAL_BYTES - 256, LOCAL_BYTES - 1];
        for (sm, warp, lane) in [(0, 0, 0), (0, 0, 31), (0, 1, 0), (0, 63, 31), (1, 0, 0), (1023, 63, 31)] {
            for offset in offsets {
                let at = local_physical(sm, warp, lane, offset);
                assert!(
                    (LOCAL_PHYSICAL..CONST_BASE).contains(&at) && seen.insert(at),
                    "{sm} {warp} {lane} {offset}"
                );
            }
        }
    }

    #[test]
    fn env_spaces_are_disjoint_and_bounded() {
        let mut a = Allocations::new(4096, 64);
        let x = a.global("x", 1000).expect("fits");
        let y = a.global("y", 24).expect("fits");
        assert_eq!((x, y), (GLOBAL_BASE, GLOBAL_BASE + 1024));
        assert_eq!(a.global("z", 4096), None);
        assert_eq!(a.constant("k", 10, 4), Some(0));
        assert_eq!(a.constant("l", 8, 8), Some(16));
        assert_eq!(a.constant("m", 64, 4), None);
        assert_eq!(a.find(x + 996, 4).map(|f| f.name.as_str()), Some("x"));
        assert_eq!(a.find(x + 998, 4), None);
        assert_eq!(a.find(x - 1, 1), None);
        assert_eq!(a.nearest(x + 1010).map(|f| f.name.as_str()), Some("x"));
        assert_eq!(a.find(CONST_BASE + 16, 8).map(|f| f.name.as_str()), Some("l"));
    }

    #[test]
    fn freed_ranges_are_joined_and_used_again() {
        let mut a = Allocations::new(1 << 20, 0);
        let [x, y, z] = ["x", "y", "z"].map(|name| a.global(name, 300).expect("fits"));
        assert_eq!([y - x, z - y], [512, 512]);
        assert_eq!((a.free(y + 1, 256), a.free(y, 256), a.free(y, 256)), (None, Some(300), None));
        assert_eq!(a.find(y, 1), None);
        assert_eq!(a.global("w", 512), Some(y));
        assert_eq!((a.free(x, 256), a.free(y, 256)), (Some(300), Some(512)));
        // Both together hold what neither holds alone.
        assert_eq!(a.global("v", 1024), Some(x));
        assert_eq!(a.find(z, 300).map(|f| f.name.as_str()), Some("z"));
        let page = a.global_aligned("page", 5000, 4096).expect("fits");
        assert_eq!((page % 4096, a.global("behind", 1)), (0, Some(z + 512)));
        assert_eq!(a.free(page, 4096), Some(5000));
        assert_eq!(a.global_aligned("again", 8192, 4096), Some(page));
    }

    #[test]
    fn what_has_its_address_gets_it_where_that_is_free() {
        let mut a = Allocations::new(1 << 20, 64);
        let far = GLOBAL_BASE + 4096;
        assert_eq!(a.global_at("far", far, 300), Some(far));
        assert_eq!((a.global_at("again", far, 1), a.global_at("askew", far + 1, 1)), (None, None));
        assert_eq!(a.global_at("across", GLOBAL_BASE + (1 << 20) - 256, 512), None);
        assert_eq!(a.global_at("between", GLOBAL_BASE + 512, 256), Some(GLOBAL_BASE + 512));
        assert_eq!(a.global_at("over", GLOBAL_BASE + 256, 512), None);
        // The others get what is left.
        assert_eq!(a.global("first", 512), Some(GLOBAL_BASE));
        assert_eq!(a.global("second", 512), Some(GLOBAL_BASE + 768));
        assert_eq!(a.global("third", 4096), Some(far + 512));
        assert_eq!((a.constant_at("c", 32, 8), a.constant_at("d", 36, 8)), (Some(32), None));
        assert_eq!((a.constant_at("e", 60, 8), a.constant("f", 8, 8)), (None, Some(40)));
    }

    #[test]
    fn addresses_beyond_the_memory_are_allocated_by_address_only() {
        let mut a = Allocations::new(4096, 0);
        let far = GLOBAL_BASE + (1 << 30);
        assert_eq!((a.global_at("far", far, 8192), a.global_at("over", far + 4096, 8192)), (Some(far), None));
        assert_eq!(a.global_at("first", GLOBAL_BASE + 4096, 256), Some(GLOBAL_BASE + 4096));
        let last = LOCAL_PHYSICAL - 256;
        assert_eq!(
            (a.global_at("last", last, 256), a.global_at("local", last + 256, 256)),
            (Some(last), None)
        );
        assert_eq!(a.global_at("into local", last - 256, 1024), None);
        assert_eq!((a.global("all", 4096), a.global("more", 1)), (Some(GLOBAL_BASE), None));
        // What was freed there is not given to others.
        assert_eq!(a.free(far, 1), Some(8192));
        assert!(a.find(far, 1).is_none());
        assert_eq!(a.global("more", 1), None);
        assert_eq!(a.global_at("again", far + 256, 256), Some(far + 256));
    }

    #[test]
    fn generic_addresses_resolve_to_the_space_whose_window_they_lie_in() {
        for space in [StateSpace::Shared, StateSpace::Local, StateSpace::Const, StateSpace::Param] {
            let base = window(space).expect("it has one");
            assert!(WINDOWS.contains(&base) && WINDOWS.contains(&(base + WINDOW_BYTES - 1)));
            assert_eq!(resolve(base), (space, 0));
            assert_eq!(resolve(base + WINDOW_BYTES - 1), (space, WINDOW_BYTES - 1));
        }
        const { assert!(WINDOWS.end <= GLOBAL_BASE) };
        for address in [0, SHARED_WINDOW - 1, WINDOWS.end, GLOBAL_BASE, CONST_BASE] {
            assert_eq!(resolve(address), (StateSpace::Global, address));
        }
    }

    #[test]
    fn local_words_of_a_warp_share_a_line() {
        let line = |lane| local_physical(3, 5, lane, 8) / 128;
        assert!((0..32).all(|lane| line(lane) == line(0)));
        assert_ne!(local_physical(3, 5, 0, 12) / 128, line(0));
        assert_eq!(local_physical(0, 0, 1, 6), LOCAL_PHYSICAL + 128 + 4 + 2);
        assert!(local_physical(1023, 63, 31, LOCAL_BYTES - 1) < CONST_BASE);
    }
}
