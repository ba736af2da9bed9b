//! The first constant cache of an SM: which loads from constant memory take longer.

use sim_memory::recent_lines::RecentLines;
use sim_memory::spec::ConstantCacheSpec;

/// The first constant cache of an SM.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub(crate) struct ConstantCache {
    lines: RecentLines<()>,
    line_bytes: u64,
    /// Hundredths of a cycle that a line takes that is not here.
    interval: u64,
}

impl ConstantCache {
    /// An empty one.
    pub(crate) fn new(spec: &ConstantCacheSpec) -> Self {
        Self {
            lines: RecentLines::new(spec.sets(), spec.ways),
            line_bytes: spec.line_bytes.max(1).into(),
            interval: spec.miss_interval.times(1),
        }
    }

    /// Empties it.
    pub(super) fn clear(&mut self) {
        self.lines.clear();
    }

    /// A load of the bytes at an address: hundredths of a cycle that it takes longer than from here. They come from the cache behind it,
    /// and stay.
    pub(super) fn load(&mut self, address: u64, bytes: u64) -> u64 {
        let lines = address / self.line_bytes..=(address + bytes - 1) / self.line_bytes;
        let missing = lines.filter(|line| {
            let missing = self.lines.find(*line).is_none();
            if missing {
                self.lines.insert(*line, ());
            }
            missing
        });
        missing.count() as u64 * self.interval
    }
}

#[cfg(test)]
mod tests {
    use sim_memory::hundredths::Hundredths;

    use super::*;

    #[test]
    fn each_line_that_is_not_here_takes_its_time() {
        let miss_interval = Hundredths::try_from(69.5).expect("cycles");
        let mut cache =
            ConstantCache::new(&ConstantCacheSpec { bytes: 256, ways: 2, line_bytes: 64, miss_interval });
        assert_eq!((cache.load(0, 4), cache.load(60, 4)), (6950, 0), "the line is here");
        assert_eq!(cache.load(120, 16), 2 * 6950, "bytes of two lines");
        assert_eq!(
            (cache.load(0, 4), cache.load(256, 4)),
            (0, 6950),
            "line 2 of its set was used before line 0"
        );
        assert_eq!((cache.load(0, 4), cache.load(128, 4)), (0, 6950));
        cache.clear();
        assert_eq!(cache.load(0, 4), 6950);
    }
}
