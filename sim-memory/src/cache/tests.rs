use super::*;
use proptest::prelude::*;

const FULL: u128 = u128::MAX;

fn spec(ways: u32, sets: u32) -> CacheSpec {
    CacheSpec {
        set_aside_ways: None,
        dirty_ways: None,
        equal_stores_stay_clean: true,
        write_allocate: false,
        bytes_per_cycle: 128,
        size_bytes: 128 * ways * sets,
        ways,
        sector_bytes: 128,
        mshrs: 8,
        mshr_merges: 8,
        hit_latency: 1,
        index: IndexFunction::Linear,
    }
}

#[test]
fn cache_reserve_cache_unused_cache_allused_takes_unused_then_evictable_then_defers() {
    let mut cache = Cache::new(&spec(2, 1));
    let (mut a, mut b, mut c) = (false, false, false);
    assert_eq!(cache.reserve(0, 0, FULL, &mut a), Outcome::Done);
    assert!(cache.is_cached(0, 0, FULL), "reserved lines count as cached");
    assert_eq!(cache.reserve(0, 0, FULL, &mut b), Outcome::Stuck, "there already");
    assert_eq!(cache.reserve(0, 128, FULL, &mut b), Outcome::Done);
    assert_eq!(cache.reserve(0, 256, FULL, &mut c), Outcome::Defer, "both pinned");
    assert_eq!(cache.update(0, 0, FULL, &[7; 128]), Outcome::Done);
    let mut data = [0; 128];
    assert_eq!(cache.read(0, 0, FULL, &mut data, &mut a), Outcome::Done);
    assert_eq!((data[5], a), (7, false));
    assert_eq!(cache.reserve(0, 256, FULL, &mut c), Outcome::Done, "line 0 was clean");
    assert!(!cache.is_cached(0, 0, FULL));
}

#[test]
fn cache_read_cache_pin_cache_unpin_cache_iscached_and_stuck() {
    let mut cache = Cache::new(&spec(2, 1));
    let (mut holder, mut reader, mut data) = (false, false, [0; 128]);
    assert_eq!(cache.read(0, 0, FULL, &mut data, &mut reader), Outcome::Stuck);
    assert_eq!(cache.reserve(0, 0, FULL, &mut holder), Outcome::Done);
    assert_eq!(cache.read(0, 0, FULL, &mut data, &mut reader), Outcome::Defer);
    assert!(reader);
    assert_eq!(cache.discard(0, 0, FULL), Outcome::Defer);
    assert_eq!(cache.update(0, 0, FULL, &[1; 128]), Outcome::Done);
    assert_eq!(cache.read(0, 0, FULL, &mut data, &mut reader), Outcome::Done);
    assert_eq!(cache.evict(0, 0), Outcome::Defer, "the holder still pins it");
    assert_eq!(cache.read(0, 0, FULL, &mut data, &mut holder), Outcome::Done);
    assert_eq!(cache.pinned(), 0);
    assert_eq!(cache.evict(0, 0), Outcome::Done);
}

#[test]
fn cache_update_keeps_what_was_written_meanwhile() {
    let mut cache = Cache::new(&spec(1, 1));
    let mut pinned = false;
    assert_eq!(cache.reserve(0, 0, FULL, &mut pinned), Outcome::Done);
    assert_eq!(cache.write(0, 0, 0xff, &[9; 128]), Outcome::Done);
    assert_eq!(cache.update(0, 0, FULL, &[1; 128]), Outcome::Done);
    let mut data = [0; 128];
    assert_eq!(cache.read(0, 0, FULL, &mut data, &mut pinned), Outcome::Done);
    assert_eq!((data[7], data[8]), (9, 1));
    assert_eq!(cache.update(0, 128, FULL, &[1; 128]), Outcome::Stuck);
}

/// A store to bytes that a miss is fetching: the thread's own bytes stay, and stay clean.
#[test]
fn cache_update_keeps_what_was_written_through_meanwhile() {
    let mut cache = Cache::new(&spec(1, 1));
    let (mut pinned, mut data) = (false, [0; 128]);
    assert_eq!(cache.reserve(0, 0, FULL, &mut pinned), Outcome::Done);
    cache.write_through(0, 0, 0xff, &[9; 128]);
    assert_eq!(cache.update(0, 0, FULL, &[1; 128]), Outcome::Done);
    assert_eq!(cache.read(0, 0, FULL, &mut data, &mut pinned), Outcome::Done);
    assert_eq!((data[7], data[8]), (9, 1));
    assert_eq!(cache.write_back_one(0), None);
    // An absent line stays absent.
    cache.write_through(0, 128, 0xff, &[9; 128]);
    assert!(!cache.is_cached(0, 128, 0xff));
}

