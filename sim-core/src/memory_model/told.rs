//! Violations of the memory model as faults: the axiom, the instructions with their lines, threads and addresses.

use std::collections::BTreeMap;
use std::sync::Arc;

use sim_frontend::program::OpClass;
use sim_memory::access::AccessKind;
use sim_memory::observation::{INITIAL, Transaction};
use sim_memory::vocabulary::{Cycle, WARP_LANES};

use super::lines::{SHARED, Store, Transfer};
use super::threads::block_of;
use super::{Broken, Checker};
use crate::error::{Fault, FaultKind, Location};
use crate::sanitizer::findings::{Access, Finding, SanitizerReport, Side, Synchronization};

/// The names of source files by number, for each PTX text that was looked through.
type Files<'c> = BTreeMap<usize, BTreeMap<u32, &'c str>>;

/// The names of a text: `.file 1 "name.cu"`.
fn files_of(text: &str) -> BTreeMap<u32, &str> {
    /// What follows the word at a place, if it begins its line.
    fn named(text: &str, at: usize) -> Option<(u32, &str)> {
        let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = text[at..].lines().next().filter(|_| text[begin..at].trim().is_empty())?;
        let mut words = line.strip_prefix(".file")?.splitn(2, '"');
        Some((words.next()?.trim().parse().ok()?, words.next()?.split('"').next()?))
    }
    let mut files = BTreeMap::new();
    let places = memchr::memmem::find_iter(text.as_bytes(), ".file");
    for (number, name) in places.filter_map(|at| named(text, at)) {
        // The first counts.
        files.entry(number).or_insert(name);
    }
    files
}

impl Checker {
    fn location(&self, transfer: &Transfer, lane: usize, cycle: Cycle) -> Location {
        let mut thread = transfer.warp.thread(lane);
        thread.block = block_of(thread);
        // An agent copies for a thread.
        let thread = transfer.copies.unwrap_or(thread);
        let lane = thread.index as usize % WARP_LANES;
        let kernel = self.kernels.iter().find(|kernel| kernel.grid_id == transfer.grid);
        let block = &self.blocks[thread.block as usize];
        let (x, y) = kernel.map_or((1, 1), |kernel| (kernel.block[0].max(1), kernel.block[1].max(1)));
        let info = kernel.and_then(|kernel| kernel.code.program.info.get(transfer.pc as usize));
        Location {
            kernel: kernel.map_or_else(|| "".into(), |kernel| Arc::clone(&kernel.name)),
            block: kernel.map_or([0; 3], |kernel| kernel.block_index(block.number)),
            thread: [thread.index % x, thread.index / x % y, thread.index / x / y],
            warp: thread.index / WARP_LANES as u32,
            lane: lane as u32,
            pc: transfer.pc,
            file: kernel.map_or_else(|| "".into(), |kernel| Arc::clone(&kernel.code.program.source.name)),
            line: info.map_or(0, |info| info.line),
            instruction: kernel
                .map_or_else(|| "".into(), |kernel| kernel.code.program.text(transfer.pc).into()),
            sm: transfer.sm,
            cycle,
        }
    }

