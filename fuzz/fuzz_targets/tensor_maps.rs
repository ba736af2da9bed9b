//! The 128 bytes of a tensor map, and what a copy takes of the tensor: any bytes are a map or are wrong for a reason; a map
//! is what its bytes say; the pieces of a copy fill its place in shared memory, each byte once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sim_core::tensor_map::{Atom, BYTES, TensorMap};

/// Bytes of a copy that is looked at piece by piece.
const MOST: u64 = 1 << 14;

fuzz_target!(|input: (bool, [u8; BYTES], [i32; 5], [u16; 3], u8, bool)| {
    let (tamed, mut bytes, coordinates, offsets, to, single) = input;
    if tamed {
        tame(&mut bytes);
    }
    let map = match TensorMap::decode(&bytes) {
        Ok(map) => map,
        Err(reason) => return assert!(!reason.is_empty()),
    };
    assert!(map.check().is_empty());
    assert_eq!(TensorMap::decode(&map.encode()).as_ref(), Ok(&map));
    let four = map.box_sizes.len() == 2 && map.box_sizes[1] == 1;
    // As instructions have them.
    let halo = if map.im2col.is_some() { [offsets[0] % 32, offsets[1] % 32, offsets[2]] } else { offsets };
    let size = map.copied_bytes(four, &halo);
    if size > MOST {
        return;
    }
    let to = u32::from(to) * 1024;
    let pieces = map.pieces_of(four, &coordinates, &halo, to, single);
    let mut filled = vec![false; size.next_multiple_of(1024) as usize];
    let places = pieces.inside.iter().map(|piece| piece.near).chain(pieces.beyond.iter().copied());
    for at in places.flat_map(|near| near - to..near - to + pieces.bytes) {
        assert!(!std::mem::replace(&mut filled[at as usize], true), "a byte is written twice");
    }
    assert_eq!(filled.iter().filter(|filled| **filled).count() as u64, size);
    assert!(map.atom != Atom::B32Flip8 || pieces.bytes <= 8);
});

/// Makes most bytes those of some map.
fn tame(bytes: &mut [u8; BYTES]) {
    bytes[0] %= 5;
    bytes[1..4].fill(0);
    bytes[4] %= 13;
    bytes[5] %= 4;
    bytes[6] %= 4;
    bytes[7] = 0;
    bytes[36] %= 3;
    bytes[37] %= 4;
    bytes[38] %= 4;
    bytes[39] = 0;
    bytes[120..].fill(0);
    if bytes[36] == 2 {
        bytes[6] = 1;
    }
    // The address and strides are multiples of 16, or of 32 where slices have so many bytes.
    for at in [8, 40, 48, 56, 64] {
        bytes[at] &= if bytes[36] == 2 { 0xe0 } else { 0xf0 };
        bytes[at + 4..at + 8].fill(0);
    }
    // Sizes of the tensor, of the box and steps are small.
    for at in (16..36).step_by(4).chain((80..120).step_by(4)) {
        let im2col = bytes[38] != 0 && (88..100).contains(&at);
        if !im2col {
            bytes[at] = bytes[at] % if at < 36 { 64 } else if at < 100 { 33 } else { 8 } + u8::from(at >= 100);
            bytes[at] = bytes[at].max(1);
            bytes[at + 1..at + 4].fill(0);
        }
    }
}
