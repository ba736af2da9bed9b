//! When the leader works without its followers. Where other processes have the cores, a follower that lost
//! its core in the middle of an epoch holds everybody up until it gets one again, for each of its slices
//! anew: several threads are then slower than one. The leader does all shares itself for a while instead.

use std::time::Duration;

/// Waiting for a follower this long, and [`TIMES`] as long as the leader's own share took, is not the
/// follower's share: it has no core. An operating system's slices are some milliseconds.
const LATE: Duration = Duration::from_millis(1);
/// Shares are dealt evenly.
const TIMES: u32 = 4;
/// Epochs the leader works alone after the first late one; twice as many after each further one.
const FEWEST: u64 = 256;
/// At most, so that a host that has become idle is noticed within seconds.
const MOST: u64 = 65_536;
/// Epochs together without a late one after which the host counts as idle again.
const CALM: u64 = 4096;

/// Who works in an epoch.
#[derive(Debug)]
pub(super) struct Pace {
    /// The first round in which all work together.
    together: u64,
    /// Rounds alone after the next late one.
    alone: u64,
    /// Rounds together since the last late one.
    calm: u64,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { together: 0, alone: FEWEST, calm: 0 }
    }

    /// Whether all work in this round, or the leader alone.
    pub(super) fn is_together(&self, round: u64) -> bool {
        round >= self.together
    }

    /// What a round of all took: the leader its own share, then waiting for the others.
    pub(super) fn waited(&mut self, round: u64, own: Duration, waited: Duration) {
        if waited < LATE || waited < own * TIMES {
            self.calm += 1;
            if self.calm == CALM {
                self.alone = FEWEST;
            }
            return;
        }
        self.together = round + 1 + self.alone;
        self.alone = (self.alone * 2).min(MOST);
        self.calm = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: Duration = Duration::from_micros(20);
    const SLICE: Duration = Duration::from_millis(20);

    /// Rounds alone after a late one in `round`.
    fn alone(pace: &mut Pace, round: u64) -> u64 {
        pace.waited(round, SHARE, SLICE);
        (round + 1..).find(|round| pace.is_together(*round)).map_or(0, |next| next - round - 1)
    }

    #[test]
    fn late_followers_are_left_out_for_longer_each_time() {
        let mut pace = Pace::new();
        assert!(pace.is_together(1));
        let mut round = 1;
        let mut times = Vec::new();
        for _ in 0..10 {
            let rounds = alone(&mut pace, round);
            times.push(rounds);
            round += rounds + 1;
        }
        assert_eq!(times[..3], [256, 512, 1024]);
        assert_eq!(times[8..], [65_536, 65_536]);
        // A host that stays calm starts anew; one that does for a moment only does not.
        for _ in 0..CALM - 1 {
            pace.waited(round, SHARE, SHARE);
        }
        assert_eq!(alone(&mut pace, round), 65_536);
        for _ in 0..CALM {
            pace.waited(round, SHARE, SHARE);
        }
        assert_eq!(alone(&mut pace, round), 256);
    }

    #[test]
    fn long_shares_are_not_late() {
        let mut pace = Pace::new();
        // Uneven shares of a large chip, and short waits.
        pace.waited(1, Duration::from_millis(3), Duration::from_millis(5));
        pace.waited(2, Duration::ZERO, Duration::from_micros(900));
        assert!(pace.is_together(3));
    }
}
