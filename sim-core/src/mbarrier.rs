//! mbarrier objects (PTX ISA "Parallel Synchronization and Communication Instructions: mbarrier"):
//! eight bytes of shared memory that count arrivals and bytes of a phase. What the bytes look like is
//! for the implementation to choose: pending arrivals in bits 0 to 19, expected ones in bits 20 to
//! 39, the tx-count (two's complement) in bits 40 to 61, bit 62 of every object that is initialised,
//! the parity of the phase in bit 63.

use sim_frontend::form::{MbarrierOptions, MbarrierStep};

/// Most arrivals of a phase, and most bytes either way (PTX ISA "Contents of the mbarrier object").
pub const MOST: u32 = (1 << 20) - 1;

const INITIALISED: u64 = 1 << 62;
const PARITY: u64 = 1 << 63;

/// An mbarrier object, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Phase {
    pending: u32,
    expected: u32,
    tx: i32,
    odd: bool,
}

impl Phase {
    fn read(word: u64) -> Result<Self, String> {
        if word & INITIALISED == 0 {
            return Err("there is no initialized mbarrier object at this address".into());
        }
        Ok(Self {
            pending: word as u32 & MOST,
            expected: (word >> 20) as u32 & MOST,
            // The sign of 22 bits.
            tx: ((word >> 40) as i32) << 10 >> 10,
            odd: word & PARITY != 0,
        })
    }

    fn word(self) -> u64 {
        let tx = u64::from(self.tx as u32 & 0x3f_ffff);
        let parity = if self.odd { PARITY } else { 0 };
        u64::from(self.pending) | u64::from(self.expected) << 20 | tx << 40 | INITIALISED | parity
    }

    /// The next phase begins once no arrival and no transaction is pending.
    fn complete(&mut self) {
        if self.pending == 0 && self.tx == 0 {
            self.odd = !self.odd;
            self.pending = self.expected;
        }
    }

    fn expect(&mut self, bytes: i64) -> Result<(), String> {
        let tx = i64::from(self.tx) + bytes;
        if tx.unsigned_abs() > u64::from(MOST) {
            return Err(format!("tx-count {tx} is out of range: the limit is +/-{MOST}"));
        }
        self.tx = tx as i32;
        Ok(())
    }

    fn arrive(&mut self, count: u32, drop: bool) -> Result<(), String> {
        if count == 0 || count > self.pending {
            return Err(format!(
                "arrive count {count} is not between 1 and the pending count {} of the current phase",
                self.pending
            ));
        }
        self.pending -= count;
        if drop {
            self.expected -= count;
        }
        Ok(())
    }
}

/// True if a word is an initialised object.
pub fn is_object(word: u64) -> bool {
    word & INITIALISED != 0
}

/// The parity of its phase.
pub fn is_odd(word: u64) -> bool {
    word & PARITY != 0
}

/// True if the bytes of an object change from the first to the second word, and a phase ends by that.
pub fn phase_is_over(before: u64, after: u64) -> bool {
    is_object(before) && is_object(after) && is_odd(before) != is_odd(after)
}

/// Performs `step` with its operand on the object whose bytes are `word`: the new bytes, and the
/// result (a state, whether a phase is complete, a count).
///
/// # Errors
/// What the manual leaves undefined: an object that is not initialised, counts beyond the phase's.
pub fn perform(
    step: MbarrierStep,
    options: MbarrierOptions,
    word: u64,
    operand: u64,
) -> Result<(u64, u64), String> {
    use MbarrierStep as M;
    if step == M::Init {
        let count = operand as u32;
        if count == 0 || count > MOST {
            return Err(format!(
                "the expected arrival count of an mbarrier object is 1 to {MOST}, not {count}"
            ));
        }
        return Ok((Phase { pending: count, expected: count, tx: 0, odd: false }.word(), 0));
    }
    if step == M::PendingCount {
        return Ok((word, u64::from(Phase::read(operand)?.pending)));
    }
    let mut phase = Phase::read(word)?;
    let mut result = word;
    match step {
        M::Init | M::PendingCount => {}
        M::Inval => return Ok((0, 0)),
        M::Arrive | M::ArriveDrop => {
            let count = if options.expect_tx {
                phase.expect(i64::from(operand as u32))?;
                1
            } else {
                operand as u32
            };
            phase.arrive(count, step == M::ArriveDrop)?;
            if options.no_complete && phase.pending == 0 {
                return Err("an arrival with .noComplete would complete the phase".into());
            }
        }
        M::ExpectTx => phase.expect(i64::from(operand as u32))?,
        M::CompleteTx => phase.expect(-i64::from(operand as u32))?,
        M::TestWait | M::TryWait => {
            let asked = if options.parity {
                // The manual has 0 and 1. The assembler moves the lowest bit into place and leaves the others out, and
                // compilers rely on it: Triton extends a truth value by its sign.
                operand & 1 == 1
            } else {
                Phase::read(operand)
                    .map_err(|_| "the state operand is not an mbarrier state".to_string())?
                    .odd
            };
            result = u64::from(asked != phase.odd);
        }
    }
    if matches!(step, M::Arrive | M::ArriveDrop | M::CompleteTx) {
        phase.complete();
    }
    Ok((phase.word(), result))
}

/// The arrival that a `cp.async.mbarrier.arrive` without `.noinc` adds to those pending.
///
/// # Errors
/// As [`perform`].
pub fn await_one_more(word: u64) -> Result<u64, String> {
    let mut phase = Phase::read(word)?;
    if phase.pending == MOST {
        return Err(format!("the pending count would exceed {MOST}"));
    }
    phase.pending += 1;
    Ok(phase.word())
}

#[cfg(test)]
mod tests {
    use super::*;
    use MbarrierStep as M;

