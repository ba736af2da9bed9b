//! Loads and stores of one word a lane in shared memory, the most of what kernels do there: [`Resident::step`] executes them
//! as it does data operations. Those that fault, and those that somebody observes, are executed as all other accesses are.
//!
//! [`Resident::step`]: super::Resident::step

use sim_frontend::program::{Extra, MemoryOp, Op, OpClass, Row};
use sim_memory::shared::turns;
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use super::wide;
use crate::instruction_set::InstructionSet;
use crate::reconvergence::Lanes;
use crate::registers::{LaneRow, first_lane, read_row};

/// What an access works on.
pub(super) struct Words<'w> {
    pub(super) memory: &'w mut [u8],
    pub(super) rows: &'w mut [LaneRow],
    pub(super) consts: &'w [LaneRow],
    pub(super) op: &'w Op,
    /// Lanes that access memory, one at least.
    pub(super) lanes: LaneMask,
    /// Banks of shared memory, a power of two.
    pub(super) banks: u32,
}

impl Words<'_> {
    /// Executes the access: its turns at the banks. 0 where a lane's address is not aligned or lies outside of the memory, or
    /// where the loaded words go nowhere: nothing has been done then.
    #[inline(always)]
    pub(super) fn access(self, set: InstructionSet) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if set != InstructionSet::Baseline {
            // SAFETY: the set is one that `InstructionSet::available` found on this host; both sets hold AVX2.
            #[allow(unsafe_code, reason = "measured; see `wide`")]
            return unsafe { self.access_avx2() };
        }
        let _ = set;
        self.access_each(InstructionSet::Baseline)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    #[inline(never)]
    fn access_avx2(mut self) -> u32 {
        if self.lanes == LaneMask::MAX {
            let turns = self.access_in_groups();
            if turns != 0 {
                return turns;
            }
        }
        self.access_each(InstructionSet::Avx2Fma)
    }

    fn facts(&self) -> Option<&MemoryOp> {
        if let Extra::Memory(facts) = &self.op.extra { Some(facts) } else { None }
    }

    /// Lane by lane.
    #[inline(always)]
    fn access_each(self, set: InstructionSet) -> u32 {
        let Some(facts) = self.facts() else { return 0 };
        let (address_64, scale) = (facts.address_64, facts.scale);
        let Self { memory, rows, consts, op, lanes, banks } = self;
        let row = read_row(rows, consts, op.src[0]);
        if address_64 {
            let high = read_row(rows, consts, Row(op.src[0].0 + 1));
            let mut above = 0;
            for lane in 0..WARP_LANES {
                above |= if lanes >> lane & 1 == 1 { high[lane] | row[lane] >> 31 } else { 0 };
            }
            if above != 0 {
                return 0;
            }
        }
        let offset = op.imm as u32;
        let address = |register: u32| (register << scale).wrapping_add(offset);
        // Inactive lanes stand at the first active one's.
        let mut at = [address(row[first_lane(lanes)]); WARP_LANES];
        for lane in 0..WARP_LANES {
            at[lane] = if lanes >> lane & 1 == 1 { address(row[lane]) } else { at[lane] };
        }
        let (least, most, bits) = wide::span(set, &at);
        if bits & 3 != 0 || most as usize + 4 > memory.len() {
            return 0;
        }
        if op.class == OpClass::Load {
            let mut values = [0; WARP_LANES];
            let (Some(to), true) =
                (rows.get_mut(usize::from(op.dst[0].0)), wide::gather(set, memory, &at, most, &mut values))
            else {
                return 0;
            };
            for lane in 0..WARP_LANES {
                to.0[lane] = if lanes >> lane & 1 == 1 { values[lane] } else { to.0[lane] };
            }
        } else {
            let values = read_row(rows, consts, op.src[1]);
            for lane in Lanes(lanes) {
                let at = at[lane as usize] as usize;
                memory[at..at + 4].copy_from_slice(&values[lane as usize].to_le_bytes());
            }
        }
        turns_of(at, lanes, [least, most], banks)
    }
}

/// Turns of lanes that access a word each, whose addresses have these bounds.
#[inline(always)]
fn turns_of(mut at: [u32; WARP_LANES], lanes: LaneMask, [least, most]: [u32; 2], banks: u32) -> u32 {
    // Words that lie closer together than there are banks lie in different banks.
    if (most - least) / 4 < banks {
        return 1;
    }
    for lane in 0..WARP_LANES {
        at[lane] /= 4;
    }
    turns(&at, lanes, banks.trailing_zeros())
}

#[cfg(target_arch = "x86_64")]
mod in_groups {
    use std::arch::x86_64::*;

