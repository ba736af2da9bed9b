//! Shadow memory: for each line of shared and global memory the accesses that a later one may race with, in the order
//! in which they came, and what tells in a few comparisons which of them matter to a new access.

use rustc_hash::FxHashMap;
use sim_memory::access::AccessKind;
use sim_memory::line::{ByteMask, LINE_BYTES};
use sim_memory::vocabulary::Scope;

use crate::memory_model::clock::{Met, Point};
use crate::memory_model::lines::{OF_CLUSTER, SHARED, Transfer, is_of_one_block};

/// Accesses of a line that are known at most.
pub const MOST_ENTRIES: usize = 48;
/// Lines of a page of the table.
const PAGE_LINES: u64 = 32;

/// True for anything but a load.
pub fn writes(transfer: &Transfer) -> bool {
    !matches!(transfer.kind, AccessKind::Load)
}

/// An access that later ones may race with.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The bytes for which no later access stands.
    pub bytes: ByteMask,
    /// The access.
    pub transfer: Transfer,
}

/// Short numbers by which most accesses of other warps and blocks are told from a warp's own.
#[derive(Clone, Copy, Debug)]
struct Tags {
    warp: u8,
    block: u8,
}

impl Tags {
    fn of(transfer: &Transfer) -> Self {
        let thread = transfer.warp.thread(0);
        let block = thread.block.wrapping_mul(0x9e37_79b1);
        let warp = (block ^ thread.index).wrapping_mul(0x85eb_ca6b);
        Self { warp: (warp >> 24) as u8, block: (block >> 24) as u8 }
    }
}

/// Eight times the same byte.
fn eight(byte: u8) -> u64 {
    u64::from(byte) * 0x0101_0101_0101_0101
}

