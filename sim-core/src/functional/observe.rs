//! Observation of memory in the functional mode, where each access is performed at once.

use sim_frontend::program::{Extra, MemoryOp, Op};
use sim_memory::access::AccessKind;
use sim_memory::coalescing::{LineAccess, lines};
use sim_memory::observation::{self, Event, INITIAL, PartitionObservation, SmObservation, Stores};
use sim_memory::vocabulary::{Cycle, LaneMask, Semantics, StateSpace, WARP_LANES};

use super::{Functional, Halt};
use crate::error::Fault;
use crate::execute::Request;
use crate::grid::Kernel;
use crate::memory_model::Checker;
use crate::reconvergence::{Lanes, Reconvergence};
use crate::sm::accesses::access_kind;

/// The observation and its check. The number of an event stands for its cycle.
#[derive(Debug)]
pub(super) struct Observed {
    numbers: SmObservation,
    memory: PartitionObservation,
    parts: Vec<LineAccess>,
    now: Cycle,
    checker: Checker,
    /// What the check has found.
    failed: Option<Box<Fault>>,
}

impl Observed {
    fn push(&mut self, event: &Event) {
        self.now += 1;
        if self.failed.is_none() {
            self.failed = self.checker.one(Some(0), self.now, event).err();
        }
    }

    fn check(&mut self) -> Result<(), Halt> {
        self.failed.take().map_or(Ok(()), |fault| Err(Halt::Fault(fault)))
    }

    /// An access of a warp to global memory.
    fn access(&mut self, request: &Request, op: &Op, facts: &MemoryOp) {
        let Some(kind) = access_kind(op, false) else { return };
        if matches!(kind, AccessKind::Hint(_)) {
            return;
        }
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        lines(&request.addresses, request.lanes, request.bytes, &mut parts);
        let offsets = observation::offsets(&request.addresses);
        for part in &parts {
            let transaction = self.numbers.number();
            self.push(&Event::Issued {
                transaction,
                origin: (request.warp as u32, request.pc),
                kind,
                semantics: facts.semantics,
                scope: facts.scope,
                line: part.line,
                bytes: part.bytes,
                lanes: part.lanes,
                offsets,
                size: request.bytes as u8,
            });
            if !self.checker.follows_stores() {
                continue;
            }
            // Of weak accesses only the axioms, and strong ones of the same line, want to know more.
            let weak = facts.semantics == Semantics::Weak && !matches!(kind, AccessKind::Atomic { .. });
            if weak
                && !self.checker.checks_axioms()
                && (kind == AccessKind::Load || !self.memory.has(part.line))
            {
                continue;
            }
            if kind == AccessKind::Load {
                let stores = self.memory.stores_of(part.line, part.bytes);
                self.push(&Event::Loaded { transaction, stores });
                continue;
            }
            let stores = self.memory.line(part.line);
            let mut reads = None;
            if let AccessKind::Atomic { .. } = kind {
                let mut found = [INITIAL; WARP_LANES];
                for lane in Lanes(part.lanes) {
                    let at = usize::from(offsets[lane as usize]);
                    if let Some(bytes) = stores.get_mut(at..at + request.bytes as usize) {
                        found[lane as usize] = bytes[0];
                        bytes.fill(transaction);
                    }
                }
                reads = Some(Box::new(found));
            }
            observation::fill(stores, part.bytes, transaction);
            let (line, bytes) = (part.line, part.bytes);
            self.push(&Event::Performed { line, bytes, stores: Stores::One(transaction), reads });
            if let AccessKind::Atomic { returns: true, .. } = kind {
                self.push(&Event::Returned { transaction });
            }
        }
        self.parts = parts;
    }
}

impl<P: Reconvergence> Functional<P> {
    /// Checks the runs of kernels against the memory model, or by sanitizers.
    pub fn observe(&mut self, checker: Checker) {
        self.notes = true;
        self.resident.observed = Some(Vec::new());
        self.resident.on_chip = checker.sanitizer.is_some();
        self.observed = Some(Box::new(Observed {
            numbers: SmObservation::new(0, 1),
            memory: PartitionObservation::default(),
            parts: Vec::new(),
            now: 0,
            checker,
            failed: None,
        }));
    }

    /// The check, at the end.
    pub fn checker(&mut self) -> Option<&mut Checker> {
        self.observed.as_mut().map(|observed| &mut observed.checker)
    }

    /// Passes on what was logged.
    #[cold]
    pub(super) fn pass_on(&mut self) {
        let Some(observed) = &mut self.observed else { return };
        for event in self.resident.observed.iter_mut().flat_map(|events| events.drain(..)) {
            observed.push(&event);
        }
    }

    /// A block starts.
    #[cold]
    pub(super) fn observe_block(&mut self, slot: usize, kernel: &Kernel, number: u64) {
        self.pass_on();
        let (Some(observed), Some(block)) = (&mut self.observed, &self.resident.blocks[slot]) else { return };
        let warps = block.warps.iter().map(|&w| (w as u32, self.resident.warps[w].threads)).collect();
        observed.push(&Event::Block { grid: kernel.grid_id, number, warps });
    }

    /// A step that is no data operation: its barriers, its fence, its accesses.
    #[cold]
    #[inline(never)]
    pub(super) fn observe_step(&mut self, w: usize, pc: u32, exec: LaneMask) -> Result<(), Halt> {
        self.pass_on();
        let Some(observed) = &mut self.observed else { return Ok(()) };
        let code = &self.resident.kernels[self.resident.warps[w].kernel].code;
        if let Extra::Membar(scope, semantics) = code.program.ops[pc as usize].extra
            && exec != 0
        {
            observed.push(&Event::Fence { warp: w as u32, lanes: exec, scope, semantics });
        }
        observed.check()
    }

    /// The accesses of the last step.
    #[cold]
    #[inline(never)]
    pub(super) fn observe_accesses(&mut self, w: usize) {
        let Some(observed) = &mut self.observed else { return };
        let code = &self.resident.kernels[self.resident.warps[w].kernel].code;
        for request in self.resident.requests.iter().filter(|r| r.space == StateSpace::Global) {
            let op = &code.program.ops[request.pc as usize];
            if let Some(facts) = op.extra.access() {
                observed.access(request, op, facts);
            }
        }
    }

    /// Checks what is left to check of a run.
    pub(super) fn finish_check(&mut self) -> Result<(), Halt> {
        self.pass_on();
        self.observed.as_mut().map_or(Ok(()), |observed| observed.check())
    }
}
