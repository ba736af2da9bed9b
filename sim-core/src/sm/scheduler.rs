//! The warp schedulers: which of the ready splits issues. Sets of splits are bit sets over the
//! scheduler's own splits, in the order of warp slots.

pub use sim_frontend::chip::MAX_SCHEDULERS;
use sim_frontend::diagnostic::Diagnostic;

/// Scheduling policies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum WarpScheduler {
    /// Greedy then oldest: the last one that issued, else the oldest.
    Gto,
    /// Loose round-robin: the first ready split after the last one that issued.
    Lrr,
    /// Two-level: round-robin over a small active set; a split that waits for memory leaves it
    /// to a pending one that is ready.
    TwoLevel {
        /// Splits in the active set.
        active: u32,
    },
}

/// Names and one line each, for listings.
pub const SCHEDULERS: &[(&str, &str)] = &[
    ("lrr", "loose round-robin"),
    ("gto", "greedy then oldest"),
    (
        "two_level",
        "round-robin over an active set of 8 warps (two_level:N: of N); warps stalled on memory, a barrier or a collective leave it",
    ),
];

/// Active set of `two_level` where no size is given (Narasiman, MICRO 2011, uses 8 warps).
const TWO_LEVEL_ACTIVE: u32 = 8;

impl WarpScheduler {
    /// Parses `lrr`, `gto`, `two_level`, `two_level:N`.
    ///
    /// # Errors
    /// A diagnostic that lists the names.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        let (name, size) = text.split_once(':').map_or((text, None), |(n, s)| (n, Some(s)));
        match (name, size) {
            ("lrr", None) => Ok(Self::Lrr),
            ("gto", None) => Ok(Self::Gto),
            ("two_level", None) => Ok(Self::TwoLevel { active: TWO_LEVEL_ACTIVE }),
            ("two_level", Some(size)) => match size.parse::<u32>() {
                Ok(active @ 1..=1024) => Ok(Self::TwoLevel { active }),
                _ => Err(Diagnostic::error(
                    "scheduler",
                    format!(
                        "the active set of two_level must be a number of warps from 1 to 1024, not `{size}`"
                    ),
                )),
            },
            _ => {
                let names: Vec<&str> = SCHEDULERS.iter().map(|(name, _)| *name).collect();
                Err(Diagnostic::error(
                    "scheduler",
                    format!("there is no warp scheduler `{text}`; available: {}", names.join(", ")),
                ))
            }
        }
    }
}

/// The choice one scheduler makes, cycle by cycle.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Picker {
    kind: WarpScheduler,
    last: u32,
    /// Active set of `two_level`.
    active: Vec<u64>,
}

impl Picker {
    /// A picker over `words` words of splits.
    pub fn new(kind: WarpScheduler, words: usize) -> Self {
        Self { kind, last: u32::MAX, active: vec![0; words] }
    }

    /// Forgets what it picked.
    pub fn reset(&mut self) {
        let Self { kind: _, last, active } = self;
        *last = u32::MAX;
        active.fill(0);
    }

    /// Picks from the first word of places, where no other has candidates.
    #[inline(always)]
    pub fn pick_of_first(&mut self, candidates: u64, older: &Older) -> Option<u32> {
        if candidates == 0 {
            return None;
        }
        let chosen = match self.kind {
            WarpScheduler::Gto => {
                if self.last < 64 && candidates >> self.last & 1 == 1 {
                    self.last
                } else {
                    older.oldest(candidates)
                }
            }
            WarpScheduler::Lrr => next_after(&[candidates], self.last)?,
            WarpScheduler::TwoLevel { active } => {
                self.refill(&[candidates], active);
                first_of_both(&[candidates], &self.active[..1], self.last)?
            }
        };
        self.last = chosen;
        Some(chosen)
    }

    /// Picks from `candidates`, by word of places.
    #[inline(never)]
    pub fn pick(&mut self, candidates: &[u64], older: &Older) -> Option<u32> {
        let chosen = match self.kind {
            WarpScheduler::Lrr => next_after(candidates, self.last),
            WarpScheduler::Gto => {
                if contains(candidates, self.last) {
                    Some(self.last)
                } else {
                    older.oldest_of_all(candidates)
                }
            }
            WarpScheduler::TwoLevel { active } => {
                self.refill(candidates, active);
                let last = self.last;
                first_of_both(candidates, &self.active, last)
            }
        }?;
        self.last = chosen;
        Some(chosen)
    }