/// A store of a cache whose stores take lines: its bytes are valid and clean, and the others are fetched by who needs them.
/// Where no way can be evicted it takes none.
#[test]
fn cache_write_allocate_takes_a_line_of_what_is_written() {
    let mut cache = Cache::new(&CacheSpec { write_allocate: true, ..spec(1, 1) });
    let (mut pinned, mut data) = (false, [0; 128]);
    cache.write_allocate(0, 0, 0xff, &[9; 128]);
    assert_eq!(cache.write_back_one(0), None);
    assert_eq!(cache.held_of(0, 0, [FULL, 0xf0]), Some(0xf0));
    assert_eq!(cache.held_of(0, 0, [FULL, 0x1f0]), None);
    assert_eq!(cache.reserve(0, 0, FULL, &mut pinned), Outcome::Done);
    assert_eq!(cache.held_of(0, 0, [FULL, 0x1f0]), Some(FULL), "the rest is on its way");
    assert_eq!(cache.update(0, 0, FULL, &[1; 128]), Outcome::Done);
    // The line is pinned.
    cache.write_allocate(0, 128, 0xff, &[9; 128]);
    assert!(!cache.is_cached(0, 128, 0xff));
    assert_eq!(cache.read(0, 0, FULL, &mut data, &mut pinned), Outcome::Done);
    assert_eq!((data[7], data[8]), (9, 1));
    cache.write_allocate(0, 128, 0xff, &[9; 128]);
    assert!(cache.is_cached(0, 128, 0xff) && !cache.is_cached(0, 0, 0xff));
    let mut other = Cache::new(&spec(1, 1));
    other.write_allocate(0, 0, 0xff, &[9; 128]);
    assert!(!other.is_cached(0, 0, 0xff));
}

/// The line that was stored to last is the last that goes.
#[test]
fn cache_write_allocate_uses_the_line() {
    let mut cache = Cache::new(&CacheSpec { write_allocate: true, ..spec(2, 1) });
    for line in [0, 128, 0, 256] {
        cache.write_allocate(0, line, FULL, &[1; 128]);
    }
    assert_eq!([0, 128, 256].map(|line| cache.is_cached(0, line, FULL)), [true, false, true]);
}

#[test]
fn cache_write_cache_writeeq_keeps_the_dirty_flag() {
    let mut cache = Cache::new(&spec(1, 1));
    let mut pinned = false;
    assert_eq!(cache.reserve(0, 0, FULL, &mut pinned), Outcome::Done);
    assert_eq!(cache.update(0, 0, FULL, &[4; 128]), Outcome::Done);
    let mut data = [0; 128];
    assert_eq!(cache.read(0, 0, FULL, &mut data, &mut pinned), Outcome::Done);
    assert_eq!(cache.write(0, 0, 0xf, &[4; 128]), Outcome::Done);
    assert_eq!(cache.write_back_one(0), None, "the same value leaves it clean");
    assert_eq!(cache.write(0, 0, 0xf, &[5; 128]), Outcome::Done);
    assert_eq!(cache.write_back_one(0).map(|(line, mask, _)| (line, mask)), Some((0, 0xf)));
}

#[test]
fn cache_evict_defers_on_dirty_and_cache_discard_does_not() {
    let mut cache = Cache::new(&spec(1, 1));
    assert_eq!(cache.write(0, 0, FULL, &[1; 128]), Outcome::Done);
    assert_eq!(cache.evict(0, 0), Outcome::Defer);
    assert_eq!(cache.write(0, 128, FULL, &[1; 128]), Outcome::Defer, "dirty is not evictable");
    assert_eq!(cache.discard(0, 0, FULL), Outcome::Done);
    assert_eq!(cache.write(0, 128, FULL, &[1; 128]), Outcome::Done);
}