    /// File and line of the CUDA source, where the program says it.
    fn source<'c>(&'c self, files: &mut Files<'c>, grid: u32, pc: u32) -> Option<String> {
        let program = &self.kernels.iter().find(|kernel| kernel.grid_id == grid)?.code.program;
        let (file, line) = program.info.get(pc as usize)?.loc?;
        let source = &program.source;
        let named = files.entry(Arc::as_ptr(&source.text).addr()).or_insert_with(|| files_of(&source.text));
        Some(format!("{}:{line}", named.get(&file).copied().unwrap_or("?")))
    }

    fn access<'c>(&'c self, files: &mut Files<'c>, (transfer, lane): &Side) -> Access {
        let program = self.kernels.iter().find(|kernel| kernel.grid_id == transfer.grid);
        let program = program.map(|kernel| &kernel.code.program);
        let class = program.and_then(|program| program.ops.get(transfer.pc as usize)).map(|op| op.class);
        let last = if transfer.copies.is_some() { 0 } else { *lane };
        let last = transfer.warp.synchronized(last);
        let known = program.and_then(|program| Some((program, program.info.get(last as usize)?)));
        Access {
            kind: match class {
                Some(OpClass::Load) => "load",
                Some(OpClass::Store) => "store",
                Some(OpClass::Atomic) => "atomic",
                Some(OpClass::Copy) => "asynchronous copy",
                Some(OpClass::Mbarrier) => "mbarrier operation",
                _ => "instruction",
            },
            place: self.location(transfer, *lane, transfer.issued),
            source: self.source(files, transfer.grid, transfer.pc),
            last_synchronization: known.map(|(program, info)| Synchronization {
                line: info.line,
                instruction: program.text(last).into(),
                source: self.source(files, transfer.grid, last),
            }),
        }
    }

    /// What sanitizers have found; the run is over.
    pub fn sanitized(&mut self) -> Option<SanitizerReport> {
        self.finish();
        let sanitizer = self.sanitizer.as_ref()?;
        let mut files = Files::default();
        let findings = sanitizer.findings.iter().map(|(kind, found)| {
            let address = found.address.zip(found.sides.first()).map(|(at, (transfer, _))| {
                let space = match transfer.line {
                    0 => "local",
                    line if line & SHARED != 0 => "shared",
                    _ => "global",
                };
                (space, at)
            });
            let accesses = found.sides.iter().map(|side| self.access(&mut files, side)).collect();
            Finding::new(kind, address, found.count, accesses)
        });
        Some(SanitizerReport {
            threads_of_a_warp: if sanitizer.races.lockstep { "lockstep" } else { "independent" },
            accesses: sanitizer.accesses,
            forgotten: sanitizer.races.forgotten,
            more: sanitizer.findings.more,
            findings: findings.collect(),
            suppressed: 0,
            unused_suppressions: Vec::new(),
            intended_races: None,
        })
    }

    fn of_store(&self, number: Transaction, line: u64, byte: usize) -> String {
        if number == INITIAL {
            return "the initial value".into();
        }
        let known = self.lines.get(&line).and_then(|line| line.store(number));
        match known {
            Some((_, store)) => self.of_transfer(&store.transfer, store.transfer.writer(byte)),
            None => "an older store".into(),
        }
    }

    fn of_transfer(&self, transfer: &Transfer, lane: usize) -> String {
        format!("the store of {}", self.location(transfer, lane, transfer.issued))
    }

    /// A read of something that a store, which precedes it, had replaced.
    pub(super) fn stale(
        &self,
        read: &Arc<Transfer>,
        lane: usize,
        byte: usize,
        found: Transaction,
        newer: &Store,
        axiom: &'static str,
    ) -> Broken {
        let what = if matches!(read.kind, AccessKind::Atomic { .. }) { "atomic" } else { "load" };
        let relation = match axiom {
            "Causality" => "precedes it in causality order",
            "Atomicity" => "comes between its read and its write",
            _ => "was read by an earlier strong load of this thread",
        };
        let state = if newer.bytes == 0 { " (not performed yet)" } else { "" };
        let why = format!(
            "at address {:#x} the {what} reads {}, although a store later in coherence order {relation}: {}{state}",
            read.line + byte as u64,
            self.of_store(found, read.line, byte),
            self.of_transfer(&newer.transfer, newer.transfer.writer(byte)),
        );
        Broken { axiom, at: (Arc::clone(read), lane), why }
    }

    /// A store that is performed after one that it precedes in causality order.
    pub(super) fn reordered(&self, store: &Arc<Transfer>, lane: usize, byte: usize, older: &Store) -> Broken {
        let why = format!(
            "at address {:#x} the store is performed after {}, which it precedes in causality order",
            store.line + byte as u64,
            self.of_transfer(&older.transfer, older.transfer.writer(byte)),
        );
        Broken { axiom: "Coherence", at: (Arc::clone(store), lane), why }
    }

    pub(super) fn fault(&self, broken: &Broken, cycle: Cycle) -> Box<Fault> {
        let (transfer, lane) = &broken.at;
        Box::new(Fault {
            kind: FaultKind::CheckViolation,
            rule: "mm-hw".into(),
            message: format!("axiom {} of the memory model is violated: {}", broken.axiom, broken.why),
            place: self.location(transfer, *lane, cycle),
        })
    }
}
