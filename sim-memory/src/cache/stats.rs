//! The counters of a cache.

/// Hit, miss and replacement counters of one cache. A load or atomic is a hit, a merge or a miss, and one of them only.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    borsh::BorshSerialize,
    borsh::BorshDeserialize,
)]
pub struct CacheStats {
    /// Loads and atomics whose bytes were all valid when they came.
    pub hits: u64,
    /// Loads and atomics that had to fetch bytes.
    pub misses: u64,
    /// Loads and atomics that waited for an earlier access to the line, as one that fetches it, and then found their bytes
    /// valid.
    pub merges: u64,
    /// Hits on lines of local memory; included in `hits`.
    pub local_hits: u64,
    /// Misses on lines of local memory; included in `misses`.
    pub local_misses: u64,
    /// Merges on lines of local memory; included in `merges`.
    pub local_merges: u64,
    /// Reservations that found no evictable way; at L2 also requests that found no free MSHR.
    pub reservation_fails: u64,
    /// Lines replaced by others.
    pub evictions: u64,
    /// Dirty lines written back.
    pub write_backs: u64,
}

impl CacheStats {
    /// Counts a lookup by a load or atomic, which has `waited` for an earlier access to its line or has not.
    #[inline]
    pub fn looked_up(&mut self, cached: bool, waited: bool, local: bool) {
        let (hit, merge) = (cached && !waited, cached && waited);
        self.hits += u64::from(hit);
        self.merges += u64::from(merge);
        self.misses += u64::from(!cached);
        self.local_hits += u64::from(hit && local);
        self.local_merges += u64::from(merge && local);
        self.local_misses += u64::from(!cached && local);
    }

    /// Adds the counters of another cache.
    pub fn add(&mut self, other: &Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.merges += other.merges;
        self.local_hits += other.local_hits;
        self.local_misses += other.local_misses;
        self.local_merges += other.local_merges;
        self.reservation_fails += other.reservation_fails;
        self.evictions += other.evictions;
        self.write_backs += other.write_backs;
    }
}