#[test]
fn cache_discard_keeps_dirty_bytes_it_was_not_asked_for() {
    let mut cache = Cache::new(&spec(1, 1));
    assert_eq!(cache.write(0, 0, 0xff, &[1; 128]), Outcome::Done);
    assert_eq!(cache.discard(0, 0, 0x0f), Outcome::Done);
    assert!(!cache.is_cached(0, 0, 0x01) && cache.is_cached(0, 0, 0xf0));
    assert_eq!(cache.write_back_one(0).map(|(line, mask, _)| (line, mask)), Some((0, 0xf0)));
}

#[test]
fn mem_flush_marks_pinned_lines_which_go_when_unpinned() {
    let mut cache = Cache::new(&spec(2, 1));
    let (mut pinned, mut data) = (false, [0; 128]);
    assert_eq!(cache.reserve(0, 0, FULL, &mut pinned), Outcome::Done);
    assert_eq!(cache.write(0, 128, FULL, &[2; 128]), Outcome::Done);
    cache.flush(|_| false);
    assert!(!cache.is_cached(0, 0, FULL), "a flushed line counts as not cached");
    assert!(cache.is_cached(0, 128, FULL), "a dirty one stays");
    // The operation that pinned it still gets its bytes.
    assert_eq!(cache.update(0, 0, FULL, &[7; 128]), Outcome::Done);
    assert_eq!(cache.read(0, 0, FULL, &mut data, &mut pinned), Outcome::Done);
    assert_eq!(data[3], 7);
    assert_eq!(cache.evict(0, 0), Outcome::Done, "it is gone");
    assert_eq!(cache.reserve(0, 0, FULL, &mut pinned), Outcome::Done, "and can come again");
}

#[test]
fn cache_classify_first_goes_first() {
    let mut cache = Cache::new(&spec(2, 1));
    let mut pins = [false; 3];
    let mut data = [0; 128];
    for (i, pin) in pins.iter_mut().take(2).enumerate() {
        let line = 128 * i as u64;
        assert_eq!(cache.reserve(0, line, FULL, pin), Outcome::Done);
        cache.update(0, line, FULL, &[0; 128]);
        cache.read(0, line, FULL, &mut data, pin);
    }
    cache.classify(0, 128, Class::First);
    assert_eq!(cache.reserve(0, 256, FULL, &mut pins[2]), Outcome::Done);
    assert!(cache.is_cached(0, 0, FULL), "normal and older, but `first` goes before it");
    assert!(!cache.is_cached(0, 128, FULL));
}

/// The caches of CS ch. 4 read literally: a list of lines, without sets or masks.
#[derive(Clone, Debug, Default)]
struct Literal {
    lines: Vec<(Option<u64>, Option<u8>, bool, bool, Vec<u32>)>,
}

impl Literal {
    fn position(&self, address: u64) -> Option<usize> {
        self.lines.iter().position(|l| l.0 == Some(address))
    }

    fn free_way(&self, choice: impl Fn() -> Option<usize>) -> Option<usize> {
        self.lines.iter().position(|l| l.0.is_none()).or_else(choice)
    }
}

