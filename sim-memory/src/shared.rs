//! Shared memory of a thread block: its bytes, its banks and the bank locks of atomics (CS §4.3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::vocabulary::{Cycle, LaneMask, WARP_LANES};

/// `SharedMem` of one block [env-readShared] [env-writeShared]. Accesses out of bounds are refused by the
/// caller, which knows the lanes' addresses, so that the message can name the lane.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct SharedMemory {
    bytes: Vec<u8>,
}

impl SharedMemory {
    /// Shared memory of `bytes` bytes, all zero.
    pub fn new(bytes: u32) -> Self {
        Self { bytes: vec![0; bytes as usize] }
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True if the block has no shared memory.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The contents.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The contents, mutable.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// The bank locks of an SM's shared memory. Atomics hold them from their read to their write; plain accesses
/// ignore them.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct BankLocks {
    /// For each bank: the cycle up to which it is locked.
    until: Vec<Cycle>,
}

impl BankLocks {
    /// `banks` banks of 32-bit words, all unlocked.
    pub fn new(banks: u32) -> Self {
        Self { until: vec![0; banks.max(1) as usize] }
    }

    /// Unlocks all banks.
    pub fn reset(&mut self) {
        self.until.fill(0);
    }

    /// `banks`: the banks an access touches; consecutive words lie in consecutive banks [env-banks].
    pub fn banks(&self, address: u64, size: u32) -> impl Iterator<Item = usize> + use<> {
        let banks = self.until.len() as u64;
        let (first, last) = (address / 4, (address + u64::from(size.max(1)) - 1) / 4);
        (first..=last).take(banks as usize).map(move |word| (word % banks) as usize)
    }

    /// `lock`: locks all banks of the access at once, when the last of them is free [env-lock]; they are
    /// unlocked (`unlock`) `held` cycles later [env-unlock]. Returns the cycle of the locking.
    pub fn lock(&mut self, address: u64, size: u32, now: Cycle, held: u32) -> Cycle {
        let start = self.banks(address, size).map(|bank| self.until[bank]).max().unwrap_or(0).max(now);
        let end = start + Cycle::from(held);
        self.banks(address, size).for_each(|bank| self.until[bank] = end);
        start
    }
}

/// When lanes conflict in a bank of shared memory (CUDA C++ Programming Guide, shared memory by compute
/// capability).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BankRule {
    /// 32 banks of 32-bit words; lanes that read one word share it (2.x, 5.x and 6.x).
    #[default]
    Words,
    /// As `words`; a load of eight or sixteen bytes a lane takes half as many turns where lanes `n` and
    /// `n ^ 1`, or lanes `n` and `n ^ 2`, have the same address for all active threads (7.0 and later; NVIDIA,
    /// developer forum, "Unexpected shared memory bank conflict").
    WordsOfPairs,
    /// 16 banks of 32-bit words, each half-warp by itself. Each pass broadcasts one word, that of the
    /// first remaining lane, and each other bank serves one lane (1.x).
    HalfWarps,
    /// 32 banks of 64-bit words, addressed as 32-bit words: words `i` and `i + 32` of an aligned segment
    /// of 64 share a 64-bit word of a bank (3.x, four-byte mode).
    FourByteMode,
    /// 32 banks of 64-bit words (3.x, eight-byte mode).
    EightByteMode,
}

impl BankRule {
    /// Lanes that access one word each are served by 32 banks of 32-bit words.
    #[inline]
    pub fn by_words(self) -> bool {
        matches!(self, Self::Words | Self::WordsOfPairs)
    }

    /// The number of turns the banks need for a load: 1 without bank conflicts.
    #[inline(always)]
    pub fn turns_of_load(self, addresses: &[u64; WARP_LANES], lanes: LaneMask, bytes: u32) -> u32 {
        match self {
            Self::WordsOfPairs if bytes > 4 && in_pairs(addresses, lanes) => {
                turns_by_groups(addresses, lanes, bytes, 32, 2)
            }
            _ => self.turns(addresses, lanes, bytes),
        }
    }