/// For each byte of a word, a bit that says whether it is zero.
pub fn zeros(x: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // The highest bit of each byte that is zero, then these bits side by side.
    let zero = !((x & LOW).wrapping_add(LOW) | x | LOW);
    (zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// For each of the first `len` bytes, a bit that says whether it is `tag`.
fn equal(tags: &[u8; MOST_ENTRIES], tag: u8, len: usize) -> u64 {
    let (wanted, mut found) = (eight(tag), 0);
    for (i, word) in tags.as_chunks::<8>().0.iter().enumerate().take(len.div_ceil(8)) {
        found |= zeros(u64::from_le_bytes(*word) ^ wanted) << (8 * i);
    }
    found
}

/// For each of the first `len` bytes, a bit that says whether it has a bit of `wanted`. Those behind may have one too.
fn meeting(tags: &[u8; MOST_ENTRIES], wanted: u8, len: usize) -> u64 {
    let (wanted, mut found) = (eight(wanted), 0);
    for (i, word) in tags.as_chunks::<8>().0.iter().enumerate().take(len.div_ceil(8)) {
        found |= (zeros(u64::from_le_bytes(*word) & wanted) ^ 0xff) << (8 * i);
    }
    found
}

/// The words of a line modulo 8 that have some of these bytes.
pub fn words(bytes: ByteMask) -> u8 {
    let half = bytes as u64 | (bytes >> 64) as u64;
    let x = (half | half >> 32) & 0xffff_ffff;
    // A bit for each four, then these bits side by side.
    let x = x | x >> 1;
    let x = (x | x >> 2) & 0x1111_1111;
    let x = (x | x >> 3) & 0x0303_0303;
    let x = (x | x >> 6) & 0x000f_000f;
    (x | x >> 12) as u8
}

/// A bit for each of the first `len`.
fn first(len: usize) -> u64 {
    (1 << len) - 1
}

/// Takes bit `at` out of a mask; those above move down.
fn without(mask: u64, at: usize) -> u64 {
    mask & first(at) | mask >> 1 & !first(at)
}

/// The accesses of a line, the oldest first. Bits of masks are places in this order.
#[derive(Clone, Debug)]
pub struct Line {
    /// Bytes of all accesses, and perhaps of some that are gone.
    bytes: ByteMask,
    /// Accesses that write.
    writes: u64,
    /// Strong accesses of at least device scope and of `size` bytes.
    strong: u64,
    /// Accesses of `grid`.
    current: u64,
    /// The newest grid; `u32::MAX` once an older one has followed a newer one.
    grid: u32,
    /// No access is of an earlier phase of its block.
    oldest: u32,
    /// No access is of a later phase of `block`; `u32::MAX` once one was of another block, or of an agent.
    newest: u32,
    /// The block of the first access.
    block: u32,
    size: u8,
    len: u8,
    warps: [u8; MOST_ENTRIES],
    blocks: [u8; MOST_ENTRIES],
    /// The words of each, modulo 8.
    words: [u8; MOST_ENTRIES],
    /// Places of the accesses.
    places: [u32; MOST_ENTRIES],
}

impl Line {
    const EMPTY: Self = Self {
        bytes: 0,
        writes: 0,
        strong: 0,
        current: 0,
        grid: 0,
        oldest: u32::MAX,
        newest: 0,
        block: 0,
        size: 0,
        len: 0,
        warps: [0; MOST_ENTRIES],
        blocks: [0; MOST_ENTRIES],
        words: [0; MOST_ENTRIES],
        places: [0; MOST_ENTRIES],
    };

    fn clear(&mut self) {
        (self.bytes, self.writes, self.strong, self.current) = (0, 0, 0, 0);
        (self.grid, self.oldest, self.newest, self.size, self.len) = (0, u32::MAX, 0, 0, 0);
    }

    /// Places of its accesses.
    pub fn places(&self) -> &[u32] {
        &self.places[..usize::from(self.len)]
    }

    /// True if it has as many accesses as it may.
    pub fn is_full(&self) -> bool {
        usize::from(self.len) >= MOST_ENTRIES
    }

    /// The accesses that `new`, of these words, may race with, or stand for. All others stay as they are.
    pub fn active(&self, new: &Transfer, words: u8, one_stream: bool) -> u64 {
        if self.bytes & new.bytes == 0 {
            return 0;
        }
        let concerned = self.concerned(new, one_stream);
        match words {
            u8::MAX => concerned,
            _ if concerned == 0 => 0,
            _ => concerned & meeting(&self.words, words, self.len.into()),
        }
    }

    /// The same, whatever their bytes are.
    fn concerned(&self, new: &Transfer, one_stream: bool) -> u64 {
        let all = first(self.len.into());
        let current = if new.grid == self.grid { self.current } else { 0 };
        if new.grid < self.grid || (!one_stream && current != all) {
            return all;
        }
        let comparable = new.strong() && new.scope >= Scope::Gpu && new.size == self.size;
        let strong = if comparable { self.strong & current } else { 0 };
        // What precedes by its launch is replaced by a store, and by a load if it is one.
        let others = match writes(new) {
            true if strong == 0 => return all,
            true => all & !strong,
            false => self.writes & current & !strong | all & !self.writes & !current,
        };
        let own = match new.warp.met() {
            Met::Nobody => self.of_warp(new),
            Met::Block(block, _) if block != new.warp.thread(0).block => return all,
            // In shared memory there is no other block.
            Met::Block(_, phase) if self.oldest < phase && is_of_one_block(new.line) => return all,
            Met::Block(_, phase) if self.oldest < phase => self.of_block(new),
            Met::Block(..) => self.of_warp(new),
            Met::Several => return all,
        };
        others | own
    }

    fn of_warp(&self, new: &Transfer) -> u64 {
        equal(&self.warps, Tags::of(new).warp, self.len.into()) & first(self.len.into())
    }

    fn of_block(&self, new: &Transfer) -> u64 {
        equal(&self.blocks, Tags::of(new).block, self.len.into()) & first(self.len.into())
    }

    /// True if a barrier of the whole block has ordered all its accesses before all that can still follow: shared memory
    /// is the block's alone, but in clusters.
    pub fn is_over(&self, new: &Transfer) -> bool {
        let Point { thread, phase, .. } = new.warp.point(0);
        self.newest < phase
            && self.len != 0
            && is_of_one_block(new.line)
            && thread.block == self.block
            && phase != u32::MAX
    }

    /// True if an access may precede all that can still follow: one of an earlier launch, or, in shared memory, of an
    /// earlier phase of its block.
    pub fn may_be_over(&self, new: &Transfer) -> bool {
        new.grid != self.grid
            || self.current != first(self.len.into())
            || (is_of_one_block(new.line) && self.oldest < new.warp.point(0).phase)
    }

    /// Takes some of its accesses out, but not all; those above move down.
    fn remove(&mut self, which: u64) {
        let from = which.trailing_zeros() as usize;
        let mut stay = first(self.len.into()) & !which & !first(from);
        if which.count_ones() * 8 < stay.count_ones() {
            let mut rest = which;
            while rest != 0 {
                let at = 63 - rest.leading_zeros() as usize;
                rest &= !(1 << at);
                self.remove_one(at);
            }
            return;
        }
        let mut to = from;
        let [mut writes, mut strong, mut current] =
            [self.writes, self.strong, self.current].map(|mask| mask & first(from));
        while stay != 0 {
            let at = stay.trailing_zeros() as usize;
            stay &= stay - 1;
            self.places[to] = self.places[at];
            (self.warps[to], self.blocks[to], self.words[to]) =
                (self.warps[at], self.blocks[at], self.words[at]);
            writes |= (self.writes >> at & 1) << to;
            strong |= (self.strong >> at & 1) << to;
            current |= (self.current >> at & 1) << to;
            to += 1;
        }
        (self.writes, self.strong, self.current, self.len) = (writes, strong, current, to as u8);
    }

    fn remove_one(&mut self, at: usize) {
        let len = usize::from(self.len);
        self.places.copy_within(at + 1..len, at);
        self.warps.copy_within(at + 1..len, at);
        self.blocks.copy_within(at + 1..len, at);
        self.words.copy_within(at + 1..len, at);
        self.writes = without(self.writes, at);
        self.strong = without(self.strong, at);
        self.current = without(self.current, at);
        self.len -= 1;
    }

    fn push(&mut self, new: &Transfer, words: u8, place: u32) {
        let at = usize::from(self.len);
        match new.grid.cmp(&self.grid) {
            _ if at == 0 => self.grid = new.grid,
            std::cmp::Ordering::Less => (self.grid, self.current) = (u32::MAX, 0),
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => (self.grid, self.current) = (new.grid, 0),
        }
        let strong = new.strong() && new.scope >= Scope::Gpu;
        if strong && self.strong == 0 {
            self.size = new.size;
        }
        let bit = 1u64 << at;
        self.writes |= if writes(new) { bit } else { 0 };
        self.strong |= if strong && self.size == new.size { bit } else { 0 };
        self.current |= if self.grid == new.grid { bit } else { 0 };
        let Point { thread, phase, .. } = new.warp.point(0);
        if at == 0 {
            self.block = thread.block;
        }
        self.oldest = self.oldest.min(phase);
        self.newest = if thread.block == self.block { self.newest.max(phase) } else { u32::MAX };
        self.bytes |= new.bytes;
        let tags = Tags::of(new);
        (self.warps[at], self.blocks[at], self.places[at]) = (tags.warp, tags.block, place);
        self.words[at] = words;
        self.len += 1;
    }
}

/// The lines of a page, each by its place; 0: none.
type Page = [u32; PAGE_LINES as usize];

/// Shadow memory.
#[derive(Debug, Default)]
pub struct Shadow {
    /// By block and line.
    shared: Vec<Vec<u32>>,
    /// By number of the page.
    numbers: FxHashMap<u64, u32>,
    pages: Vec<Page>,
    /// The page that was used last, and its place.
    last: Option<(u64, u32)>,
    lines: Vec<Line>,
    free_lines: Vec<u32>,
    entries: Vec<Entry>,
    free_entries: Vec<u32>,
    used: usize,
}

impl Shadow {
    /// Lines that have accesses.
    pub fn used(&self) -> usize {
        self.used
    }

    fn room(&mut self, address: u64) -> &mut u32 {
        let number = (address & !(SHARED | OF_CLUSTER)) / u64::from(LINE_BYTES);
        if address & SHARED != 0 {
            // 24 bits of the address within the block.
            let (block, line) = ((number >> 17) as usize, (number & 0x1_ffff) as usize);
            if self.shared.len() <= block {
                self.shared.resize_with(block + 1, Vec::new);
            }
            let lines = &mut self.shared[block];
            if lines.len() <= line {
                lines.resize(line + 1, 0);
            }
            return &mut lines[line];
        }
        let (page, line) = (number / PAGE_LINES, (number % PAGE_LINES) as usize);
        let place = match self.last {
            Some((last, place)) if last == page => place,
            _ => {
                let pages = &mut self.pages;
                let place = *self.numbers.entry(page).or_insert_with(|| {
                    pages.push([0; PAGE_LINES as usize]);
                    pages.len() as u32 - 1
                });
                self.last = Some((page, place));
                place
            }
        };
        &mut self.pages[place as usize][line]
    }

    /// The place of the line at this address, or 0, if one look tells it.
    fn known(&self, address: u64) -> u32 {
        let number = (address & !(SHARED | OF_CLUSTER)) / u64::from(LINE_BYTES);
        let found = if address & SHARED != 0 {
            let lines = self.shared.get((number >> 17) as usize);
            lines.and_then(|lines| lines.get((number & 0x1_ffff) as usize))
        } else {
            let last = self.last.filter(|(page, _)| *page == number / PAGE_LINES);
            last.map(|(_, place)| &self.pages[place as usize][(number % PAGE_LINES) as usize])
        };
        found.map_or(0, |place| *place)
    }

    /// True if the line at this address has accesses.
    pub fn has(&mut self, address: u64) -> bool {
        *self.room(address) != 0
    }

    /// The place of the line at this address.
    pub fn line(&mut self, address: u64) -> u32 {
        match self.known(address) {
            0 => self.line_of(address),
            place => place,
        }
    }

    fn line_of(&mut self, address: u64) -> u32 {
        let place = *self.room(address);
        if place != 0 {
            return place;
        }
        let new = self.free_lines.pop().unwrap_or_else(|| {
            if self.lines.is_empty() {
                // Place 0 stands for none.
                self.lines.push(Line::EMPTY);
            }
            self.lines.push(Line::EMPTY);
            self.lines.len() as u32 - 1
        });
        self.used += 1;
        *self.room(address) = new;
        new
    }

    /// The line at a place.
    pub fn at(&self, place: u32) -> &Line {
        &self.lines[place as usize]
    }

    /// An access of a line, with its place.
    pub fn entry(&self, line: u32, at: usize) -> &Entry {
        &self.entries[self.lines[line as usize].places[at] as usize]
    }

    /// Later accesses stand for some bytes of an access. True if they do for all.
    pub fn replace(&mut self, line: u32, at: usize, bytes: ByteMask) -> bool {
        let line = &mut self.lines[line as usize];
        let entry = &mut self.entries[line.places[at] as usize];
        entry.bytes &= !bytes;
        line.words[at] = words(entry.bytes);
        entry.bytes == 0
    }

    /// Takes all accesses out of a line.
    pub fn clear(&mut self, place: u32) {
        let line = &mut self.lines[place as usize];
        self.free_entries.extend_from_slice(line.places());
        line.clear();
    }

    /// Says that no access of a line is of an earlier phase.
    pub fn begins(&mut self, place: u32, oldest: u32) {
        self.lines[place as usize].oldest = oldest;
    }

    /// Takes accesses out of a line.
    pub fn remove(&mut self, place: u32, which: u64) {
        let line = &mut self.lines[place as usize];
        if which == first(line.len.into()) {
            return self.clear(place);
        }
        let mut rest = which;
        while rest != 0 {
            let at = 63 - rest.leading_zeros() as usize;
            rest &= !(1 << at);
            self.free_entries.push(line.places[at]);
        }
        line.remove(which);
    }

    /// Appends an access of these words to a line.
    pub fn push(&mut self, line: u32, new: &Transfer, words: u8) {
        let place = match self.free_entries.pop() {
            Some(place) => {
                let entry = &mut self.entries[place as usize];
                entry.bytes = new.bytes;
                entry.transfer.set(new);
                place
            }
            None => {
                self.entries.push(Entry { bytes: new.bytes, transfer: new.clone() });
                self.entries.len() as u32 - 1
            }
        };
        self.lines[line as usize].push(new, words, place);
    }

    fn free(&mut self, place: u32) {
        self.clear(place);
        self.free_lines.push(place);
        self.used -= 1;
    }

    /// Forgets the lines that `keep` does not want, given their accesses.
    pub fn retain(&mut self, mut keep: impl FnMut(&[&Entry]) -> bool) {
        let mut gone = Vec::new();
        let pages = self.pages.iter_mut().flatten();
        for place in pages.chain(self.shared.iter_mut().flatten()).filter(|place| **place != 0) {
            let places = self.lines[*place as usize].places();
            let entries: Vec<&Entry> = places.iter().map(|at| &self.entries[*at as usize]).collect();
            if !keep(&entries) {
                gone.push(std::mem::take(place));
            }
        }
        gone.into_iter().for_each(|place| self.free(place));
    }

    /// The shared memory of a block is no more.
    pub fn end_block(&mut self, block: u32) {
        let Some(lines) = self.shared.get_mut(block as usize).map(std::mem::take) else { return };
        lines.into_iter().filter(|place| *place != 0).for_each(|place| self.free(place));
    }
}