proptest! {
    /// Full-sector sequences agree with the literal model value by value and deferral by
    /// deferral; the literal model takes the same victim (`canEvict` injected).
    #[test]
    fn cache_canevict_cache_eligible_sequences_agree_with_the_literal_model(
        operations in prop::collection::vec((0u8..6, 0u64..5, any::<u8>(), 0u32..3), 1..200)
    ) {
        let mut cache = Cache::new(&spec(3, 1));
        let mut literal = Literal { lines: vec![(None, None, false, false, Vec::new()); 3] };
        let mut pins = [[false; 5]; 3];
        let mut clock = [0u64; 3];
        let mut now = 0;
        for (op, address, value, mid) in operations {
            now += 1;
            let line = address * 128;
            let at = literal.position(address);
            let lru = literal.free_way(|| {
                (0..3)
                    .filter(|&i| !literal.lines[i].2 && literal.lines[i].4.is_empty())
                    .min_by_key(|&i| clock[i])
            });
            let pin = &mut pins[mid as usize][address as usize];
            match op {
                0 => {
                    let expected = match (at, lru) {
                        (Some(i), _) if literal.lines[i].3 || literal.lines[i].1.is_none() => Outcome::Stuck,
                        (None, Some(i)) => {
                            literal.lines[i] = (Some(address), None, false, false, vec![mid]);
                            clock[i] = now;
                            Outcome::Done
                        }
                        (None, None) => Outcome::Defer,
                        (Some(_), _) => Outcome::Stuck,
                    };
                    prop_assert_eq!(cache.reserve(0, line, FULL, pin), expected);
                }
                1 => {
                    let mut data = [0; 128];
                    let got = cache.read(0, line, FULL, &mut data, pin);
                    let expected = match at {
                        None => Outcome::Stuck,
                        Some(i) if literal.lines[i].3 => {
                            literal.lines[i].4.retain(|&m| m != mid);
                            clock[i] = now;
                            prop_assert_eq!(Some(data[127]), literal.lines[i].1);
                            Outcome::Done
                        }
                        Some(i) => {
                            if !literal.lines[i].4.contains(&mid) {
                                literal.lines[i].4.push(mid);
                            }
                            Outcome::Defer
                        }
                    };
                    prop_assert_eq!(got, expected);
                }
                2 => {
                    let expected = match at.or(lru) {
                        None => Outcome::Defer,
                        Some(i) => {
                            if at.is_none() {
                                literal.lines[i] = (Some(address), None, false, false, Vec::new());
                            }
                            if literal.lines[i].1 != Some(value) {
                                literal.lines[i].1 = Some(value);
                                literal.lines[i].2 = true;
                                literal.lines[i].3 = true;
                            }
                            clock[i] = now;
                            Outcome::Done
                        }
                    };
                    prop_assert_eq!(cache.write(0, line, FULL, &[value; 128]), expected);
                }
                3 => {
                    let expected = match at {
                        None => Outcome::Stuck,
                        Some(i) => {
                            if !literal.lines[i].3 {
                                literal.lines[i].1 = Some(value);
                                literal.lines[i].3 = true;
                            }
                            Outcome::Done
                        }
                    };
                    prop_assert_eq!(cache.update(0, line, FULL, &[value; 128]), expected);
                }
                _ => {
                    let clean_only = op == 4;
                    let expected = match at {
                        None => Outcome::Done,
                        Some(i) if literal.lines[i].4.is_empty() && !(clean_only && literal.lines[i].2) => {
                            literal.lines[i] = (None, None, false, false, Vec::new());
                            Outcome::Done
                        }
                        Some(_) => Outcome::Defer,
                    };
                    let got = if clean_only { cache.evict(0, line) } else { cache.discard(0, line, FULL) };
                    prop_assert_eq!(got, expected);
                }
            }
            prop_assert_eq!(cache.check_counts(), Ok(()));
        }
    }
}

#[test]
fn mem_wbl1_mem_wbl2_copy_one_dirty_line_down_and_leave_it_clean() {
    let mut cache = Cache::new(&spec(2, 1));
    let mut pinned = false;
    for line in [0, 128] {
        assert_eq!(cache.reserve(0, line, FULL, &mut pinned), Outcome::Done);
        assert_eq!(cache.update(0, line, FULL, &[0; 128]), Outcome::Done);
        let mut data = [0; 128];
        assert_eq!(cache.read(0, line, FULL, &mut data, &mut pinned), Outcome::Done);
    }
    assert_eq!(cache.write_back_one(0), None, "nothing is dirty");
    assert_eq!(cache.write(0, 128, 0xf0, &[3; 128]), Outcome::Done);
    assert_eq!(cache.evict(0, 128), Outcome::Defer, "dirty");
    let (line, mask, data) = cache.write_back_one(0).expect("one is dirty");
    assert_eq!((line, mask, data[4], data[3]), (128, 0xf0, 3, 0));
    assert_eq!(cache.write_back_one(0), None, "clean now");
    assert_eq!(cache.evict(0, 128), Outcome::Done);
}

/// Reading a line makes it the most recently used one.
#[test]
fn cache_read_is_a_use_of_the_line() {
    let mut cache = Cache::new(&spec(2, 1));
    let (mut data, mut pinned) = ([0; 128], false);
    let mut read = |cache: &mut Cache, line| cache.read(0, line, FULL, &mut data, &mut false);
    for line in [0, 128] {
        assert_eq!(cache.reserve(0, line, FULL, &mut pinned), Outcome::Done);
        assert_eq!(cache.update(0, line, FULL, &[1; 128]), Outcome::Done);
        assert_eq!(cache.read(0, line, FULL, &mut [0; 128], &mut pinned), Outcome::Done);
    }
    assert_eq!(read(&mut cache, 0), Outcome::Done);
    assert_eq!(cache.reserve(0, 256, FULL, &mut pinned), Outcome::Done);
    assert_eq!([0, 128, 256].map(|line| cache.is_cached(0, line, FULL)), [true, false, true]);
}