    /// The number of turns of an access of two or four whole words a lane; inactive lanes stand at an active lane's
    /// address.
    #[inline(always)]
    pub fn turns_of_words(self, at: &[u32; WARP_LANES], lanes: LaneMask, bytes: u32, load: bool) -> u32 {
        if lanes == LaneMask::MAX && self.by_words() && matches!(bytes, 8 | 16) {
            let halved = self == Self::WordsOfPairs && load && all_in_pairs(at);
            let group = (128 / bytes) as usize * if halved { 2 } else { 1 };
            // The lanes of a group whose words lie within 32 in a row need one word of each bank.
            let near = |lanes: &[u32]| {
                let (mut least, mut most) = (u32::MAX, 0);
                for &at in lanes {
                    (least, most) = (least.min(at), most.max(at));
                }
                most - least + bytes <= 128
            };
            let all = match group {
                8 => at.as_chunks::<8>().0.iter().all(|lanes| near(lanes)),
                16 => at.as_chunks::<16>().0.iter().all(|lanes| near(lanes)),
                _ => near(at),
            };
            if all {
                return (WARP_LANES / group) as u32;
            }
        }
        let at = at.map(u64::from);
        if load { self.turns_of_load(&at, lanes, bytes) } else { self.turns(&at, lanes, bytes) }
    }

    /// The number of turns the banks need for an access that is no load: 1 without bank conflicts.
    #[inline(always)]
    pub fn turns(self, addresses: &[u64; WARP_LANES], lanes: LaneMask, bytes: u32) -> u32 {
        match self {
            Self::Words | Self::WordsOfPairs => conflict_degree(addresses, lanes, bytes, 32),
            Self::HalfWarps => half_warps(addresses, lanes, bytes),
            Self::FourByteMode => {
                let place = |word: u64| (word % 32, word / 64);
                wide_banks(addresses, lanes, bytes, place)
            }
            Self::EightByteMode => {
                let place = |word: u64| (word / 2 % 32, word / 64);
                wide_banks(addresses, lanes, bytes, place)
            }
        }
    }
}

/// Turns of 16 banks that broadcast one word in each turn.
fn half_warps(addresses: &[u64; WARP_LANES], lanes: LaneMask, bytes: u32) -> u32 {
    let mut turns = 0;
    // Accesses of eight and sixteen bytes are split further, into words.
    for word in 0..u64::from(bytes.div_ceil(4)) {
        for half in [lanes & 0xffff, lanes & 0xffff_0000] {
            let mut left = half;
            while left != 0 {
                let of = |lane: usize| addresses[lane] / 4 + word;
                let broadcast = of(left.trailing_zeros() as usize);
                let mut banks = 1u32 << (broadcast % 16);
                for lane in (0..WARP_LANES).filter(|lane| half >> lane & 1 == 1) {
                    let asked = left >> lane & 1 == 1;
                    let bank = 1 << (of(lane) % 16);
                    if asked && (of(lane) == broadcast || banks & bank == 0) {
                        banks |= bank;
                        left &= !(1 << lane);
                    }
                }
                turns += 1;
            }
        }
    }
    turns
}

/// Turns of 32 banks of eight bytes, from the bank of each word and its place there. Accesses of sixteen
/// bytes are made by half-warps.
fn wide_banks(
    addresses: &[u64; WARP_LANES],
    lanes: LaneMask,
    bytes: u32,
    place: impl Fn(u64) -> (u64, u64),
) -> u32 {
    let groups = if bytes > 8 { [0xffff, 0xffff_0000] } else { [LaneMask::MAX, 0] };
    let mut turns = 0;
    for group in groups {
        let mut asked: Vec<(u64, u64)> = (0..WARP_LANES)
            .filter(|lane| lanes & group & 1 << lane != 0)
            .flat_map(|lane| (0..u64::from(bytes.div_ceil(4))).map(move |word| addresses[lane] / 4 + word))
            .map(&place)
            .collect();
        asked.sort_unstable();
        asked.dedup();
        let banks = asked.chunk_by(|a, b| a.0 == b.0);
        turns += banks.map(<[_]>::len).max().unwrap_or(0) as u32;
    }
    turns
}

