//! Thread programs of the blocks of a functional run, decided as each block ends. Blocks with the same thread programs
//! are decided once.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use sim_core::grid::Kernel;
use sim_core::recording::{AccessKind, Recorded, Who};
use sim_frontend::dependence::decided_by_others;
use sim_frontend::form::BarrierKind;
use sim_verify::sync::program::{Access, Addresses, LANES, Operation, Programs, Step, Stream};
use sim_verify::sync::{View, decide};

use super::findings::{Judgement, Lines, judge, unknown};
use super::report::{KernelVerdict, Place, ProgramVerdict};

/// The views in the order in which they are reported.
pub const VIEWS: [View; 2] = [View::Threads, View::Lockstep];

/// A block that has begun.
struct Running {
    kernel: Arc<Kernel>,
    number: u64,
    programs: Programs,
    /// What is not of thread programs, and where.
    beyond: Option<(&'static str, u32)>,
}

/// Collects and decides.
pub struct Collector {
    /// By the slot of the first warp.
    running: BTreeMap<u32, Running>,
    /// By slot: the slot of the first warp of its block, and its number there.
    warps: BTreeMap<u32, (u32, usize)>,
    /// By grid.
    kernels: BTreeMap<u32, Launched>,
    /// The chip's compute capability.
    capability: u32,
}

struct Launched {
    lines: Lines,
    verdict: KernelVerdict,
    /// Digests of the programs that were decided.
    digests: Vec<[u64; 2]>,
}

impl Collector {
    /// For a chip of this compute capability.
    pub fn new(capability: u32) -> Self {
        Self { running: BTreeMap::new(), warps: BTreeMap::new(), kernels: BTreeMap::new(), capability }
    }

    /// What a run tells.
    pub fn tell(&mut self, recorded: &Recorded<'_>) {
        match *recorded {
            Recorded::Block { kernel, number, warps } => self.begin(kernel, number, warps),
            Recorded::Access { who, kind, bytes, addresses } => {
                let access = match kind {
                    AccessKind::Read => Access::Read,
                    AccessKind::Write => Access::Write,
                    AccessKind::Atomic => Access::Atomic,
                };
                let addresses: [u32; LANES] = std::array::from_fn(|lane| addresses[lane] as u32);
                let addresses = Addresses::of(who.lanes, &addresses);
                self.step(who, Operation::Access { access, bytes, addresses });
            }
            Recorded::Barrier { who, kind: BarrierKind::Arrive, index, count } => {
                self.step(who, Operation::Arrive { barrier: index, count: count.unwrap_or(0) });
            }
            Recorded::Barrier { who, index, count, .. } => {
                self.step(who, Operation::Sync { barrier: index, count });
            }
            Recorded::Meet { who, mask, orders_memory } => {
                self.step(who, Operation::Meet { mask, orders_memory });
            }
            Recorded::Other { who, what } => {
                let block = self.warps.get(&who.warp).and_then(|(first, _)| self.running.get_mut(first));
                if let Some(block) = block {
                    block.beyond.get_or_insert((what, who.pc));
                }
            }
            Recorded::Ended { warp } => {
                if let Some(block) = self.running.remove(&warp) {
                    self.decide(block, None);
                }
            }
        }
    }

    fn begin(&mut self, kernel: &Arc<Kernel>, number: u64, warps: &[(u32, u32)]) {
        let Some(&(first, _)) = warps.first() else { return };
        let stream = |(index, &(_, lanes)): (usize, &(u32, u32))| Stream {
            first_thread: index as u32 * kernel.warp_size,
            lanes,
            steps: Vec::new(),
        };
        let streams = warps.iter().enumerate().map(stream).collect();
        let programs = Programs { warp_size: kernel.warp_size, streams };
        for (index, &(slot, _)) in warps.iter().enumerate() {
            self.warps.insert(slot, (first, index));
        }
        self.running.insert(first, Running { kernel: Arc::clone(kernel), number, programs, beyond: None });
    }

    fn step(&mut self, who: Who, operation: Operation) {
        let Some(&(first, index)) = self.warps.get(&who.warp) else { return };
        let Some(block) = self.running.get_mut(&first) else { return };
        block.programs.streams[index].steps.push(Step { lanes: who.lanes, site: who.pc, operation });
    }

