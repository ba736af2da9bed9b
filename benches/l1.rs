//! What do the functions on cache lines cost: hits, and misses from reservation to update?

use criterion::{Criterion, criterion_group, criterion_main};
use sim_memory::cache::{Cache, Outcome};
use sim_memory::spec::{CacheSpec, IndexFunction};
use std::hint::black_box;

fn spec(ways: u32) -> CacheSpec {
    CacheSpec {
        set_aside_ways: None,
        dirty_ways: None,
        equal_stores_stay_clean: true,
        write_allocate: false,
        bytes_per_cycle: 128,
        size_bytes: 16384,
        ways,
        sector_bytes: 128,
        mshrs: 64,
        mshr_merges: 8,
        hit_latency: 35,
        index: IndexFunction::Xor,
    }
}

fn l1(c: &mut Criterion) {
    let mut group = c.benchmark_group("l1");
    for ways in [4, 64] {
        let mut cache = Cache::new(&spec(ways));
        let mut data = [1u8; 128];
        let miss = |cache: &mut Cache, line: u64, data: &mut [u8; 128]| {
            let (set, mut pinned) = (cache.set_of(line / 128), false);
            assert_eq!(cache.reserve(set, line, u128::MAX, &mut pinned), Outcome::Done);
            assert_eq!(cache.update(set, line, u128::MAX, data), Outcome::Done);
            cache.read(set, line, u128::MAX, data, &mut pinned)
        };
        let mut line = 0u64;
        group.bench_function(format!("miss/{ways} ways"), |b| {
            b.iter(|| {
                line += 128;
                miss(&mut cache, black_box(line), &mut data)
            });
        });
        let set = cache.set_of(line / 128);
        group.bench_function(format!("hit/{ways} ways"), |b| {
            b.iter(|| {
                assert!(cache.is_cached(set, line, u128::MAX));
                cache.read(set, black_box(line), u128::MAX, &mut data, &mut false)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, l1);
criterion_main!(benches);