/// The number of turns the banks need for an access: the largest number of distinct words in one bank. Lanes
/// that access the same word share it (broadcast and multicast). Accesses of more than four bytes per lane
/// are made by groups of lanes that together need one word of each bank at best. `banks` is a power of two up
/// to 32.
#[inline(always)]
pub fn conflict_degree(addresses: &[u64; WARP_LANES], lanes: LaneMask, bytes: u32, banks: u32) -> u32 {
    if lanes == 0 {
        return 0;
    }
    debug_assert!(banks.is_power_of_two() && banks <= 32);
    let words_per_lane = bytes.div_ceil(4).max(1);
    let shift = banks.trailing_zeros();
    let mut first = [0u32; WARP_LANES];
    for lane in 0..WARP_LANES {
        first[lane] = (addresses[lane] / 4) as u32;
    }
    if words_per_lane == 1 {
        // Words that lie closer together than there are banks lie in different banks.
        let any = first[lanes.trailing_zeros() as usize];
        let (mut least, mut most) = (any, any);
        for lane in 0..WARP_LANES {
            let word = if lanes >> lane & 1 == 1 { first[lane] } else { any };
            (least, most) = (least.min(word), most.max(word));
        }
        return if most - least < banks { 1 } else { turns(&first, lanes, shift) };
    }
    turns_by_groups(addresses, lanes, bytes, banks, 1)
}

/// [`in_pairs`] of all 32 lanes.
#[inline(always)]
fn all_in_pairs(at: &[u32; WARP_LANES]) -> bool {
    let (mut next, mut second) = (0, 0);
    for [a, b, c, d] in at.as_chunks::<4>().0 {
        next |= (a ^ b) | (c ^ d);
        second |= (a ^ c) | (b ^ d);
    }
    next == 0 || second == 0
}

/// Active lanes `n` and `n ^ 1`, or `n` and `n ^ 2`, have the same address.
#[inline(never)]
fn in_pairs(addresses: &[u64; WARP_LANES], lanes: LaneMask) -> bool {
    [1, 2].into_iter().any(|distance| {
        (0..WARP_LANES).filter(|lane| lane & distance == 0).all(|lane| {
            let both = 1 << lane | 1 << (lane | distance);
            lanes & both != both || addresses[lane] == addresses[lane | distance]
        })
    })
}

/// Turns of an access of more than one word a lane, by groups of as many lanes as need one word of each bank at best, and
/// `merged` times as many.
#[inline(never)]
fn turns_by_groups(
    addresses: &[u64; WARP_LANES],
    lanes: LaneMask,
    bytes: u32,
    banks: u32,
    merged: u32,
) -> u32 {
    let words_per_lane = bytes.div_ceil(4).clamp(1, 32);
    let shift = banks.trailing_zeros();
    let each = 32 / words_per_lane;
    let group = (each * merged).min(32);
    let mut total = 0;
    for start in (0..WARP_LANES).step_by(group as usize) {
        let members = lanes & (u32::MAX >> (32 - group)) << start;
        if members == 0 {
            continue;
        }
        // The words of the group's lanes, as if each lane asked for one; what a lane asks for that one before it has asked
        // for is left out.
        let mut words = [0u32; WARP_LANES];
        let (mut asked, mut next) = (0u32, 0);
        for lane in (start..start + group as usize).filter(|lane| members >> lane & 1 == 1) {
            let known = |distance: usize| {
                lane & distance != 0
                    && members >> (lane ^ distance) & 1 == 1
                    && addresses[lane ^ distance] == addresses[lane]
            };
            if merged > 1 && (known(1) || known(2)) {
                continue;
            }
            for word in 0..words_per_lane {
                words[next & (WARP_LANES - 1)] = (addresses[lane] / 4) as u32 + word;
                asked |= 1 << (next & (WARP_LANES - 1));
                next += 1;
            }
        }
        debug_assert!(next <= WARP_LANES);
        total += turns(&words, asked, shift);
    }
    total
}