    /// Decides for a block that has ended, or that `stopped` has kept from it.
    fn decide(&mut self, block: Running, stopped: Option<&Stopped>) {
        let capability = self.capability;
        let launched = self
            .kernels
            .entry(block.kernel.grid_id)
            .or_insert_with(|| Launched::new(&block.kernel, capability));
        launched.verdict.blocks += 1;
        let digest = [0u8, 1].map(|salt| {
            let mut hasher = DefaultHasher::new();
            (salt, &block.programs, block.beyond, stopped.is_some()).hash(&mut hasher);
            hasher.finish()
        });
        if let Some(known) = launched.digests.iter().position(|d| *d == digest) {
            let known = &mut launched.verdict.programs[known];
            known.blocks += 1;
            // The first block stands for them, in whichever order they end.
            let index = block.kernel.block_index(block.number);
            if index.iter().rev().lt(known.block.iter().rev()) {
                known.block = index;
            }
            return;
        }
        launched.digests.push(digest);
        let views = VIEWS.map(|view| match (block.beyond, stopped) {
            (Some((what, pc)), _) => {
                let reason = format!("`{what}` is not followed");
                unknown(view, &reason, Some(launched.lines.place(pc)))
            }
            (None, stopped) => {
                let mut decision = decide(&block.programs, view);
                let judgement = judge(&mut decision, &block.programs, &launched.lines, view);
                match stopped {
                    Some(stopped) => {
                        let own = stopped.block == Some(block.kernel.block_index(block.number));
                        stopped.judge(judgement, view, own)
                    }
                    None => judgement,
                }
            }
        });
        let block = block.kernel.block_index(block.number);
        launched.verdict.programs.push(ProgramVerdict { block, blocks: 1, views: views.into() });
    }

    /// The verdicts by kernel; blocks that have not ended are decided as far as they have come.
    pub fn finish(mut self, stopped: Option<&Stopped>) -> Vec<KernelVerdict> {
        let left = std::mem::take(&mut self.running);
        let none = Stopped { message: "the run ended before the block did".into(), ..Stopped::default() };
        for block in left.into_values() {
            self.decide(block, Some(stopped.unwrap_or(&none)));
        }
        self.kernels.into_values().map(|launched| launched.verdict).collect()
    }
}

impl Launched {
    fn new(kernel: &Kernel, capability: u32) -> Self {
        let lines = Lines::new(kernel);
        let program = &*kernel.code.program;
        let plain = program.base.as_deref().unwrap_or(program);
        let depends = decided_by_others(plain).map(|pc| lines.of_plain(plain, pc));
        let verdict = KernelVerdict {
            kernel: kernel.name.to_string(),
            launch: kernel.grid_id,
            grid: kernel.grid,
            block_size: kernel.block,
            blocks: 0,
            view: if capability >= 70 { View::Threads } else { View::Lockstep },
            depends,
            programs: Vec::new(),
        };
        Self { lines, verdict, digests: Vec::new() }
    }
}

/// Why a run did not come to its end.
#[derive(Clone, Debug, Default)]
pub struct Stopped {
    /// In words.
    pub message: String,
    /// Where.
    pub place: Option<Place>,
    /// In which block.
    pub block: Option<[u32; 3]>,
    /// All threads wait.
    pub deadlock: bool,
    /// A barrier was used as none can be.
    pub misuse: bool,
}

impl Stopped {
    /// The verdict on the programs of a block as far as they were executed; `own`: it is the one in which the run stopped.
    /// What is found of barriers stands, anything else says nothing about what would have come.
    fn judge(&self, found: Judgement, view: View, own: bool) -> Judgement {
        let kind = found.findings.first().map_or("", |finding| finding.kind);
        let of_counts = ["count_mismatch", "too_many"].contains(&kind);
        match () {
            () if self.deadlock && (of_counts || kind == "deadlock") => found,
            () if self.misuse && of_counts => found,
            () if self.deadlock && own => found.replaced("deadlock", &self.message, self.place.clone()),
            () if self.misuse && own => found.replaced("barrier_misuse", &self.message, self.place.clone()),
            () => unknown(view, &format!("the run stopped: {}", self.message), self.place.clone()),
        }
    }
}
