//! Accesses of the functional mode: what a step asked of global and local memory happens at once.

use sim_frontend::program::{Extra, MemoryOp, Op, OpClass};
use sim_memory::address_space::local_physical;
use sim_memory::atomics;
use sim_memory::device_memory::DeviceMemory;
use sim_memory::vocabulary::{StateSpace, WARP_LANES};

use super::Functional;
use crate::execute::{Request, Resident, deliver, write_wide};
use crate::lookups::NO_LOOKUP;
use crate::reconvergence::{Lanes, Reconvergence};
use crate::registers::{
    LaneRow, extend, from_bytes, rows_of_words, write_element, write_loaded, write_loaded_word,
};

/// Performs a load or store whose words go between memory and registers as they are; false where it is another access, or
/// its lanes access several pages.
#[inline(always)]
fn moved_by_words(
    memory: &DeviceMemory,
    request: &Request,
    op: &Op,
    facts: &MemoryOp,
    rows: &mut [LaneRow],
) -> bool {
    // Inactive lanes stand at the first active one's address.
    let Request { addresses, lanes, data, .. } = request;
    match op.class {
        OpClass::Load => {
            let Some((to, words)) = rows_of_words(&op.dst, facts) else { return false };
            // Rows are written behind the loop over lanes, as vectors.
            let mut values = [[0; WARP_LANES]; 4];
            let moved = memory.read_words(addresses, words, |lane, word, value| {
                values[word % 4][lane] = value;
            });
            for (to, values) in to.iter().zip(&values).take(if moved { words } else { 0 }) {
                let Some(row) = rows.get_mut(usize::from(to.0)) else { continue };
                for lane in 0..WARP_LANES {
                    row.0[lane] = if lanes >> lane & 1 == 1 { values[lane] } else { row.0[lane] };
                }
            }
            moved
        }
        OpClass::Store => {
            let Some((_, words)) = rows_of_words(&op.src[1..], facts) else { return false };
            memory.write_words(addresses, *lanes, words, |lane, word| {
                let (words, _) = data[lane].as_chunks::<4>();
                u32::from_le_bytes(words[word % 4])
            })
        }
        _ => false,
    }
}

impl<P: Reconvergence> Functional<P> {
    /// Accesses of the last step, at once.
    #[inline(always)]
    pub(super) fn perform(&mut self, w: usize) {
        let local_sm = self.local_sm;
        let Resident { requests, lookups, warps, blocks, kernels, world, watching, changes, .. } =
            &mut self.resident;
        for request in requests.iter() {
            let warp = &mut warps[w];
            let code = &kernels[warp.kernel].code;
            let op = &code.program.ops[request.pc as usize];
            let Some(facts) = op.extra.access() else { continue };
            let bytes = request.bytes as usize;
            let memory = &world.memory;
            if request.lookup != NO_LOOKUP {
                let mut texel = [0; 16];
                for lane in Lanes(request.lanes) {
                    memory.read(request.addresses[lane as usize], &mut texel[..bytes]);
                    lookups.arrived(request.lookup, request.part, lane, &texel[..bytes]);
                }
                if let Extra::Texture(facts) = &op.extra
                    && request.part + 1 == request.parts
                {
                    let lanes = lookups.lanes(request.lookup);
                    lookups.write(request.lookup, &mut warp.rows, op, facts, lanes);
                    lookups.end(request.lookup);
                }
                continue;
            }
            if request.space == StateSpace::Global
                && !*watching
                && request.parts == 1
                && moved_by_words(memory, request, op, facts, &mut warp.rows)
            {
                continue;
            }
            // Loads of surfaces have been served above.
            let stores = op.class == OpClass::Store || op.class == OpClass::Texture && facts.atomic.is_none();
            for lane in Lanes(request.lanes) {
                let l = lane as usize;
                let at = match request.space {
                    StateSpace::Local => local_physical(local_sm, w as u32, lane, request.addresses[l]),
                    _ => request.addresses[l],
                };
                let mut buffer = [0u8; 16];
                match op.class {
                    OpClass::Hint => {}
                    OpClass::Store | OpClass::Texture if stores => {
                        let data = &request.data[l][..bytes];
                        if *watching {
                            memory.read(at, &mut buffer[..bytes]);
                            *changes += u64::from(buffer[..bytes] != *data);
                        }
                        memory.write(at, data);
                    }
                    OpClass::Copy => {
                        memory.read(at, &mut buffer[..bytes]);
                        if let Some(block) = blocks[warp.block].as_mut() {
                            let differs = deliver(block, request.operands[l], &buffer[..bytes]);
                            *changes += u64::from(*watching && differs);
                        }
                    }
                    OpClass::Atomic | OpClass::Texture => {
                        let Some((operation, ty)) = facts.atomic else { continue };
                        memory.read(at, &mut buffer[..bytes]);
                        if bytes == 16 {
                            let old = u128::from_le_bytes(buffer);
                            let [low, high] = request.operands[l].map(u128::from);
                            let c = u128::from_le_bytes(request.data[l]);
                            let new = atomics::apply_wide(operation, old, high << 64 | low, c);
                            *changes += u64::from(*watching && new != old);
                            memory.write(at, &new.to_le_bytes());
                            write_wide(&mut warp.rows, op, lane, old);
                            continue;
                        }
                        let old = from_bytes(&buffer[..bytes]);
                        let [b, c] = request.operands[l];
                        let new = atomics::apply_global(operation, ty, old, b, c);
                        *changes += u64::from(*watching && new != old);
                        memory.write(at, &new.to_le_bytes()[..bytes]);
                        if op.dst[0].is_some() {
                            let value = extend(old, facts);
                            write_element(&mut warp.rows, op.dst[0], lane, value, facts.reg_bits.into());
                        }
                    }
                    _ => {
                        memory.read(at, &mut buffer[..bytes]);
                        if request.parts > 1 {
                            let [a, b, c, d, ..] = buffer;
                            write_loaded_word(&mut warp.rows, op, facts, lane, request.part, [a, b, c, d]);
                        } else {
                            write_loaded(&mut warp.rows, op, facts, lane, &buffer[..bytes]);
                        }
                    }
                }
            }
        }
    }
}
