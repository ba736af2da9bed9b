//! Schedules: everything that may change the outcome of a litmus test, drawn from a seed.

use sim_core::sm::scheduler::WarpScheduler;
use sim_verify::litmus::Test;
use sim_verify::litmus::program::Kind;

/// Instances of a test in one launch.
pub const INSTANCES: u32 = 8;

/// A block that streams through memory of its own.
pub const STREAM: u32 = u32::MAX;

/// Where the threads of a CTA are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Threads {
    /// Lanes of one warp.
    Lanes,
    /// Warps of their own.
    Warps,
}

/// Where the locations are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// In global memory.
    Global,
    /// In shared memory, where all threads are in one CTA.
    Shared,
}

/// A schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Where threads of a CTA are.
    pub threads: Threads,
    /// Where the locations are.
    pub space: Space,
    /// Bytes between two locations: 8 (one sector), 32 (one line), 256 (one slice or two), or more.
    pub stride: u32,
    /// What each block does: the CTA of an instance, or traffic: [`STREAM`], or the instance (bits 0 to 15) and location
    /// (bits 16 to 23) whose bank of L2 it keeps busy, with bit 31.
    pub blocks: Vec<u32>,
    /// For each instance and thread: rounds of a loop before it begins.
    pub delays: Vec<u32>,
    /// For each instance and thread: locations that it loads before it waits, as a mask.
    pub warm: Vec<u32>,
    /// For each instance and thread: locations whose load it begins just before its first instruction and never waits
    /// for, as a mask.
    pub pending: Vec<u32>,
    /// Warp scheduler of the SMs.
    pub scheduler: WarpScheduler,
    /// Largest additional latency between an SM and a partition: with it a message may overtake another on its way to a
    /// different partition.
    pub spread: u32,
    /// Cycles of an epoch.
    pub epoch: Option<u64>,
    /// Worker threads.
    pub workers: usize,
}

/// The generator xorshift64* (Vigna, 2016).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        // Neighbouring seeds are spread; zero would stay zero.
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..4 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

impl Schedule {
    /// The schedule of a number.
    pub fn new(test: &Test, ctas: u32, seed: u64, number: u32) -> Self {
        let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(u64::from(number)));
        let waits = test.threads.iter().flat_map(|t| &t.code).any(|i| matches!(i.kind, Kind::Barrier { .. }));
        let threads = if !waits && random.below(3) == 0 { Threads::Lanes } else { Threads::Warps };
        let space = if ctas == 1 && random.below(2) == 0 { Space::Shared } else { Space::Global };
        let stride = random.one_of(&[8, 32, 256, 1024, 4096, 5376]);
        let mut blocks: Vec<u32> = (0..INSTANCES * ctas).collect();
        let traffic = random.one_of(&[0, 0, 4, 16]);
        let busy = random.below(2) == 0;
        let location = random.below(test.locations.len().max(1) as u64) as u32;
        let role = |i: u32| if busy { (1 << 31) | (location << 16) | (i % INSTANCES) } else { STREAM };
        blocks.extend((0..traffic).map(role));
        for i in (1..blocks.len()).rev() {
            blocks.swap(i, random.below(i as u64 + 1) as usize);
        }
        let count = INSTANCES as usize * test.threads.len();
        let most = random.one_of(&[1, 8, 64, 200]);
        let delays = (0..count).map(|_| random.below(most) as u32).collect();
        let warm_all = random.below(3);
        let all = (1u32 << test.locations.len().min(31)) - 1;
        let warm = (0..count)
            .map(|_| match warm_all {
                0 => 0,
                1 => all,
                _ => random.next() as u32 & all,
            })
            .collect();
        let some_pending = random.below(3) == 0;
        let pending = (0..count).map(|_| if some_pending { random.next() as u32 & all } else { 0 }).collect();
        let scheduler =
            random.one_of(&[WarpScheduler::Lrr, WarpScheduler::Gto, WarpScheduler::TwoLevel { active: 2 }]);
        let epoch = random.one_of(&[None, Some(1), Some(3)]);
        let workers = random.one_of(&[1, 1, 1, 2]);
        let spread = random.one_of(&[0, 0, 500, 4000]);
        Self { threads, space, stride, blocks, delays, warm, pending, scheduler, spread, epoch, workers }
    }
}