    /// Leaves in `candidates` those that [`pick`](Self::pick) may pick, for a policy that chooses
    /// among them first.
    pub fn narrow(&mut self, candidates: &mut [u64]) {
        if let WarpScheduler::TwoLevel { active } = self.kind {
            self.refill(candidates, active);
            candidates.iter_mut().zip(&self.active).for_each(|(candidates, active)| *candidates &= active);
        }
    }

    /// True if it picks the same split as long as that can issue.
    pub fn stays(&self) -> bool {
        self.kind == WarpScheduler::Gto
    }

    /// The last split picked; `u32::MAX` where there was none.
    pub fn last(&self) -> u32 {
        self.last
    }

    /// A split began a long wait (memory, barrier) or ended: it leaves the active set.
    #[inline]
    pub fn long_wait(&mut self, split: u32) {
        if let WarpScheduler::TwoLevel { .. } = self.kind
            && let Some(word) = self.active.get_mut(split as usize / 64)
        {
            *word &= !(1 << (split % 64));
        }
    }

    fn refill(&mut self, candidates: &[u64], size: u32) {
        let mut have: u32 = self.active.iter().map(|word| word.count_ones()).sum();
        while have < size {
            let mut pending = candidates.iter().zip(&self.active).enumerate();
            let Some((word, bits)) = pending.find_map(|(i, (c, a))| (c & !a != 0).then_some((i, c & !a)))
            else {
                return;
            };
            self.active[word] |= bits & bits.wrapping_neg();
            have += 1;
        }
    }
}

#[inline]
fn contains(set: &[u64], split: u32) -> bool {
    set.get(split as usize / 64).is_some_and(|word| word >> (split % 64) & 1 == 1)
}

/// The first member after `last`, around the end.
#[inline(always)]
fn next_after(set: &[u64], last: u32) -> Option<u32> {
    let start = last.wrapping_add(1);
    if let [bits] = set {
        let above = if start < 64 { bits & (u64::MAX << start) } else { 0 };
        let first = if above != 0 { above } else { *bits };
        return (first != 0).then(|| first.trailing_zeros());
    }
    let (word, bit) = (start as usize / 64, start % 64);
    if let Some(bits) = set.get(word) {
        let above = bits & (u64::MAX << bit);
        if above != 0 {
            return Some(word as u32 * 64 + above.trailing_zeros());
        }
    }
    let order = (word + 1..set.len()).chain(0..=word.min(set.len().saturating_sub(1)));
    order
        .filter_map(|i| set.get(i).filter(|bits| **bits != 0).map(|bits| (i, *bits)))
        .map(|(i, bits)| i as u32 * 64 + bits.trailing_zeros())
        .next()
}

fn first_of_both(a: &[u64], b: &[u64], last: u32) -> Option<u32> {
    if a.len() == 1 {
        return next_after(&[a[0] & b[0]], last);
    }
    let both: Vec<u64> = a.iter().zip(b).map(|(a, b)| a & b).collect();
    next_after(&both, last)
}

/// The order in which the warps of a scheduler were admitted. The low bits of a place name its warp.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Older {
    /// By place of the first word: the places of that word that come before it, those of older warps and
    /// the warp's own lower ones.
    before: [u64; 64],
    /// When each warp was admitted.
    ages: Vec<u64>,
}

impl Older {
    /// For `1 << shift` warps, 64 at most.
    pub fn new(shift: u32) -> Self {
        Self { before: [0; 64], ages: vec![0; 1 << shift] }
    }

    /// Forgets the order.
    pub fn reset(&mut self) {
        let Self { before, ages } = self;
        before.fill(0);
        ages.fill(0);
    }

