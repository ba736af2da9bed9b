//! `cuTensorMapEncodeIm2colWide`, on a chip that has copies of pixels along W.

#![allow(missing_docs, reason = "tests")]
#![allow(unsafe_code, reason = "the interface is C's")]

mod common;

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use common::maps::{Map, User, ask_for};
use sim_core::tensor_map::{AlongW, Atom, Im2col, TensorMap};
use warpsim_cuda::driver::entries::cuGetProcAddress_v2;
use warpsim_cuda::driver::tensor_maps::cuTensorMapEncodeIm2colWide;

/// Loads four pixels of eight words from (2, 0) on, and one of the halo, and stores them.
const PTX: &CStr = c".version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 m[128], .param .u64 out) {
    .reg .b32 t, v, w, a;
    .reg .b64 p, o, i;
    .reg .b16 one, none;
    .reg .pred first, done;
    .shared .align 256 .b8 room[160];
    .shared .align 8 .b64 object;
    mov.b64 p, m;
    cvta.param.u64 p, p;
    ld.param.u64 o, [out];
    mov.u32 t, %tid.x;
    mov.b16 one, 1;
    mov.b16 none, 0;
    setp.eq.u32 first, t, 0;
    @!first bra WAITS;
    mbarrier.init.shared::cta.b64 [object], 1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [object], 160;
    cp.async.bulk.tensor.3d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes [room], [p, {0, 2, 0}], [object], {one, none};
    WAITS: bar.sync 0;
    AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [object], 0;
    @!done bra AGAIN;
    mul.lo.u32 a, t, 4;
    mov.u32 w, room;
    add.u32 w, w, a;
    ld.shared.u32 v, [w];
    mul.wide.u32 i, t, 4;
    add.u64 o, o, i;
    st.global.u32 [o], v;
    ret;
}
";

/// The arguments, good ones.
#[derive(Clone)]
struct Wide {
    data_type: i32,
    rank: u32,
    address: u64,
    sizes: Vec<u64>,
    strides: Vec<u64>,
    corners: [i32; 2],
    channels: u32,
    pixels: u32,
    steps: Vec<u32>,
    interleave: i32,
    mode: i32,
    swizzle: i32,
    promotion: i32,
    fill: i32,
}

/// Two images of five pixels of eight words; the box has the pixels -1 to 3.
fn good(address: u64) -> Wide {
    Wide {
        data_type: 2,
        rank: 3,
        address,
        sizes: vec![8, 5, 2],
        strides: vec![32, 160],
        corners: [-1, -1],
        channels: 8,
        pixels: 4,
        steps: vec![1; 3],
        interleave: 0,
        mode: 0,
        swizzle: 1,
        promotion: 0,
        fill: 0,
    }
}

impl Wide {
    fn encode(&self, map: *mut Map) -> i32 {
        // SAFETY: the arrays have as many numbers as the tensor dimensions; the map may be null.
        unsafe {
            cuTensorMapEncodeIm2colWide(
                map.cast(),
                self.data_type,
                self.rank,
                self.address as *mut c_void,
                self.sizes.as_ptr(),
                self.strides.as_ptr(),
                self.corners[0],
                self.corners[1],
                self.channels,
                self.pixels,
                self.steps.as_ptr(),
                self.interleave,
                self.mode,
                self.swizzle,
                self.promotion,
                self.fill,
            )
        }
    }
}

fn limits(address: u64) {
    let wrong: [fn(&mut Wide); 22] = [
        |m| m.data_type = 13,
        |m| m.rank = 2,
        |m| m.rank = 6,
        |m| m.address += 8,
        |m| m.sizes[1] = 0,
        |m| m.strides[0] = 40,
        |m| m.corners[0] = -32769,
        |m| m.corners[1] = 32768,
        |m| m.corners[1] = -6,
        |m| m.channels = 0,
        |m| m.channels = 257,
        |m| m.channels = 9,
        |m| m.pixels = 0,
        |m| m.pixels = 1025,
        |m| m.steps[1] = 9,
        |m| m.interleave = 1,
        |m| m.mode = 2,
        |m| m.mode = -1,
        |m| m.swizzle = 0,
        |m| m.swizzle = 5,
        |m| m.promotion = 4,
        |m| m.fill = 1,
    ];
    let mut map = Map([7; 128]);
    for (number, change) in wrong.into_iter().enumerate() {
        let mut changed = good(address);
        change(&mut changed);
        assert_eq!(changed.encode(&raw mut map), 1, "{number}");
    }
    assert_eq!(good(address).encode(null_mut()), 1);
    assert_eq!(map, Map([7; 128]), "what fails leaves the map as it was");
    // Corners are of W only, whatever the tensor's dimensions; chunks of a swizzle are those of 64 bytes.
    let deep = Wide {
        data_type: 7,
        rank: 5,
        sizes: vec![32, 7, 6, 5, 4],
        strides: vec![128, 896, 5376, 26880],
        corners: [-2, 1],
        channels: 32,
        steps: vec![1, 2, 1, 1, 1],
        mode: 1,
        swizzle: 6,
        fill: 1,
        ..good(address)
    };
    assert_eq!(deep.encode(&raw mut map), 0);
    let columns =
        Im2col { lower: vec![-2], upper: vec![1], channels: 32, pixels: 4, along_w: Some(AlongW::By32) };
    let expected = TensorMap {
        element_strides: deep.steps.clone(),
        im2col: Some(columns),
        swizzle: 128,
        atom: Atom::B64,
        nan: true,
        ..TensorMap::tiled("f32", address, &[32, 7, 6, 5, 4], &deep.strides, &[])
    };
    assert_eq!(TensorMap::decode(&map.0), Ok(expected));
}

/// One test: the device of a process is made once.
#[test]
fn maps_of_pixels_along_w_are_made_checked_and_used() {
    ask_for("b200");
    let mut map = Map([0; 128]);
    let user = User::new(PTX, 1..81);
    limits(user.tensor);
    assert_eq!(good(user.tensor).encode(&raw mut map), 0);
    let found = user.run(&map, 40);
    // Pixels 2 and 3, then -1, 0 and 1 of the next image; in the second row of 128 bytes chunks are exchanged.
    for (number, (w, image)) in [(2i32, 0), (3, 0), (-1, 1), (0, 1), (1, 1)].into_iter().enumerate() {
        for channel in 0..8 {
            let place = number * 8 + channel;
            let word = if w < 0 { 0 } else { 1 + image * 40 + w * 8 + channel as i32 };
            assert_eq!(found[if place < 32 { place } else { place ^ 4 }], word as u32, "{number} {channel}");
        }
    }
    let (mut at, mut status) = (null(), 9);
    // SAFETY: the places are valid.
    unsafe {
        let name = c"cuTensorMapEncodeIm2colWide".as_ptr();
        assert_eq!(cuGetProcAddress_v2(name, &raw mut at, 13_000, 0, &raw mut status), 0);
    }
    assert_eq!((at, status), (cuTensorMapEncodeIm2colWide as *const c_void, 0));
}