    const PLAIN: MbarrierOptions = MbarrierOptions { expect_tx: false, no_complete: false, parity: false };

    fn init(count: u64) -> u64 {
        perform(M::Init, PLAIN, 0xdead, count).expect("a count").0
    }

    fn arrive(word: u64, count: u64) -> (u64, u64) {
        perform(M::Arrive, PLAIN, word, count).expect("arrivals are pending")
    }

    fn complete(word: u64, state: u64) -> bool {
        perform(M::TestWait, PLAIN, word, state).expect("a state").1 == 1
    }

    fn parity(word: u64, odd: u64) -> bool {
        let options = MbarrierOptions { parity: true, ..PLAIN };
        perform(M::TryWait, options, word, odd).expect("a parity").1 == 1
    }

    #[test]
    fn a_phase_completes_with_its_last_arrival_and_the_next_one_begins() {
        let word = init(3);
        assert!(parity(word, 1) && !parity(word, 0), "the phase before the first one is complete");
        let (word, first) = arrive(word, 1);
        let (word, second) = arrive(word, 1);
        assert!(!complete(word, first) && !complete(word, second));
        assert_eq!(perform(M::PendingCount, PLAIN, 0, second).expect("a state").1, 2);
        let (word, third) = arrive(word, 1);
        assert!(complete(word, first) && complete(word, third));
        assert!(parity(word, 0) && !parity(word, 1));
        // The next phase expects as many.
        let (word, fourth) = arrive(word, 2);
        assert!(!complete(word, fourth));
        let (word, _) = arrive(word, 1);
        assert!(complete(word, fourth));
    }

    #[test]
    fn bytes_are_awaited_beside_arrivals_and_may_come_first() {
        let expect = MbarrierOptions { expect_tx: true, ..PLAIN };
        let (word, state) = perform(M::Arrive, expect, init(1), 512).expect("arrives");
        assert!(!complete(word, state));
        let (word, _) = perform(M::CompleteTx, PLAIN, word, 500).expect("bytes");
        assert!(!complete(word, state));
        let (word, _) = perform(M::CompleteTx, PLAIN, word, 12).expect("bytes");
        assert!(complete(word, state));
        // In the next phase the bytes arrive before anyone expects them.
        let (word, _) = perform(M::CompleteTx, PLAIN, word, 64).expect("bytes");
        let (word, state) = perform(M::Arrive, expect, word, 64).expect("arrives");
        assert!(complete(word, state));
        let (_, next) = perform(M::ExpectTx, PLAIN, word, 8).expect("bytes");
        assert_eq!(next, word);
    }

    #[test]
    fn who_drops_out_is_not_awaited_again() {
        let (word, state) = perform(M::ArriveDrop, PLAIN, init(2), 1).expect("arrives");
        let (word, _) = arrive(word, 1);
        assert!(complete(word, state));
        let (word, state) = arrive(word, 1);
        assert!(complete(word, state), "one arrival is expected now");
    }

    #[test]
    fn what_the_manual_leaves_undefined_is_refused() {
        let refused = |step, options, word, operand| perform(step, options, word, operand).is_err();
        assert!(refused(M::Arrive, PLAIN, 0, 1));
        assert!(refused(M::Arrive, PLAIN, init(2), 3));
        assert!(refused(M::Arrive, MbarrierOptions { no_complete: true, ..PLAIN }, init(2), 2));
        assert!(refused(M::Init, PLAIN, 0, 0));
        assert!(refused(M::Init, PLAIN, 0, 1 << 20));
        assert!(refused(M::TestWait, PLAIN, init(1), 7));
        assert!(refused(M::ExpectTx, PLAIN, init(1), 1 << 20));
        let gone = perform(M::Inval, PLAIN, init(1), 0).expect("an object").0;
        assert!(refused(M::TestWait, PLAIN, gone, init(1)));
        assert!(await_one_more(gone).is_err());
    }

    #[test]
    fn of_a_parity_the_lowest_bit_counts() {
        let waits = |operand: u64| {
            let done = perform(M::TestWait, MbarrierOptions { parity: true, ..PLAIN }, init(1), operand);
            done.map(|(_, done)| done)
        };
        // The first phase is even and not over; the one before it is odd.
        for (operand, done) in [(0, 0), (1, 1), (2, 0), (u64::from(u32::MAX), 1), (u64::MAX, 1)] {
            assert_eq!(waits(operand), Ok(done), "{operand:#x}");
        }
    }

    proptest::proptest! {
        /// Against a counter that keeps its fields apart.
        #[test]
        fn the_packed_object_is_the_one_of_the_manual(
            count in 1u32..6,
            steps in proptest::collection::vec((0u8..3, 1u32..100), 1..60),
        ) {
            let (mut word, mut pending, mut tx, mut phases) = (init(count.into()), count, 0i64, 0u32);
            for (kind, bytes) in steps {
                let step = [M::Arrive, M::ExpectTx, M::CompleteTx][usize::from(kind)];
                let operand = if kind == 0 { 1 } else { u64::from(bytes) };
                match kind {
                    0 if pending == 0 => {
                        // All have arrived and bytes are awaited: one more arrival is too many.
                        proptest::prop_assert!(perform(step, PLAIN, word, operand).is_err());
                        continue;
                    }
                    0 => pending -= 1,
                    1 => tx += i64::from(bytes),
                    _ => tx -= i64::from(bytes),
                }
                word = perform(step, PLAIN, word, operand).expect("within the counts").0;
                if kind != 1 && pending == 0 && tx == 0 {
                    (pending, phases) = (count, phases + 1);
                }
                proptest::prop_assert_eq!(parity(word, 0), phases % 2 == 1);
            }
        }
    }
}
