//! Thread programs of the blocks of a functional run, decided as each block ends. Blocks with the same thread programs
//! are decided once.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use sim_core::grid::Kernel;
use sim_core::recording::{AccessKind, Groups, Orders, Recorded, Who};
use sim_frontend::form::{BarrierKind, MbarrierOptions, MbarrierStep};
use sim_frontend::waits::decided;
use sim_frontend::wgmma::WARPGROUP;
use sim_memory::address_space::CLUSTER_SHIFT;
use sim_verify::sync::program::{
    Access, Act, Addresses, Blocks, LANES, Operation, Programs, Queue, Step, Stream,
};
use sim_verify::sync::{View, decide};

use super::atomics::Atomics;
use super::findings::{Judgement, Lines, judge, unknown};
use super::report::{KernelVerdict, Kind, Place, ProgramVerdict};

/// The views in the order in which they are reported.
pub const VIEWS: [View; 2] = [View::Threads, View::Lockstep];

/// A block that has begun, or the blocks of a cluster.
struct Running {
    kernel: Arc<Kernel>,
    /// The number of the block, or of the first one of the cluster.
    number: u64,
    /// Blocks that have not ended, of those that have begun or will.
    left: u32,
    programs: Programs,
    /// What is not of thread programs, and where.
    beyond: Option<(&'static str, u32)>,
    /// By warp and lane: the test of an mbarrier object that has failed and is to be made again.
    tests: Vec<[Option<Test>; LANES]>,
    /// There was a test of an mbarrier object.
    tested: bool,
    /// By stream: products of matrices.
    products: Vec<Products>,
    /// What atomic operations order, where their order may decide what threads do.
    atomics: Option<Atomics>,
}

impl Running {
    /// Lanes of a warp do something else than to repeat a test that has failed.
    fn get_on(&mut self, warp: usize, lanes: u32) {
        if self.tested {
            (0..LANES).filter(|lane| lanes >> lane & 1 == 1).for_each(|lane| self.tests[warp][lane] = None);
        }
    }
}

/// A test of an mbarrier object: where, its address, and the parity of the phase.
#[derive(Clone, Copy, PartialEq)]
struct Test {
    pc: u32,
    object: u32,
    odd: bool,
}

/// What lanes do to their objects, but tests.
fn act(step: MbarrierStep, options: MbarrierOptions, operand: u32) -> Option<Act> {
    Some(match step {
        MbarrierStep::Init => Act::Init { count: operand },
        MbarrierStep::Inval => Act::Inval,
        MbarrierStep::Arrive | MbarrierStep::ArriveDrop => {
            let drop = step == MbarrierStep::ArriveDrop;
            match options.expect_tx {
                true => Act::Arrive { count: 1, bytes: operand, drop },
                false => Act::Arrive { count: operand, bytes: 0, drop },
            }
        }
        MbarrierStep::ExpectTx => Act::Expect { bytes: operand },
        MbarrierStep::CompleteTx => Act::Complete { bytes: operand },
        MbarrierStep::TestWait | MbarrierStep::TryWait | MbarrierStep::PendingCount => return None,
    })
}

/// Lanes with the same value together, in the order of the first of each.
fn alike<T: PartialEq + Copy>(lanes: u32, value: impl Fn(usize) -> T) -> Vec<(u32, T)> {
    let mut out: Vec<(u32, T)> = Vec::new();
    for lane in (0..LANES).filter(|lane| lanes >> lane & 1 == 1) {
        let own = value(lane);
        match out.iter_mut().find(|(_, known)| *known == own) {
            Some((lanes, _)) => *lanes |= 1 << lane,
            None => out.push((1 << lane, own)),
        }
    }
    out
}

fn queue(groups: Groups) -> Queue {
    match groups {
        Groups::Copies => Queue::Copies,
        Groups::Stores => Queue::Stores,
        Groups::Products => Queue::Products,
    }
}

/// Products of a warp.
#[derive(Clone, Debug, Default)]
struct Products {
    issued: u32,
    /// By group: how many were issued before its end.
    groups: Vec<u32>,
    /// Products that it knows the others of its warpgroup have issued.
    known: u32,
}

/// The event that a warp has issued its part of a product.
fn issued(stream: usize, number: u32) -> u32 {
    1 << 31 | (stream as u32) << MOST_PRODUCTS | number
}

/// Products of a warp that are followed at most, as a power of two.
const MOST_PRODUCTS: u32 = 20;

/// The blocks of a kernel's clusters, of several.
fn blocks_of(kernel: &Kernel) -> Option<Blocks> {
    (kernel.cluster_size() > 1).then(|| Blocks {
        // Warpgroups begin at multiples of their size.
        threads: kernel.block.iter().product::<u32>().next_multiple_of(LANES as u32 * WARPGROUP),
        bytes: kernel.shared_bytes.max(1).next_multiple_of(256),
    })
}

/// A shared address that is told, as thread programs have it.
fn shared_at(blocks: Option<Blocks>, address: u64) -> u32 {
    let Some(blocks) = blocks else { return address as u32 };
    let (rank, offset) = (address >> CLUSTER_SHIFT, address & ((1 << CLUSTER_SHIFT) - 1));
    rank as u32 * blocks.bytes + offset as u32
}

/// Collects and decides.
pub struct Collector {
    /// By number in the order of their begin.
    running: BTreeMap<u32, Running>,
    begun: u32,
    /// By slot of a warp: the number of what runs there, and the stream.
    warps: BTreeMap<u32, (u32, usize)>,
    /// By grid and number of the first block: a cluster that is running.
    clusters: BTreeMap<(u32, u64), u32>,
    /// By grid.
    kernels: BTreeMap<u32, Launched>,
    /// The chip's compute capability.
    capability: u32,
}

struct Launched {
    lines: Lines,
    verdict: KernelVerdict,
    /// Where tests of mbarrier objects decide more than to test again.
    tests: Option<Place>,
    /// Digests of the programs that were decided.
    digests: Vec<[u64; 2]>,
}

impl Collector {
    /// For a chip of this compute capability.
    pub fn new(capability: u32) -> Self {
        let (running, warps) = (BTreeMap::new(), BTreeMap::new());
        let (clusters, kernels) = (BTreeMap::new(), BTreeMap::new());
        Self { running, begun: 0, warps, clusters, kernels, capability }
    }

