//! The axioms that a read shows to be broken: Causality, SC-per-Location and Atomicity, of Lustig et al.

use std::sync::Arc;

use sim_memory::observation::{FORGOTTEN, INITIAL, Transaction};

use super::lines::Transfer;
use super::{Broken, Checker};

impl Checker {
    /// True if the transaction of `store` precedes that of `later` where their grids are of one stream, or by
    /// program order and causality order.
    pub(super) fn precedes(
        &self,
        store: &Transfer,
        lane: usize,
        later: &Transfer,
        later_lane: usize,
    ) -> bool {
        if store.grid == later.grid {
            return store.precedes(lane, later, later_lane);
        }
        let stream = |grid: u32| self.kernels.iter().find(|k| k.grid_id == grid).map(|k| k.stream);
        store.grid < later.grid && stream(store.grid) == stream(later.grid)
    }

    /// Checks that a lane reads no store that another one, which precedes the read, has replaced (axioms Causality and
    /// SC-per-Location).
    pub(super) fn check_read(
        &mut self,
        read: &Arc<Transfer>,
        lane: usize,
        found: &dyn Fn(usize) -> Transaction,
    ) -> Result<(), Broken> {
        self.checked.reads += 1;
        let Some(line) = self.lines.get(&read.line) else { return Ok(()) };
        let mut counted = false;
        for byte in read.bytes_of(lane) {
            let store = found(byte);
            if store == line.current[byte] && line.pending.is_empty() {
                continue;
            }
            if store == FORGOTTEN {
                self.checked.unknown += u64::from(!counted);
                counted = true;
                continue;
            }
            self.checked.stale += u64::from(!counted && store != line.current[byte]);
            counted = true;
            let covers = |mask: u128| mask >> byte & 1 == 1;
            // A store of this SM that is not performed yet is later than all that are.
            if line.pending.iter().any(|pending| pending.transfer.number == store) {
                continue;
            }
            let after = line.store(store).map_or(0, |(place, _)| place + 1);
            for newer in line.stores.iter().skip(after).filter(|newer| covers(newer.bytes)) {
                if newer.transfer.number == read.number {
                    continue;
                }
                let writer = newer.transfer.writer(byte);
                if self.precedes(&newer.transfer, writer, read, lane) {
                    return Err(self.stale(read, lane, byte, store, newer, "Causality"));
                }
                let thread = read.warp.thread(lane);
                if read.strong()
                    && read.morally_strong(lane, &newer.transfer, writer)
                    && newer.readers.contains(&(thread, byte as u8))
                {
                    return Err(self.stale(read, lane, byte, store, newer, "SC-per-Location"));
                }
            }
            for newer in line.pending.iter().filter(|newer| covers(newer.transfer.bytes)) {
                if newer.transfer.number == read.number {
                    continue;
                }
                let writer = newer.transfer.writer(byte);
                if self.precedes(&newer.transfer, writer, read, lane) {
                    return Err(self.stale(read, lane, byte, store, newer, "Causality"));
                }
            }
        }
        Ok(())
    }

    /// Atomicity: no store that is morally strong with an atomic comes between its read and its write.
    pub(super) fn atomic(
        &self,
        atomic: &Arc<Transfer>,
        lane: usize,
        found: Transaction,
    ) -> Result<(), Broken> {
        let Some(line) = self.lines.get(&atomic.line) else { return Ok(()) };
        let byte = usize::from(atomic.offsets[lane]);
        if found == atomic.number || found == FORGOTTEN || line.current[byte] == found {
            return Ok(());
        }
        let after = line.store(found).map_or(0, |(place, _)| place + 1);
        if after == 0 && found != INITIAL {
            return Ok(());
        }
        let between = line.stores.iter().skip(after).filter(|store| store.bytes >> byte & 1 == 1);
        for store in between {
            let writer = store.transfer.writer(byte);
            if store.transfer.strong() && atomic.morally_strong(lane, &store.transfer, writer) {
                return Err(self.stale(atomic, lane, byte, found, store, "Atomicity"));
            }
        }
        Ok(())
    }
}