    /// The warp of `place` has been admitted at `age`, after all others that are there.
    pub fn admit(&mut self, place: u32, age: u64) {
        let warps = self.ages.len();
        let warp = place as usize & (warps - 1);
        self.ages[warp] = age;
        let own = (warp..64).step_by(warps).fold(0, |own, place| own | 1u64 << place);
        self.before.iter_mut().for_each(|before| *before &= !own);
        for place in (warp..64).step_by(warps) {
            self.before[place] = !own | own & ((1 << place) - 1);
        }
    }

    /// The one of `set`, which is not empty, before which none comes.
    #[inline(always)]
    fn oldest(&self, set: u64) -> u32 {
        let mut left = set;
        loop {
            let place = left.trailing_zeros();
            left &= self.before[place as usize % 64];
            if left == 0 {
                return place;
            }
        }
    }

    fn oldest_of_all(&self, set: &[u64]) -> Option<u32> {
        let mut best: Option<(u64, u32)> = None;
        for (i, &word) in set.iter().enumerate() {
            let mut bits = word;
            while bits != 0 {
                let split = i as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let age = self.ages[split as usize & (self.ages.len() - 1)];
                if best.is_none_or(|(least, _)| age < least) {
                    best = Some((age, split));
                }
            }
        }
        best.map(|(_, split)| split)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sched_warps_lrr_goes_round_over_words() {
        let mut picker = Picker::new(WarpScheduler::Lrr, 2);
        let (set, older) = ([1 << 3 | 1 << 63, 1 << 1], Older::new(6));
        let order: Vec<u32> = (0..5).filter_map(|_| picker.pick(&set, &older)).collect();
        assert_eq!(order, vec![3, 63, 65, 3, 63]);
    }

    /// Both ways to pick, which agree.
    fn pick(picker: &mut Picker, set: u64, older: &Older) -> Option<u32> {
        let of_all = picker.clone().pick(&[set], older);
        assert_eq!(picker.pick_of_first(set, older), of_all);
        of_all
    }

    #[test]
    fn sched_warps_gto_stays_then_takes_the_oldest() {
        let mut older = Older::new(2);
        [(3, 1), (1, 4), (2, 7), (0, 9)].into_iter().for_each(|(place, age)| older.admit(place, age));
        let mut picker = Picker::new(WarpScheduler::Gto, 1);
        assert_eq!(pick(&mut picker, 0b0111, &older), Some(1));
        assert_eq!(pick(&mut picker, 0b1111, &older), Some(1));
        assert_eq!(pick(&mut picker, 0b1101, &older), Some(3));
        assert_eq!(pick(&mut picker, 0b0101, &older), Some(2));
        assert_eq!(pick(&mut picker, 0, &older), None);
    }

    #[test]
    fn sched_warps_two_level_keeps_to_its_active_set() {
        let (mut picker, older) = (Picker::new(WarpScheduler::TwoLevel { active: 2 }, 1), Older::new(6));
        let picks: Vec<u32> = (0..4).filter_map(|_| pick(&mut picker, 0b1111, &older)).collect();
        assert_eq!(picks, vec![0, 1, 0, 1]);
        picker.long_wait(0);
        let picks: Vec<u32> = (0..3).filter_map(|_| pick(&mut picker, 0b1110, &older)).collect();
        assert_eq!(picks, vec![2, 1, 2]);
    }

    proptest::proptest! {
        /// The masks against the ages, for warps that come and go and sets of their places.
        #[test]
        fn sched_warps_gto_takes_the_oldest_by_age(
            shift in 0u32..=6,
            steps in proptest::collection::vec((0u32..64, proptest::prelude::any::<u64>()), 1..200),
        ) {
            let mut older = Older::new(shift);
            for (age, (warp, set)) in steps.into_iter().enumerate() {
                older.admit(warp & ((1 << shift) - 1), 1 + age as u64);
                // Only warps that have been admitted have splits.
                let known = |place: u32| older.ages[place as usize & ((1 << shift) - 1)] != 0;
                let set = (0..64).filter(|place| set >> place & 1 == 1 && known(*place));
                let set = set.fold(0, |set, place| set | 1u64 << place);
                let expected = older.oldest_of_all(&[set]);
                proptest::prop_assert_eq!((set != 0).then(|| older.oldest(set)), expected);
            }
        }
    }
}