    /// What a run tells.
    pub fn tell(&mut self, recorded: &Recorded<'_>) {
        match *recorded {
            Recorded::Block { kernel, number, warps } => self.begin(kernel, number, warps),
            Recorded::Access { who, kind: AccessKind::Atomic, orders, bytes, addresses } => {
                let at = self.shared(who, addresses);
                let operation = Operation::Access { access: Access::Atomic, bytes, addresses: at };
                self.atomic(who, orders, addresses, operation);
            }
            Recorded::Fence { who, orders } => {
                if let Some((block, warp)) = self.block(who.warp)
                    && let Some(atomics) = &mut block.atomics
                {
                    atomics.fence(&mut block.programs.streams[warp], warp, who, orders);
                }
            }
            Recorded::Access { who, kind, bytes, addresses, .. } => {
                let access = match kind {
                    AccessKind::Read => Access::Read,
                    AccessKind::Write => Access::Write,
                    AccessKind::Atomic => Access::Atomic,
                };
                let addresses = self.shared(who, addresses);
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
            Recorded::Object { who, step: MbarrierStep::TestWait | MbarrierStep::TryWait, .. } => {
                self.test(who, recorded);
            }
            Recorded::Object { who, options, .. } if options.no_complete => {
                self.beyond(who, "mbarrier.arrive.noComplete");
            }
            Recorded::Object { who, step, options, relaxed, addresses, operands, .. } => {
                let blocks = self.blocks(who);
                let of = |lane: usize| (shared_at(blocks, addresses[lane]), operands[lane] as u32);
                for (lanes, (object, operand)) in alike(who.lanes, of) {
                    if let Some(act) = act(step, options, operand) {
                        self.step(Who { lanes, ..who }, Operation::Object { object, act, relaxed });
                    }
                }
            }
            Recorded::Copy { who, groups, more, bytes, addresses } => {
                let addresses = self.shared(who, addresses);
                self.step(who, Operation::Copy { queue: queue(groups), more, bytes, addresses });
            }
            Recorded::Commit { who, groups } => {
                self.step(who, Operation::Commit { queue: queue(groups) });
                self.products(who, groups, None);
            }
            Recorded::Await { who, groups, newest } => {
                self.step(who, Operation::Await { queue: queue(groups), newest });
                self.products(who, groups, newest);
            }
            Recorded::Product { who } => self.product(who),
            Recorded::CopiesArrive { who, no_inc, addresses } => {
                let blocks = self.blocks(who);
                for (lanes, object) in alike(who.lanes, |lane| shared_at(blocks, addresses[lane])) {
                    self.step(Who { lanes, ..who }, Operation::CopiesArrive { object, inc: !no_inc });
                }
            }
            Recorded::Bulk { who, bytes, addresses, objects } => {
                let blocks = self.blocks(who);
                let of = |lane: usize| (shared_at(blocks, objects[lane]), bytes[lane]);
                for (lanes, (object, bytes)) in alike(who.lanes, of) {
                    let addresses = self.shared(Who { lanes, ..who }, addresses);
                    self.step(Who { lanes, ..who }, Operation::Bulk { object, bytes, addresses });
                }
            }
            Recorded::Cluster { who, wait, relaxed } => {
                self.step(who, Operation::Cluster { wait, relaxed });
            }
            Recorded::Other { who, what } => self.beyond(who, what),
            Recorded::Ended { warp } => self.ended(warp),
        }
    }

    fn atomic(&mut self, who: Who, orders: Orders, addresses: &[u64; LANES], operation: Operation) {
        let Some((block, warp)) = self.block(who.warp) else { return };
        block.get_on(warp, who.lanes);
        let Some(atomics) = &mut block.atomics else { return self.step(who, operation) };
        let stream = &mut block.programs.streams[warp];
        let access = Step { lanes: who.lanes, site: who.pc, operation };
        if let Err(what) = atomics.atomic(stream, warp, who, orders, addresses, access) {
            block.beyond.get_or_insert((what, who.pc));
        }
    }

    fn begin(&mut self, kernel: &Arc<Kernel>, number: u64, warps: &[(u32, u32)]) {
        let index = kernel.block_index(number);
        let (rank, first) = (kernel.rank(index), kernel.number_of_rank(index, 0));
        let blocks = blocks_of(kernel);
        let capability = self.capability;
        let launched =
            self.kernels.entry(kernel.grid_id).or_insert_with(|| Launched::new(kernel, capability));
        let next = self.begun;
        let key = match blocks {
            Some(_) => *self.clusters.entry((kernel.grid_id, first)).or_insert(next),
            None => next,
        };
        if key == next {
            self.begun += 1;
            // Where nothing that threads read decides what they do, they do it in any order of their atomic operations.
            let atomics = launched.verdict.depends.is_some().then(|| Atomics::new(0));
            let programs = Programs { blocks, warp_size: kernel.warp_size, streams: Vec::new() };
            let running = Running {
                kernel: Arc::clone(kernel),
                number: first,
                left: kernel.cluster_size(),
                programs,
                beyond: None,
                tests: Vec::new(),
                products: Vec::new(),
                tested: false,
                atomics,
            };
            self.running.insert(key, running);
        }
        let Some(running) = self.running.get_mut(&key) else { return };
        let before = running.programs.streams.len();
        let thread = rank * blocks.map_or(0, |blocks| blocks.threads);
        let stream = |(index, &(_, lanes)): (u32, &(u32, u32))| Stream {
            first_thread: thread + index * kernel.warp_size,
            lanes,
            steps: Vec::new(),
        };
        running.programs.streams.extend((0..).zip(warps).map(stream));
        running.tests.resize(before + warps.len(), [None; LANES]);
        running.products.resize(before + warps.len(), Products::default());
        if let Some(atomics) = &mut running.atomics {
            atomics.add(warps.len());
        }
        for (index, &(slot, _)) in warps.iter().enumerate() {
            self.warps.insert(slot, (key, before + index));
        }
    }

    /// The block with this warp has ended, and perhaps its cluster.
    fn ended(&mut self, warp: u32) {
        let Some(&(key, _)) = self.warps.get(&warp) else { return };
        let Some(running) = self.running.get_mut(&key) else { return };
        running.left -= 1;
        if running.left == 0
            && let Some(running) = self.running.remove(&key)
        {
            self.clusters.remove(&(running.kernel.grid_id, running.number));
            self.decide(running, None);
        }
    }

    /// The block or the cluster of a warp, and the warp's number there.
    fn block(&mut self, warp: u32) -> Option<(&mut Running, usize)> {
        let &(key, index) = self.warps.get(&warp)?;
        Some((self.running.get_mut(&key)?, index))
    }

    /// The blocks of the cluster of a warp.
    fn blocks(&mut self, who: Who) -> Option<Blocks> {
        self.block(who.warp).and_then(|(block, _)| block.programs.blocks)
    }

    /// Shared addresses of lanes of a warp.
    fn shared(&mut self, who: Who, addresses: &[u64; LANES]) -> Addresses {
        let blocks = self.blocks(who);
        Addresses::of(who.lanes, &addresses.map(|at| shared_at(blocks, at)))
    }

    fn beyond(&mut self, who: Who, what: &'static str) {
        if let Some((block, _)) = self.block(who.warp) {
            block.beyond.get_or_insert((what, who.pc));
        }
    }

    fn step(&mut self, who: Who, operation: Operation) {
        let Some((block, index)) = self.block(who.warp) else { return };
        block.get_on(index, who.lanes);
        block.programs.streams[index].steps.push(Step { lanes: who.lanes, site: who.pc, operation });
    }

    /// A warp has issued its part of a product, which begins when all four warps of the group have.
    fn product(&mut self, who: Who) {
        let Some((block, index)) = self.block(who.warp) else { return };
        let number = block.products[index].issued;
        block.products[index].issued += 1;
        if number >> MOST_PRODUCTS != 0 {
            block.beyond.get_or_insert(("more than 1,048,576 products of a warp", who.pc));
            return;
        }
        let operation = Operation::Signal { event: issued(index, number), relaxed: true };
        self.step(Who { lanes: who.lanes & who.lanes.wrapping_neg(), ..who }, operation);
    }

    /// A warp commits its products, or waits for groups of them: these are complete, so that the other warps of the group have
    /// issued their parts.
    fn products(&mut self, who: Who, groups: Groups, newest: Option<u8>) {
        let Some((block, index)) = self.block(who.warp).filter(|_| groups == Groups::Products) else {
            return;
        };
        let own = &mut block.products[index];
        let Some(newest) = newest else { return own.groups.push(own.issued) };
        let last = own.groups.len().checked_sub(1 + usize::from(newest));
        let complete = last.map_or(0, |last| own.groups[last]);
        if complete <= own.known {
            return;
        }
        own.known = complete;
        let first = block.programs.streams[index].first_thread / (LANES as u32 * WARPGROUP)
            * (LANES as u32 * WARPGROUP);
        let group = first..first + LANES as u32 * WARPGROUP;
        let mates: Vec<usize> = (0..block.programs.streams.len())
            .filter(|mate| *mate != index && group.contains(&block.programs.streams[*mate].first_thread))
            .collect();
        for mate in mates {
            let event = issued(mate, complete - 1);
            self.step(who, Operation::Observe { event, relaxed: true });
        }
    }

    /// A test that succeeds ends a wait. One that fails is made again: it is kept only where the run stops before.
    fn test(&mut self, who: Who, recorded: &Recorded<'_>) {
        let Recorded::Object { relaxed, addresses, operands, passes, .. } = *recorded else { return };
        let blocks = self.blocks(who);
        let object = |lane: usize| shared_at(blocks, addresses[lane]);
        let test = |lane: usize| Test { pc: who.pc, object: object(lane), odd: operands[lane] != 0 };
        for (lanes, Test { object, odd, .. }) in alike(who.lanes & passes, test) {
            self.step(Who { lanes, ..who }, Operation::Object { object, act: Act::Wait { odd }, relaxed });
        }
        let Some((block, index)) = self.block(who.warp) else { return };
        block.tested = true;
        for lane in (0..LANES).filter(|lane| (who.lanes & !passes) >> lane & 1 == 1) {
            block.tests[index][lane] = Some(test(lane));
        }
    }

    /// Decides for a block that has ended, or that `stopped` has kept from it.
    fn decide(&mut self, mut block: Running, stopped: Option<&Stopped>) {
        for (stream, tests) in block.programs.streams.iter_mut().zip(&block.tests) {
            for (lanes, test) in alike(stream.lanes, |lane| tests[lane]) {
                if let Some(Test { pc, object, odd }) = test {
                    let operation = Operation::Object { object, act: Act::Wait { odd }, relaxed: false };
                    stream.steps.push(Step { lanes, site: pc, operation });
                }
            }
        }
        let Some(launched) = self.kernels.get_mut(&block.kernel.grid_id) else { return };
        if let Some(atomics) = &mut block.atomics {
            atomics.place_fences(&mut block.programs.streams);
            if let Some(pc) = atomics.first {
                launched.verdict.atomics.get_or_insert_with(|| launched.lines.place(pc));
            }
        }
        let size = block.kernel.cluster_size();
        launched.verdict.blocks += u64::from(size);
        let digest = [0u8, 1].map(|salt| {
            let mut hasher = DefaultHasher::new();
            (salt, &block.programs, block.beyond, stopped.is_some()).hash(&mut hasher);
            hasher.finish()
        });
        if let Some(known) = launched.digests.iter().position(|d| *d == digest) {
            let known = &mut launched.verdict.programs[known];
            known.blocks += u64::from(size);
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
            (None, _) if block.tested && launched.tests.is_some() => {
                let reason = "a test of an mbarrier object decides more than whether to test again, so that what threads do depends \
                              on the interleaving";
                unknown(view, reason, launched.tests.clone())
            }
            (None, stopped) => {
                let mut decision = decide(&block.programs, view);
                let judgement = judge(&mut decision, &block.programs, &launched.lines, view);
                match stopped {
                    Some(stopped) => {
                        let first = |index| block.kernel.number_of_rank(index, 0);
                        let own = stopped.block.is_some_and(|index| first(index) == block.number);
                        stopped.judge(judgement, view, own)
                    }
                    None => judgement,
                }
            }
        });
        let block = block.kernel.block_index(block.number);
        launched.verdict.programs.push(ProgramVerdict { block, blocks: size.into(), views: views.into() });
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
        let found = decided(plain);
        let depends = found.by_others.map(|pc| lines.of_plain(plain, pc));
        let tests = found.by_tests.map(|pc| lines.of_plain(plain, pc));
        let verdict = KernelVerdict {
            kernel: kernel.name.to_string(),
            launch: kernel.grid_id,
            grid: kernel.grid,
            block_size: kernel.block,
            blocks: 0,
            view: if capability >= 70 { View::Threads } else { View::Lockstep },
            depends,
            atomics: None,
            programs: Vec::new(),
        };
        Self { lines, verdict, tests, digests: Vec::new() }
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
        let of_counts = ["count_mismatch", "too_many", "barrier_misuse", "wrong_phase"].contains(&kind);
        // What one run of independent threads came to is not what a lockstep warp would have.
        let undecided = found.verdict == Kind::Unknown && view == View::Lockstep;
        match () {
            () if undecided => found,
            () if self.deadlock && (of_counts || kind == "deadlock") => found,
            () if self.misuse && of_counts => found,
            () if self.deadlock && own => found.replaced("deadlock", &self.message, self.place.clone()),
            () if self.misuse && own => found.replaced("barrier_misuse", &self.message, self.place.clone()),
            () => unknown(view, &format!("the run stopped: {}", self.message), self.place.clone()),
        }
    }
}