    use super::*;
    use crate::vectors::{self, BYTES};

    /// Where groups of lanes begin, whose addresses are consecutive words or one word.
    #[derive(Clone, Copy)]
    struct Groups {
        starts: [u32; 4],
        /// Bit by bit: the lanes of a group have one word.
        alike: u32,
        least: u32,
        most: u32,
    }

    /// Groups of `VECTORS` times eight lanes; `None` where the addresses of a group are others, or some are not aligned.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn groups<const VECTORS: usize>(addresses: &[__m256i; 4]) -> Option<Groups> {
        let apart = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
        let mut groups = Groups { starts: [0; 4], alike: 0, least: u32::MAX, most: 0 };
        let mut bits = 0;
        for (i, addresses) in addresses.as_chunks::<VECTORS>().0.iter().enumerate() {
            let first = _mm256_castsi256_si128(addresses[0]);
            let start = _mm_cvtsi128_si32(first).cast_unsigned();
            let (mut one, mut consecutive) = (_mm256_setzero_si256(), _mm256_setzero_si256());
            for (j, addresses) in addresses.iter().enumerate() {
                let from = _mm256_sub_epi32(*addresses, _mm256_broadcastd_epi32(first));
                let expected = _mm256_add_epi32(apart, _mm256_set1_epi32((j * BYTES) as i32));
                one = _mm256_or_si256(one, from);
                consecutive = _mm256_or_si256(consecutive, _mm256_xor_si256(from, expected));
            }
            let last = if _mm256_testz_si256(consecutive, consecutive) == 1 {
                // Beyond the last address none is consecutive: no memory ends there.
                start.saturating_add((VECTORS * BYTES) as u32 - 4)
            } else if _mm256_testz_si256(one, one) == 1 {
                groups.alike |= 1 << i;
                start
            } else {
                return None;
            };
            groups.starts[i] = start;
            bits |= start;
            groups.least = groups.least.min(start);
            groups.most = groups.most.max(last);
        }
        (bits & 3 == 0).then_some(groups)
    }

    impl Words<'_> {
        /// The access of a whole warp each of whose halves, or groups of eight lanes, has consecutive words or one word; 0
        /// where it is another one.
        #[target_feature(enable = "avx2")]
        #[inline]
        pub(super) fn access_in_groups(&mut self) -> u32 {
            let Some(facts) = self.facts() else { return 0 };
            let (address_64, scale) = (facts.address_64, facts.scale);
            let op = self.op;
            let row = load(read_row(self.rows, self.consts, op.src[0]));
            if address_64 {
                let high = load(read_row(self.rows, self.consts, Row(op.src[0].0 + 1)));
                let mut above = [_mm256_setzero_si256(); 2];
                for i in 0..4 {
                    above[0] = _mm256_or_si256(above[0], row[i]);
                    above[1] = _mm256_or_si256(above[1], high[i]);
                }
                let above = _mm256_or_si256(_mm256_srli_epi32::<31>(above[0]), above[1]);
                if _mm256_testz_si256(above, above) == 0 {
                    return 0;
                }
            }
            let offset = _mm256_set1_epi32(op.imm as i32);
            let scale = _mm_cvtsi32_si128(scale.into());
            let mut addresses = row;
            for i in 0..4 {
                addresses[i] = _mm256_add_epi32(_mm256_sll_epi32(row[i], scale), offset);
            }
            if let Some(groups) = groups::<2>(&addresses) {
                self.access_groups::<2>(&addresses, &groups)
            } else if let Some(groups) = groups::<1>(&addresses) {
                self.access_groups::<1>(&addresses, &groups)
            } else {
                0
            }
        }

        /// The access of lanes at these addresses, which are such groups.
        #[target_feature(enable = "avx2")]
        #[inline]
        fn access_groups<const VECTORS: usize>(&mut self, addresses: &[__m256i; 4], groups: &Groups) -> u32 {
            let (op, Groups { starts, alike, least, most }) = (self.op, *groups);
            if most as usize + 4 > self.memory.len() {
                return 0;
            }
            if op.class == OpClass::Load {
                let Some(to) = self.rows.get_mut(usize::from(op.dst[0].0)) else { return 0 };
                let to = to.0.as_chunks_mut::<8>().0.as_chunks_mut::<VECTORS>().0;
                for (i, to) in to.iter_mut().enumerate() {
                    let from = &self.memory[starts[i] as usize..];
                    if alike >> i & 1 == 1 {
                        let Some(word) = from.first_chunk::<4>() else { return 0 };
                        let word = _mm256_set1_epi32(i32::from_le_bytes(*word));
                        to.iter_mut().for_each(|to| vectors::store(to, word));
                    } else {
                        // Up to the last word, as has been seen.
                        for (to, from) in to.iter_mut().zip(from.as_chunks::<BYTES>().0) {
                            vectors::store(to, vectors::load_bytes(from));
                        }
                    }
                }
            } else {
                let values = read_row(self.rows, self.consts, op.src[1]).as_chunks::<8>().0;
                for (i, values) in values.as_chunks::<VECTORS>().0.iter().enumerate() {
                    let to = &mut self.memory[starts[i] as usize..];
                    if alike >> i & 1 == 1 {
                        // The last of the lanes writes last.
                        let Some(to) = to.first_chunk_mut::<4>() else { return 0 };
                        *to = values[VECTORS - 1][7].to_le_bytes();
                    } else {
                        for (to, values) in to.as_chunks_mut::<BYTES>().0.iter_mut().zip(values) {
                            store_bytes(to, values);
                        }
                    }
                }
            }
            if (most - least) / 4 < self.banks {
                return 1;
            }
            let mut at = [0; WARP_LANES];
            for (to, addresses) in at.as_chunks_mut::<8>().0.iter_mut().zip(addresses) {
                vectors::store(to, *addresses);
            }
            turns_of(at, self.lanes, [least, most], self.banks)
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn load(row: &[u32; WARP_LANES]) -> [__m256i; 4] {
        let mut words = [_mm256_setzero_si256(); 4];
        for (to, words) in words.iter_mut().zip(row.as_chunks::<8>().0) {
            *to = vectors::load(words);
        }
        words
    }

    #[inline(always)]
    fn store_bytes(to: &mut [u8; BYTES], words: &[u32; 8]) {
        for (to, word) in to.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sim_frontend::program::{MAX_SLOTS, NO_PC, Pred};
    use sim_memory::priority::Policy;
    use sim_memory::shared::conflict_degree;
    use sim_memory::vocabulary::{CacheOp, Scope, Semantics, StateSpace};

    use super::*;
    use crate::code::is_words;

    const BYTES: u32 = 2048;

    /// An access whose address is in rows 0 and 1 and whose data is in another.
    fn op(class: OpClass, data: u16, imm: i64, address_64: bool, scale: u8) -> Op {
        let facts = MemoryOp {
            space: StateSpace::Shared,
            cache: CacheOp::Ca,
            semantics: Semantics::Weak,
            scope: Scope::Cta,
            element_bytes: 4,
            vector: 1,
            signed: false,
            reg_bits: 32,
            address_64,
            scale,
            alignment: 4,
            atomic: None,
            hint: None,
            policy: Policy::None,
            cluster: false,
            of_warp: false,
            combined: None,
        };
        let load = class == OpClass::Load;
        let (to, from) = if load { (Row(data), Row::NONE) } else { (Row::NONE, Row(data)) };
        Op {
            class,
            cost: 0,
            form: 0,
            guard: Pred::TRUE,
            dst: [to, Row::NONE, Row::NONE, Row::NONE],
            src: [Row(0), from, Row::NONE, Row::NONE, Row::NONE],
            pdst: [Pred::NONE; 2],
            psrc: [Pred::NONE; 2],
            imm,
            target: NO_PC,
            extra: Extra::Memory(facts),
            slots: [0; MAX_SLOTS],
            slots_used: 0,
            slots_written: 0,
        }
    }

    /// What the access does, lane by lane; `None` where it is for others.
    fn literal(op: &Op, memory: &mut [u8], rows: &mut [LaneRow], lanes: LaneMask, banks: u32) -> Option<u32> {
        let Extra::Memory(facts) = &op.extra else { return None };
        let address = |rows: &[LaneRow], lane: usize| {
            let low = rows[0].0[lane];
            match facts.address_64 {
                true => (u64::from(rows[1].0[lane]) << 32 | u64::from(low)).wrapping_add_signed(op.imm),
                false => u64::from((low << facts.scale).wrapping_add(op.imm as u32)),
            }
        };
        let all: [u64; WARP_LANES] = std::array::from_fn(|lane| address(rows, lane));
        let of_lanes = || Lanes(lanes).map(|lane| all[lane as usize]);
        if of_lanes().any(|at| at % 4 != 0 || at.saturating_add(4) > memory.len() as u64) {
            return None;
        }
        for lane in Lanes(lanes) {
            let at = all[lane as usize] as usize;
            if op.class == OpClass::Load {
                rows[usize::from(op.dst[0].0)].0[lane as usize] =
                    u32::from_le_bytes(memory[at..at + 4].try_into().ok()?);
            } else {
                let value = rows[usize::from(op.src[1].0)].0[lane as usize];
                memory[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
        }
        Some(conflict_degree(&all, lanes, 4, banks))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// Groups of lanes, eight, half a warp or a warp: one word, consecutive ones, either of these but for the last lane, any; some
        /// addresses are not aligned, or far away. The destination may be the row of the address.
        #[test]
        fn thr_ld_st_of_words_equal_lane_by_lane(
            words in proptest::collection::vec(0u32..BYTES / 4 + 2, 32),
            group in prop::sample::select(vec![8usize, 16, 32]),
            strides in prop_oneof![proptest::collection::vec(0u32..2, 4), proptest::collection::vec(0u32..6, 4)],
            near: bool,
            lanes in prop_oneof![2 => Just(LaneMask::MAX), 1 => 1u32..],
            load: bool,
            data in prop_oneof![Just(2u16), 0u16..3],
            (address_64, scaled, offset) in (any::<bool>(), any::<bool>(), -9i64..9),
            spoilt in proptest::option::weighted(0.2, (0usize..32, 0u32..5)),
            shift in 4u32..=5,
        ) {
            let scale = if scaled && !address_64 { 2 } else { 0 };
            let mut rows = vec![LaneRow([0; WARP_LANES]); 3];
            for lane in 0..WARP_LANES {
                let within = lane % group;
                let word = match strides[lane / group] {
                    stride @ 0..4 if stride < 2 || within < group - 1 => words[lane - within] + stride % 2 * within as u32,
                    _ => words[lane],
                };
                let word = if near { word % (BYTES / 4 - 8) } else { word };
                // Offsets are of whole words.
                let byte = (i64::from(word) * 4 - offset * 4) as u32;
                rows[0].0[lane] = if scale == 2 { byte.cast_signed().wrapping_div(4).cast_unsigned() } else { byte };
                rows[1].0[lane] = if address_64 && byte.cast_signed() < 0 { u32::MAX } else { 0 };
                rows[2].0[lane] = word.wrapping_mul(2_654_435_761) ^ lane as u32;
            }
            if let Some((lane, how)) = spoilt {
                match how {
                    0 => rows[0].0[lane] ^= 1,
                    1 => rows[1].0[lane] = 1,
                    2 => rows[0].0[lane] = u32::MAX - 15,
                    3 => rows[0].0.iter_mut().for_each(|at| *at = at.wrapping_add(2)),
                    _ => rows[0].0[lane] = BYTES - 4,
                }
            }
            let op = op(if load { OpClass::Load } else { OpClass::Store }, data, offset * 4, address_64, scale);
            prop_assert!(is_words(&op));
            let memory: Vec<u8> = (0..BYTES).map(|i| (i * 7 + i / 256) as u8).collect();
            let (mut expected_memory, mut expected_rows) = (memory.clone(), rows.clone());
            let banks = 1 << shift;
            let expected = literal(&op, &mut expected_memory, &mut expected_rows, lanes, banks);
            // Addresses from 2^31 on are for others, whatever their offset makes of them.
            let far = Lanes(lanes).any(|lane| address_64 && rows[0].0[lane as usize] >> 31 == 1);
            for set in InstructionSet::available() {
                let (mut memory, mut rows) = (memory.clone(), rows.clone());
                let words = Words { memory: &mut memory, rows: &mut rows, consts: &[], op: &op, lanes, banks };
                let turns = words.access(set);
                if !far {
                    prop_assert_eq!((turns != 0).then_some(turns), expected);
                } else {
                    prop_assert_eq!(turns, 0);
                }
                if turns != 0 {
                    prop_assert_eq!(&memory, &expected_memory);
                    prop_assert_eq!(&rows, &expected_rows);
                }
            }
        }
    }

    #[test]
    fn accesses_of_words_are_known() {
        let word = op(OpClass::Load, 2, 8, true, 0);
        let mut others = vec![word.clone(); 6];
        let change = |op: &mut Op, change: fn(&mut MemoryOp)| {
            if let Extra::Memory(facts) = &mut op.extra {
                change(facts);
            }
        };
        change(&mut others[0], |facts| facts.vector = 2);
        change(&mut others[1], |facts| facts.reg_bits = 64);
        change(&mut others[2], |facts| facts.space = StateSpace::Global);
        change(&mut others[3], |facts| facts.of_warp = true);
        others[4].imm = 1 << 30;
        others[5].src[0] = Row::NONE;
        assert!(is_words(&word) && is_words(&op(OpClass::Store, 2, 8, true, 0)));
        assert!(!is_words(&op(OpClass::Atomic, 2, 8, true, 0)));
        assert!(others.iter().all(|op| !is_words(op)));
    }
}