/// The largest number of distinct words in one of `1 << shift` banks. Each row of the banks adds one to the
/// counters of the banks it needs; the counters are bit-sliced, one plane per bit.
#[inline(always)]
pub fn turns(words: &[u32; WARP_LANES], lanes: LaneMask, shift: u32) -> u32 {
    let mut left = lanes;
    let mut planes = [0u32; 6];
    while left != 0 {
        let row = words[left.trailing_zeros() as usize] >> shift;
        let (mut same, mut asked) = (0u32, 0u32);
        for lane in 0..WARP_LANES {
            let here = u32::from(words[lane] >> shift == row);
            same |= here << lane;
        }
        same &= left;
        for lane in 0..WARP_LANES {
            asked |= (same >> lane & 1) << (words[lane] & ((1 << shift) - 1));
        }
        left &= !same;
        if left == 0 && planes == [0; 6] {
            return 1;
        }
        let mut carry = asked;
        for plane in &mut planes {
            (*plane, carry) = (*plane ^ carry, *plane & carry);
        }
    }
    // The greatest count: from the highest plane down, keep the banks that can have it.
    let (mut banks, mut most) = (u32::MAX, 0);
    for (i, plane) in planes.iter().enumerate().rev() {
        if banks & plane != 0 {
            banks &= plane;
            most |= 1 << i;
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn env_banks_env_lock_env_unlock_all_or_none() {
        let mut locks = BankLocks::new(32);
        assert_eq!(locks.banks(4, 8).collect::<Vec<_>>(), vec![1, 2]);
        assert_eq!(locks.banks(126, 4).collect::<Vec<_>>(), vec![31, 0], "an access over the last bank");
        assert_eq!(locks.lock(4, 8, 100, 10), 100);
        // Bank 0 is free, but not taken before bank 1 is.
        assert_eq!(locks.lock(0, 8, 103, 10), 110);
        assert_eq!(locks.lock(0, 4, 104, 10), 120, "bank 0 was locked with bank 1");
        assert_eq!(locks.lock(8, 4, 105, 10), 110, "bank 2 only by the first");
        assert_eq!(locks.lock(4 + 128, 4, 106, 10), 120, "the same bank, another word");
        assert_eq!(locks.lock(12, 4, 106, 10), 106, "a bank of nobody's");
        assert_eq!(locks.lock(4, 4, 500, 10), 500, "unlocked long ago");
    }

    #[test]
    fn env_readshared_env_writeshared_bytes() {
        let mut shared = SharedMemory::new(8);
        shared.bytes_mut()[3] = 7;
        assert_eq!(shared.bytes(), [0, 0, 0, 7, 0, 0, 0, 0]);
    }

    /// The literal definition, word by word, for groups of `merged` times as many lanes as need one word of each bank at best.
    fn literal(addresses: &[u64; 32], lanes: LaneMask, bytes: u32, banks: u64, merged: u32) -> u32 {
        let per_lane = bytes.div_ceil(4).max(1);
        let group = (32 / per_lane * merged).clamp(1, 32) as usize;
        let mut turns = 0;
        for start in (0..32).step_by(group) {
            let words: std::collections::BTreeSet<u64> = (start..start + group)
                .filter(|&l| lanes >> l & 1 == 1)
                .flat_map(|l| (0..u64::from(per_lane)).map(move |w| addresses[l] / 4 + w))
                .collect();
            let of = |bank| words.iter().filter(|&&word| word % banks == bank).count() as u32;
            turns += (0..banks).map(of).max().unwrap_or(0);
        }
        turns
    }

    proptest::proptest! {
        #[test]
        fn conflicts_equal_the_definition(
            words in proptest::collection::vec(0u64..200, 32),
            lanes: u32,
            size in 0usize..5,
            sixteen: bool,
        ) {
            let bytes = [1, 2, 4, 8, 16][size];
            let banks = if sixteen { 16 } else { 32 };
            let at = std::array::from_fn(|l| words[l] * bytes);
            let got = conflict_degree(&at, lanes, bytes as u32, banks);
            proptest::prop_assert_eq!(got, literal(&at, lanes, bytes as u32, banks.into(), 1));
        }

        /// Addresses drawn so that one of two lanes at a distance often has the address of the other.
        #[test]
        fn wide_loads_of_equal_pairs_take_half_the_turns(
            words in proptest::collection::vec(0u64..40, 32),
            lanes: u32,
            strays in proptest::collection::vec(0usize..32, 0..2),
            distance in 0usize..4,
            wide: bool,
        ) {
            let bytes = if wide { 16 } else { 8 };
            let mut at: [u64; 32] = std::array::from_fn(|lane| words[lane & !distance] * u64::from(bytes));
            strays.iter().for_each(|&lane| at[lane] += u64::from(bytes));
            let equal = |distance: usize| {
                let active = |lane: usize| lanes >> lane & 1 == 1;
                (0..32).all(|lane| {
                    !active(lane) || !active(lane ^ distance) || at[lane] == at[lane ^ distance]
                })
            };
            let merged = if equal(1) || equal(2) { 2 } else { 1 };
            let rule = BankRule::WordsOfPairs;
            proptest::prop_assert_eq!(rule.turns_of_load(&at, lanes, bytes), literal(&at, lanes, bytes, 32, merged));
            proptest::prop_assert_eq!(rule.turns(&at, lanes, bytes), literal(&at, lanes, bytes, 32, 1));
            let before = BankRule::Words.turns_of_load(&at, lanes, bytes);
            proptest::prop_assert_eq!(before, literal(&at, lanes, bytes, 32, 1));
            // Inactive lanes stand at the first active one's address; lanes of a quarter-warp often lie near each other.
            let near = |lane: usize| 512 * words[lane / 8 * 8] + at[lane] % 128;
            for (lanes, near_by) in [(LaneMask::MAX, false), (LaneMask::MAX, true), (lanes | 1, true)] {
                let of = |lane: usize| if near_by { near(lane) } else { at[lane] };
                let first = of(lanes.trailing_zeros() as usize);
                let at: [u64; 32] = std::array::from_fn(|l| if lanes >> l & 1 == 1 { of(l) } else { first });
                for (rule, load) in [(rule, true), (rule, false), (BankRule::Words, true)] {
                    let turns = if load { rule.turns_of_load(&at, lanes, bytes) } else { rule.turns(&at, lanes, bytes) };
                    proptest::prop_assert_eq!(rule.turns_of_words(&at.map(|at| at as u32), lanes, bytes, load), turns);
                }
            }
        }
    }

    #[test]
    fn conflicts_by_stride() {
        let at = |stride: u64| std::array::from_fn(|l| l as u64 * stride * 4);
        for (stride, degree) in [(0, 1), (1, 1), (2, 2), (4, 4), (16, 16), (32, 32), (33, 1), (3, 1)] {
            assert_eq!(conflict_degree(&at(stride), u32::MAX, 4, 32), degree, "stride {stride}");
        }
        // Doubles in a row: two half-warps, one turn each.
        let doubles = std::array::from_fn(|l| l as u64 * 8);
        assert_eq!(conflict_degree(&doubles, u32::MAX, 8, 32), 2);
        // Sixteen banks (compute capability 1.x) with a stride of two words.
        assert_eq!(conflict_degree(&at(2), 0xffff, 4, 16), 2);
    }

    /// Checks cases: the address of each lane as a function, the active mask, and the number of turns counted
    /// by hand from the rules of the guide.
    fn cases(rule: BankRule, cases: &[(&str, u32, fn(u64) -> u64, LaneMask, u32)]) {
        for (what, bytes, address, lanes, turns) in cases {
            let at = std::array::from_fn(|lane| address(lane as u64));
            assert_eq!(rule.turns(&at, *lanes, *bytes), *turns, "{rule:?}: {what}");
        }
    }

    #[test]
    fn turns_of_loads_of_equal_pairs() {
        let at = |address: fn(u64) -> u64| std::array::from_fn(|lane| address(lane as u64));
        let turns = |address, lanes, bytes| BankRule::WordsOfPairs.turns_of_load(&at(address), lanes, bytes);
        let all = LaneMask::MAX;
        assert_eq!(turns(|l| 16 * l, all, 16), 4, "all different: quarter-warps");
        assert_eq!(turns(|_| 64, all, 16), 2, "one address for all: half-warps, not one turn");
        assert_eq!(turns(|l| 16 * (l / 2), all, 16), 2, "n and n ^ 1");
        assert_eq!(turns(|l| 16 * (l / 4 * 2 + l % 2), all, 16), 2, "n and n ^ 2");
        assert_eq!(turns(|l| 16 * (l & !2), all, 16), 4, "the same, two lanes of a half-warp in each bank");
        assert_eq!(turns(|l| 16 * (l / 8 * 4 + l % 4), all, 16), 4, "n and n ^ 4 are no pairs");
        let apart = |l: u64| 16 * (l / 2 + 4 * (l % 2));
        assert_eq!(turns(apart, 0x5555_5555, 16), 2, "inactive lanes do not count");
        assert_eq!(turns(apart, all, 16), 4, "active ones do");
        assert_eq!(turns(|l| 8 * (l / 2), all, 8), 1, "doubles of pairs: one turn");
        assert_eq!(turns(|l| 8 * l, all, 8), 2, "doubles: half-warps");
        assert_eq!(turns(|l| 4 * l, all, 4), 1, "words are not wide");
    }

    #[test]
    fn turns_of_sixteen_banks_by_half_warps() {
        let all = LaneMask::MAX;
        cases(
            BankRule::HalfWarps,
            &[
                ("a word a lane: one turn a half-warp", 4, |l| 4 * l, all, 2),
                ("one half-warp only", 4, |l| 4 * l, 0xffff, 1),
                ("one word for all: broadcast", 4, |_| 0, all, 2),
                ("stride 2: two lanes a bank", 4, |l| 8 * l, all, 4),
                ("stride 3: no bank twice", 4, |l| 12 * l, all, 2),
                ("stride 16: all in one bank", 4, |l| 64 * l, all, 32),
                ("stride 17: no bank twice", 4, |l| 68 * l, all, 2),
                (
                    "two words by halves of a half-warp: one broadcast a turn",
                    4,
                    |l| 4 * (l / 8 % 2),
                    0xffff,
                    2,
                ),
                (
                    "the first lane's word is broadcast, of another one lane is served: two turns",
                    4,
                    |l| 4 * l.min(1),
                    0xf,
                    2,
                ),
                ("the same with the first word asked for by many: one turn", 4, |l| 4 * (l / 3), 0xf, 1),
                ("two words of one bank: a turn each", 4, |l| 64 * (l % 2), 0xffff, 2),
                ("bytes of four lanes a word: no multicast but the first word's", 1, |l| l, 0xffff, 4),
                ("double: each word of a lane by itself, stride 2", 8, |l| 8 * l, 0xffff, 4),
                ("no lane", 4, |l| l, 0, 0),
            ],
        );
    }

    #[test]
    fn turns_of_wide_banks() {
        let all = LaneMask::MAX;
        cases(
            BankRule::FourByteMode,
            &[
                ("a word a lane", 4, |l| 4 * l, all, 1),
                ("stride 2: i and i + 32 of 64 share a place", 4, |l| 8 * l, all, 1),
                ("stride 4: two segments of 64 words", 4, |l| 16 * l, all, 2),
                ("stride 32: a pair shares a place", 4, |l| 128 * l, all, 16),
                ("stride 33", 4, |l| 132 * l, all, 1),
                ("one word for all", 4, |_| 64, all, 1),
                (
                    "words 32 apart across segments: 16 and 48 share, 48 and 80 do not",
                    4,
                    |l| 4 * (48 + 32 * (l % 2)),
                    all,
                    2,
                ),
                ("double a lane: 64 words of one segment", 8, |l| 8 * l, all, 1),
                ("sixteen bytes a lane, by half-warps", 16, |l| 16 * l, all, 2),
                ("sixteen bytes, the same for all: a turn for each half-warp", 16, |_| 0, all, 2),
                ("stride 64: a turn a lane", 4, |l| 256 * l, all, 32),
            ],
        );
        cases(
            BankRule::EightByteMode,
            &[
                ("a word a lane: pairs share", 4, |l| 4 * l, all, 1),
                ("double a lane", 8, |l| 8 * l, all, 1),
                ("stride 2", 4, |l| 8 * l, all, 1),
                ("stride 4: two lanes a bank", 4, |l| 16 * l, all, 2),
                ("doubles at stride 2", 8, |l| 16 * l, all, 2),
                ("stride 32 words: every second lane's bank", 4, |l| 128 * l, all, 16),
                ("stride 33 words: banks 0, 16, 1, 17 …, lanes 31 apart meet none", 4, |l| 132 * l, all, 1),
                ("stride 64 words: one bank", 4, |l| 256 * l, all, 32),
                ("one word for all", 4, |_| 4, all, 1),
                ("sixteen bytes a lane, by half-warps", 16, |l| 16 * l, all, 1 + 1),
            ],
        );
    }
}