/// Bytes of a pinned line are still filling, and its operation will read it: the line is not written back.
#[test]
fn mem_wbl2_leaves_pinned_lines() {
    let mut cache = Cache::new(&spec(2, 1));
    let (mut data, mut pinned) = ([0; 128], false);
    assert_eq!(cache.reserve(0, 0, FULL, &mut pinned), Outcome::Done);
    assert_eq!(cache.write(0, 0, 0xf, &[7; 128]), Outcome::Done);
    assert_eq!(cache.write_back_one(0), None, "dirty and pinned");
    assert_eq!(cache.update(0, 0, FULL, &[1; 128]), Outcome::Done);
    assert_eq!(cache.read(0, 0, FULL, &mut data, &mut pinned), Outcome::Done);
    assert_eq!(cache.write_back_one(0).map(|(line, mask, _)| (line, mask)), Some((0, 0xf)));
}

#[test]
fn mem_flush_forgets_clean_lines_only() {
    let mut cache = Cache::new(&spec(4, 1));
    let (mut data, mut pinned) = ([0; 128], false);
    for line in [0, 128, 256] {
        assert_eq!(cache.reserve(0, line, FULL, &mut pinned), Outcome::Done);
        assert_eq!(cache.update(0, line, FULL, &[1; 128]), Outcome::Done);
        assert_eq!(cache.read(0, line, FULL, &mut data, &mut pinned), Outcome::Done);
    }
    assert_eq!(cache.write(0, 128, FULL, &[2; 128]), Outcome::Done);
    let mut held = false;
    assert_eq!(cache.reserve(0, 384, FULL, &mut held), Outcome::Done);
    cache.flush(|line| line == 256);
    let cached: Vec<bool> = [0, 128, 256, 384].iter().map(|l| cache.is_cached(0, *l, FULL)).collect();
    assert_eq!(cached, [false, true, true, false], "clean; dirty; kept; pinned: counts as gone");
}

#[test]
fn a_cache_at_rest_has_nothing_under_way() {
    let spec = CacheSpec {
        set_aside_ways: None,
        dirty_ways: None,
        equal_stores_stay_clean: true,
        write_allocate: false,
        bytes_per_cycle: 128,
        size_bytes: 1024,
        ways: 4,
        sector_bytes: 32,
        mshrs: 4,
        mshr_merges: 4,
        hit_latency: 1,
        index: IndexFunction::Linear,
    };
    let mut cache = Cache::new(&spec);
    assert_eq!(cache.check_idle(), Ok(()));
    let (mut pinned, mut data) = (false, [0; 128]);
    assert_eq!(cache.reserve(0, 256, 0xff, &mut pinned), Outcome::Done);
    let told = |cache: &Cache| cache.check_idle().expect_err("something is under way");
    assert!(told(&cache).contains("waits for bytes that no request fetches"), "{}", told(&cache));
    assert_eq!(cache.update(0, 256, 0xff, &[1; 128]), Outcome::Done);
    assert!(told(&cache).contains("is pinned by no operation"), "{}", told(&cache));
    assert_eq!(cache.read(0, 256, 0xff, &mut data, &mut pinned), Outcome::Done);
    assert_eq!(cache.check_idle(), Ok(()));
    // What only a mistake could bring about.
    let i = cache.find(0, 256).expect("it is there");
    cache.lines[i].dirty = 0x100;
    assert!(told(&cache).contains("not valid"));
    cache.lines[i].dirty = 0;
    // It is the line used last, which is found without its shortened tag.
    cache.tags[i] ^= 1;
    assert!(told(&cache).contains("shortened tag"));
    cache.tags[i] ^= 1;
    let unused = (0..4).find(|way| *way != i).expect("a way that is not used");
    cache.tags[unused] ^= 1;
    assert!(told(&cache).contains("shortened tag"));
    cache.tags[unused] ^= 1;
    assert_eq!(cache.check_idle(), Ok(()));
    cache.classed[0] = 1;
    assert!(told(&cache).contains("other classes"));
    cache.classed[0] = 0;
    cache.tags[i + 1] = cache.tags[i];
    cache.lines[i + 1] = cache.lines[i];
    assert!(told(&cache).contains("a lookup of its address finds"));
}

