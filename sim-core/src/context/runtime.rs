//! The host's part of the device runtime: sizes, printed output and failed assertions.

use std::collections::BTreeMap;
use std::ops::Range;

use sim_frontend::load::library::variables;
use sim_memory::address_space::{self, CONST_BASE};
use sim_memory::vocabulary::StateSpace;

use super::parts::{Part, PartRefused};
use super::{Context, LoadedModule};
use crate::answers::Assertion;
use crate::error::{Fault, FaultKind, SimError};
use crate::printf;
use crate::report::DeviceReport;
use crate::sanitizer::Finding;
use crate::sanitizer::findings::Kind;

/// The longest string that is read from device memory, in bytes.
const LONGEST: u64 = 64 << 10;

impl Context {
    /// Bytes of a part of the device runtime.
    pub fn part_bytes(&self, part: Part) -> u64 {
        self.runtime.bytes(part)
    }

    /// Sets the bytes of a part of the device runtime, in whole multiples of 16.
    ///
    /// # Errors
    /// The part is in use, or does not fit the memory.
    pub fn set_part_bytes(&mut self, part: Part, bytes: u64) -> Result<(), PartRefused> {
        let (name, before) = (part.variable(), self.part_bytes(part));
        let given = |used| self.word(used, 8) > 0;
        let in_use = part == Part::Heap && self.variable(variables::HEAP_USED).is_some_and(given);
        if in_use || !self.queue.is_empty() {
            return Err(PartRefused::Used);
        }
        if bytes > part.most() {
            return Err(PartRefused::Memory);
        }
        self.runtime.set_bytes(part, bytes.next_multiple_of(16));
        let Some(place) = self.runtime.places.get(name).copied() else { return Ok(()) };
        // A module is loaded: what was decoded of it has the old place.
        self.free(place, 1).map_err(|_| PartRefused::Used)?;
        let moved = self.allocate(name, self.part_bytes(part), 1);
        if moved.is_none() {
            self.runtime.set_bytes(part, before);
        }
        let Some(place) = moved.or_else(|| self.allocate(name, before, 1)) else {
            return Err(PartRefused::Memory);
        };
        self.memory.clear(place, self.part_bytes(part));
        self.forget_lines(place, self.part_bytes(part));
        self.runtime.places.insert(name.to_string(), place);
        for loaded in &mut self.modules {
            for (own, address) in &mut loaded.addresses {
                if let Some(now) = self.runtime.address(own) {
                    *address = now;
                }
            }
            loaded.codes.clear();
        }
        if moved.is_some() { Ok(()) } else { Err(PartRefused::Memory) }
    }

    /// The assertions that failed when one stopped the last run: those that threads had come to and written down by then, 64 at
    /// most.
    pub fn failed(&self) -> &[Assertion] {
        &self.assertions
    }

    /// The address of a variable of the device runtime.
    fn variable(&self, name: &str) -> Option<u64> {
        self.runtime.places.get(name).copied()
    }

    /// Bytes of an address in the modules with the device runtime.
    fn address_bytes(&self) -> usize {
        let with = |loaded: &&LoadedModule| {
            loaded.addresses.iter().any(|(name, _)| name.starts_with(variables::PREFIX))
        };
        self.modules.iter().find(with).map_or(8, |loaded| loaded.module.address_bits() as usize / 8)
    }

    fn word(&self, address: u64, bytes: usize) -> u64 {
        let mut value = [0; 8];
        self.read(address, &mut value[..bytes]);
        u64::from_le_bytes(value)
    }

    /// The heap of `malloc`.
    pub(super) fn heap(&self) -> Option<Range<u64>> {
        let start = self.variable(variables::HEAP)?;
        Some(start..start + self.part_bytes(Part::Heap))
    }

    /// Adds what `malloc` gave and nobody freed to the findings of sanitizers [san-leaks].
    pub(super) fn leaks(&self, report: &mut DeviceReport) {
        if !self.options.sanitize.init {
            return;
        }
        let Some(sanitizers) = &mut report.sanitizers else { return };
        let (Some(heap), Some(used), Some(free)) = (
            self.variable(variables::HEAP),
            self.variable(variables::HEAP_USED),
            self.variable(variables::HEAP_FREE),
        ) else {
            return;
        };
        let header = |unit: u64| heap + unit * variables::HEAP_UNIT;
        let used = self.word(used, 8);
        // Free pieces by their unit: the size class is that of their list.
        let mut pieces = BTreeMap::new();
        for list in 0..u64::from(variables::HEAP_CLASSES) * 32 {
            let mut first = self.word(free + 8 * list, 4);
            while first != 0 && first <= used && pieces.insert(first - 1, list / 32).is_none() {
                first = self.word(header(first - 1) + 4, 4);
            }
        }
        let (mut unit, mut count, mut bytes) = (0, 0, 0);
        while unit < used {
            let mark = self.word(header(unit), 4) as u32 ^ variables::HEAP_MARK;
            let class = match pieces.get(&unit) {
                Some(class) => *class,
                None if mark < variables::HEAP_CLASSES => {
                    count += 1;
                    bytes += ((1u64 << mark) - 1) * variables::HEAP_UNIT;
                    u64::from(mark)
                }
                None => break,
            };
            unit += 1 << class;
        }
        if count > 0 {
            let mut finding = Finding::new(Kind::Leak, None, count, Vec::new());
            finding.message = format!("{}: {count} allocations, {bytes} bytes with padding", finding.message);
            sanitizers.findings.push(finding);
        }
    }

