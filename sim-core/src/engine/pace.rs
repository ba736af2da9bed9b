//! Decides when the leader works without its followers. If other processes occupy the cores, a follower that
//! is descheduled in the middle of an epoch delays all workers until it runs again, in each of its time
//! slices, so that several threads are slower than one. The leader then does all parts by itself for a while.

use std::time::Duration;

/// A wait for a follower that is at least this long, and at least [`TIMES`] times as long as the leader's own
/// part, means that the follower was descheduled. Time slices of an operating system last some milliseconds.
const LATE: Duration = Duration::from_millis(1);
/// The factor by which a late follower's wait exceeds the leader's own part; parts are divided evenly.
const TIMES: u32 = 4;
/// Number of epochs that the leader works alone after the first late one; doubled after each further one.
const FEWEST: u64 = 256;
/// Upper limit of that number, so that an idle host is noticed within seconds.
const MOST: u64 = 65_536;
/// Number of epochs without a late follower after which the host counts as idle again.
const CALM: u64 = 4096;

/// Decides which workers run in a round.
#[derive(Debug)]
pub(super) struct Pace {
    /// The first round in which all workers take part again.
    together: u64,
    /// Number of rounds that the leader works alone after the next late one.
    alone: u64,
    /// Number of joint rounds since the last late one.
    calm: u64,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { together: 0, alone: FEWEST, calm: 0 }
    }

    /// True if all workers take part in this round; false if the leader works alone.
    pub(super) fn is_together(&self, round: u64) -> bool {
        round >= self.together
    }

    /// Records a joint round: the time of the leader's own part, and the time it waited for the others.
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

    /// Number of rounds alone after a late `round`.
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