#[test]
fn lines_of_class_last_go_after_others_and_have_so_many_ways_at_most() {
    let spec = CacheSpec { size_bytes: 128 * 4, ways: 4, set_aside_ways: Some(2), ..spec(4, 1) };
    let mut cache = Cache::new(&spec);
    let data = [0; 128];
    let present = |cache: &Cache| (0..9).filter(|n| cache.is_cached(0, 128 * n, 1)).collect::<Vec<u64>>();
    for n in 0..4 {
        cache.fill(0, 128 * n, &data);
    }
    cache.keep(0, 0, Class::Last, spec.most_kept());
    cache.keep(0, 128, Class::Last, spec.most_kept());
    cache.fill(0, 128 * 4, &data);
    cache.fill(0, 128 * 5, &data);
    assert_eq!(present(&cache), [0, 1, 4, 5], "the oldest two stay");
    // A third one takes the place of the one that was used longest ago.
    cache.keep(0, 128 * 5, Class::Last, spec.most_kept());
    cache.fill(0, 128 * 6, &data);
    assert_eq!(present(&cache), [1, 4, 5, 6], "the first is an ordinary line again");
    // What goes first goes before older ones.
    cache.keep(0, 128 * 6, Class::First, spec.most_kept());
    cache.fill(0, 128 * 7, &data);
    assert_eq!(present(&cache), [1, 4, 5, 7]);
    // Without any room nothing stays.
    cache.keep(0, 128, Class::Normal, 0);
    cache.keep(0, 128, Class::Last, 0);
    cache.fill(0, 128 * 8, &data);
    assert_eq!(present(&cache), [4, 5, 7, 8]);
    // Where all are to stay, the oldest goes.
    for n in [4, 5, 7, 8] {
        cache.keep(0, 128 * n, Class::Last, 4);
    }
    cache.fill(0, 0, &data);
    assert_eq!(present(&cache), [0, 5, 7, 8]);
    cache.check_idle().expect("counted");
}

#[test]
fn equal_bytes_leave_a_line_clean_if_the_cache_keeps_that_rule() {
    for keeps in [true, false] {
        let mut cache = Cache::new(&CacheSpec { equal_stores_stay_clean: keeps, ..spec(4, 1) });
        let data = [7; 128];
        assert_eq!(cache.write(0, 0, FULL, &data), Outcome::Done);
        let changes = cache.changes;
        cache.clean_all(|_, _, _| {});
        assert_eq!(cache.write(0, 0, FULL, &data), Outcome::Done);
        assert_eq!(cache.changes, changes, "no byte has changed");
        assert_eq!(cache.dirty_lines[0], u32::from(!keeps));
        let mut written = 0;
        cache.clean_all(|_, _, _| written += 1);
        assert_eq!(written, u32::from(!keeps));
        assert_eq!(cache.check_idle(), Ok(()));
    }
}

#[test]
fn a_store_waits_where_as_many_ways_are_dirty_as_may_be() {
    let spec = CacheSpec { size_bytes: 128 * 4, ways: 4, dirty_ways: Some(2), ..spec(4, 1) };
    let mut cache = Cache::new(&spec);
    let written = [1; 128];
    for line in [0, 128] {
        assert_eq!(cache.write(0, line, FULL, &written), Outcome::Done);
    }
    assert_eq!(cache.write(0, 256, FULL, &written), Outcome::Defer, "two of four ways are dirty");
    assert_eq!(cache.stats.reservation_fails, 0, "a way is free");
    assert_eq!(cache.write(0, 0, FULL, &[2; 128]), Outcome::Done, "it is dirty already");
    assert_eq!(cache.write_back_one(0).map(|(line, ..)| line), Some(128), "the one used longest ago");
    assert_eq!(cache.write(0, 256, FULL, &written), Outcome::Done);
    assert_eq!(cache.write(0, 128, FULL, &written), Outcome::Done, "the same bytes leave it clean");
    assert_eq!(cache.write(0, 128, FULL, &[3; 128]), Outcome::Defer);
    // A dirty line that is discarded makes room, and so does the end of a run.
    assert_eq!(cache.discard(0, 0, FULL), Outcome::Done);
    assert_eq!(cache.write(0, 128, FULL, &[3; 128]), Outcome::Done);
    assert_eq!(cache.check_idle(), Ok(()));
    cache.clean_all(|_, _, _| {});
    for line in [0, 384] {
        assert_eq!(cache.write(0, line, FULL, &written), Outcome::Done);
    }
    // One that an operation needs cannot be written back: the store goes on.
    let mut pinned = [false; 2];
    for (line, pinned) in [0, 384].into_iter().zip(&mut pinned) {
        assert_eq!(cache.discard(0, line, 0), Outcome::Done);
        assert_eq!(cache.write(0, line, 0xf, &written), Outcome::Done);
        assert_eq!(cache.discard(0, line, FULL ^ 0xf), Outcome::Done);
        assert_eq!(cache.reserve(0, line, FULL, pinned), Outcome::Done);
    }
    assert_eq!(cache.write(0, 256, FULL, &[9; 128]), Outcome::Done);
    cache.dirty_lines[0] = 0;
    assert!(cache.check_idle().is_err());
}