    /// The zero-terminated string at a generic address of global or constant memory.
    fn text(&self, address: u64) -> Option<String> {
        let address = match address_space::resolve(address) {
            (StateSpace::Global, address) => address,
            (StateSpace::Const, offset) => CONST_BASE + offset,
            _ => return None,
        };
        let end = self.allocations.find(address, 1)?.range.end.min(address.saturating_add(LONGEST));
        let mut bytes = vec![0; (end - address) as usize];
        self.read(address, &mut bytes);
        let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    /// Appends the output that launches have printed since the last call, in the order of the buffer.
    pub(super) fn collect_output(&mut self) {
        let (Some(used_at), Some(lost_at), Some(records)) = (
            self.variable(variables::OUTPUT_USED),
            self.variable(variables::OUTPUT_LOST),
            self.variable(variables::OUTPUT),
        ) else {
            return;
        };
        let asked = self.word(used_at, 8);
        if asked == 0 {
            return;
        }
        let used = asked.min(self.part_bytes(Part::Output));
        let word = self.address_bytes();
        let mut printed = String::new();
        let mut at = 0;
        // A record that found no room left a gap up to the end.
        while at + 16 <= used {
            let record = self.word(records + at, 4);
            let bytes = self.word(records + at + 4, 4);
            if record < 16 || at + record > used || bytes > record - 16 {
                break;
            }
            let mut arguments = vec![0; bytes as usize];
            self.read(records + at + 16, &mut arguments);
            let format = self.text(self.word(records + at + 8, 8));
            let format = format.unwrap_or_else(|| "(no format)".to_string());
            printed.push_str(&printf::format(&format, &arguments, word, &|at| self.text(at)));
            at += record;
        }
        self.report.printed.push_str(&printed);
        self.report.printfs_lost += self.word(lost_at, 8);
        self.write(records, &vec![0; used as usize]);
        self.write(used_at, &[0; 8]);
        self.write(lost_at, &[0; 8]);
    }

    /// Extends the error of a runtime trap by the first assertion that failed.
    pub(super) fn explain(&mut self, error: SimError) -> SimError {
        let SimError::Stopped(mut fault) = error else { return error };
        if fault.kind == FaultKind::Fault && fault.rule == "trap" {
            self.failed_assertions(&mut fault);
        }
        SimError::Stopped(fault)
    }

    fn failed_assertions(&mut self, fault: &mut Fault) {
        let (Some(failed), Some(failures)) =
            (self.variable(variables::FAILED), self.variable(variables::FAILURES))
        else {
            return;
        };
        let count = self.word(failed, 8).min(variables::FAILURES_KEPT);
        if count == 0 {
            return;
        }
        let bytes = self.address_bytes();
        let size = variables::FAILURE_WORDS * bytes;
        for entry in 0..count {
            let entry = failures + entry * size as u64;
            if self.word(entry, bytes) == 0 {
                continue;
            }
            let value = |i: usize| self.word(entry + (i * bytes) as u64, bytes);
            let text = |i| self.text(value(i)).unwrap_or_else(|| "?".to_string());
            let place = |first: usize| [value(first), value(first + 1), value(first + 2)];
            let assertion = Assertion {
                expression: text(0),
                file: text(1),
                line: value(3) as u32,
                function: text(2),
                block: place(7),
                thread: place(4),
            };
            self.assertions.push(assertion);
        }
        if let Some(Assertion { expression, file, line, function, block, thread }) = self.assertions.first() {
            fault.message = format!(
                "assertion `{expression}` failed: {file}:{line}: {function}, block {block:?}, thread {thread:?}"
            );
        }
        self.write(failed, &[0; 8]);
        self.write(failures, &vec![0; variables::FAILURES_KEPT as usize * size]);
    }
}