#[test]
fn lines_that_were_written_beside_are_dirty_and_older_ones_are_clean() {
    for most in [None, Some(2)] {
        let spec = CacheSpec { size_bytes: 128 * 4, ways: 4, dirty_ways: most, ..spec(4, 1) };
        let mut cache = Cache::new(&spec);
        let data = [5; 128];
        for line in 0..3 {
            cache.put(0, 128 * line, &data, 0xff << line);
        }
        cache.put(0, 128 * 3, &data, 0);
        cache.put(0, 0, &data, 0xf000);
        assert_eq!(cache.check_counts(), Ok(()));
        let dirty = |cache: &Cache| {
            let mut dirty = Vec::new();
            cache.share(|line, mask, bytes| {
                assert_eq!(bytes, &data);
                dirty.push((line / 128, mask));
            });
            dirty.sort_unstable();
            dirty
        };
        let all = [(0, 0xf0ff), (1, 0x1fe), (2, 0x3fc)];
        match most {
            None => assert_eq!(dirty(&cache), all),
            // Two of three ways may be dirty: that of 1 is, and gave way to that of 0.
            Some(_) => assert_eq!(dirty(&cache), [(0, 0xf000), (2, 0x3fc)]),
        }
        // Clean lines go first, then the oldest dirty one.
        cache.put(0, 128 * 4, &data, 1);
        cache.put(0, 128 * 5, &data, 1);
        assert_eq!(cache.check_counts(), Ok(()));
        let is = dirty(&cache).iter().map(|(line, _)| *line).collect::<Vec<u64>>();
        assert_eq!(is, if most.is_none() { vec![0, 2, 4, 5] } else { vec![4, 5] });
        assert_eq!(cache.is_cached(0, 128 * 3, 1), most.is_some());
        cache.clean_all(|_, _, _| {});
        assert_eq!(dirty(&cache), []);
        assert_eq!(cache.check_idle(), Ok(()));
    }
}

proptest! {
    /// A lookup finds the way whose line has the address: that of the last use, those compared eight at a time on this host or on
    /// any, and lines whose shortened tags are the same.
    #[test]
    fn a_lookup_finds_the_way_of_the_line(
        ways in prop::sample::select(vec![1u32, 4, 7, 8, 9, 16, 19]),
        uses in proptest::collection::vec((0u64..24, 0u64..3, any::<bool>()), 1..80),
    ) {
        let mut cache = Cache::new(&CacheSpec { write_allocate: true, ..spec(ways, 1) });
        // Bits 7 and 39 of an address cancel each other in its shortened tag.
        let address = |number: u64, alike: u64| number << 8 ^ [0, 1 << 7 | 1 << 39, 1 << 8 | 1 << 40][alike as usize];
        for (number, alike, dropped) in uses {
            let line = address(number, alike);
            cache.write_allocate(0, line, FULL, &[1; 128]);
            if dropped {
                prop_assert_eq!(cache.evict(0, address(number / 2, alike)), Outcome::Done);
            }
            for line in (0..24).flat_map(|number| [0, 1, 2].map(|alike| address(number, alike))) {
                let expected = cache.lines.iter().position(|here| here.tag == line);
                prop_assert_eq!(cache.find(0, line), expected);
                prop_assert_eq!(cache.find_among_all(0, line), expected);
                prop_assert_eq!(cache.find_by(0, line, super::alike), expected);
            }
            prop_assert_eq!(cache.check_idle(), Ok(()));
        }
    }
}
