//! Tensor maps of the driver API, and how programs get at the calls.

#![allow(missing_docs, reason = "tests")]
#![allow(unsafe_code, reason = "the interface is C's")]

mod common;

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use common::maps::{Map, User, ask_for};
use sim_core::tensor_map::{Im2col, TensorMap};
use warpsim_cuda::driver::entries::cuGetProcAddress_v2;
use warpsim_cuda::driver::tensor_maps::{
    cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2colWide, cuTensorMapEncodeTiled, cuTensorMapReplaceAddress,
};
use warpsim_cuda::entry_points::{cudaGetDriverEntryPoint, cudaGetDriverEntryPointByVersion};

/// Loads the box of 8 by 4 words at (4, 1) and stores it.
const PTX: &CStr = c".version 8.3
.target sm_90
.address_size 64
.visible .entry k(.param .align 64 .b8 m[128], .param .u64 out) {
    .reg .b32 t, v, w, a;
    .reg .b64 p, o, i;
    .reg .pred first, done;
    .shared .align 128 .b8 room[128];
    .shared .align 8 .b64 object;
    mov.b64 p, m;
    cvta.param.u64 p, p;
    ld.param.u64 o, [out];
    mov.u32 t, %tid.x;
    setp.eq.u32 first, t, 0;
    @!first bra WAITS;
    mbarrier.init.shared::cta.b64 [object], 1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [object], 128;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [room], [p, {4, 1}], [object];
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

/// The arguments of `cuTensorMapEncodeTiled`, good ones.
#[derive(Clone)]
struct Tiled {
    data_type: i32,
    rank: u32,
    address: u64,
    sizes: Vec<u64>,
    strides: Vec<u64>,
    box_sizes: Vec<u32>,
    steps: Vec<u32>,
    interleave: i32,
    swizzle: i32,
    promotion: i32,
    fill: i32,
}

fn good(address: u64) -> Tiled {
    Tiled {
        data_type: 2,
        rank: 2,
        address,
        sizes: vec![16, 6],
        strides: vec![96],
        box_sizes: vec![8, 4],
        steps: vec![1, 1],
        interleave: 0,
        swizzle: 0,
        promotion: 2,
        fill: 0,
    }
}

impl Tiled {
    fn encode(&self, map: *mut Map) -> i32 {
        // SAFETY: the arrays have as many numbers as the tensor dimensions; the map may be null.
        unsafe {
            cuTensorMapEncodeTiled(
                map.cast(),
                self.data_type,
                self.rank,
                self.address as *mut c_void,
                self.sizes.as_ptr(),
                self.strides.as_ptr(),
                self.box_sizes.as_ptr(),
                self.steps.as_ptr(),
                self.interleave,
                self.swizzle,
                self.promotion,
                self.fill,
            )
        }
    }
}

fn limits(address: u64) {
    let wrong: [fn(&mut Tiled); 22] = [
        |m| m.data_type = 13,
        |m| m.data_type = -1,
        |m| m.rank = 0,
        |m| m.rank = 6,
        |m| m.address += 8,
        |m| m.sizes[0] = 0,
        |m| m.sizes[1] = (1 << 31) + 1,
        |m| m.sizes[1] = 1 << 40,
        |m| m.strides[0] = 100,
        |m| m.strides[0] = 1 << 40,
        |m| m.box_sizes[0] = 6,
        |m| m.box_sizes[1] = 0,
        |m| m.box_sizes[1] = 257,
        |m| (m.box_sizes[0], m.swizzle) = (16, 1),
        |m| m.steps[1] = 0,
        |m| m.steps[1] = 9,
        |m| m.interleave = 1,
        |m| m.interleave = 3,
        |m| m.swizzle = 7,
        |m| m.promotion = 4,
        |m| m.fill = 1,
        |m| m.fill = 2,
    ];
    let mut map = Map([7; 128]);
    for (number, change) in wrong.into_iter().enumerate() {
        let mut changed = good(address);
        change(&mut changed);
        assert_eq!(changed.encode(&raw mut map), 1, "{number}");
    }
    assert_eq!(good(address).encode(null_mut()), 1);
    // What fails leaves the map as it was; a map begins at a multiple of 64.
    assert_eq!(map.0, [7; 128]);
    let inside = (&raw mut map).cast::<u8>().wrapping_add(32).cast();
    assert_eq!(good(address).encode(inside), 1);
    // SAFETY: the place is valid, and no map.
    assert_eq!(unsafe { cuTensorMapReplaceAddress((&raw mut map).cast(), address as *mut c_void) }, 1);
    let full = Tiled { data_type: 7, swizzle: 1, promotion: 3, fill: 1, ..good(address) };
    assert_eq!(full.encode(&raw mut map), 0);
    let expected = TensorMap {
        swizzle: 32,
        promotion: 256,
        nan: true,
        ..TensorMap::tiled("f32", address, &[16, 6], &[96], &[8, 4])
    };
    assert_eq!(TensorMap::decode(&map.0), Ok(expected));
}

/// Interleaved tensors, tiled and of columns; maps along W need a later chip.
fn slices(address: u64) {
    let mut map = Map([0; 128]);
    let tensor = Tiled {
        data_type: 6,
        rank: 4,
        sizes: vec![20, 5, 4, 2],
        strides: vec![32, 160, 1280],
        box_sizes: vec![17, 5, 1, 2],
        steps: vec![1, 1, 2, 1],
        interleave: 2,
        swizzle: 1,
        promotion: 0,
        ..good(address)
    };
    assert_eq!(tensor.encode(&raw mut map), 0);
    let expected = TensorMap {
        interleave: 32,
        swizzle: 32,
        element_strides: vec![1, 1, 2, 1],
        ..TensorMap::tiled("f16", address, &[20, 5, 4, 2], &[32, 160, 1280], &[17, 5, 1, 2])
    };
    // Two slices of 32 bytes of five pixels of two images.
    assert_eq!(expected.box_bytes(), 640);
    assert_eq!(TensorMap::decode(&map.0).as_ref(), Ok(&expected));
    let wrong: [fn(&mut Tiled); 4] =
        [|m| m.swizzle = 0, |m| m.strides[0] = 48, |m| m.address += 16, |m| (m.interleave, m.rank) = (1, 2)];
    for (number, change) in wrong.into_iter().enumerate() {
        let mut changed = tensor.clone();
        change(&mut changed);
        assert_eq!(changed.encode(&raw mut map), 1, "{number}");
    }
    let mut columns = |wide: bool| {
        let to = (&raw mut map).cast();
        let (at, sizes, strides) = (address as *mut c_void, tensor.sizes.as_ptr(), tensor.strides.as_ptr());
        let (lower, upper, steps) = ([-1, 0], [1, 0], tensor.steps.as_ptr());
        // SAFETY: the arrays have as many numbers as dimensions, corners two less.
        unsafe {
            match wide {
                false => {
                    let (lower, upper) = (lower.as_ptr(), upper.as_ptr());
                    cuTensorMapEncodeIm2col(
                        to, 6, 4, at, sizes, strides, lower, upper, 17, 9, steps, 1, 3, 0, 0,
                    )
                }
                true => cuTensorMapEncodeIm2colWide(
                    to, 6, 4, at, sizes, strides, -1, 1, 16, 9, steps, 0, 0, 1, 0, 0,
                ),
            }
        }
    };
    assert_eq!(columns(true), 801);
    assert_eq!(columns(false), 0);
    let found = TensorMap::decode(&map.0).expect("a map");
    // Three slices of 16 bytes of nine pixels.
    assert_eq!((found.interleave, found.swizzle, found.box_bytes()), (16, 128, 432));
}

fn columns(address: u64) {
    let mut map = Map([0; 128]);
    let (sizes, strides, steps) = ([64u64, 14, 9, 8], [128u64, 1792, 16128], [1u32, 1, 2, 1]);
    let mut encode = |rank, lower: [i32; 2], channels, pixels| {
        // SAFETY: the arrays have as many numbers as dimensions, corners two less.
        unsafe {
            cuTensorMapEncodeIm2col(
                (&raw mut map).cast(),
                6,
                rank,
                address as *mut c_void,
                sizes.as_ptr(),
                strides.as_ptr(),
                lower.as_ptr(),
                [-1, -2].as_ptr(),
                channels,
                pixels,
                steps.as_ptr(),
                0,
                0,
                0,
                0,
            )
        }
    };
    assert_eq!(encode(2, [-1, -2], 8, 64), 1);
    assert_eq!(encode(4, [-129, 0], 8, 64), 1);
    assert_eq!(encode(4, [-1, -2], 257, 64), 1);
    assert_eq!(encode(4, [-1, -2], 8, 1025), 1);
    assert_eq!(encode(4, [13, 8], 8, 64), 1);
    assert_eq!(encode(4, [-3, -4], 8, 64), 0);
    let expected = TensorMap {
        element_strides: steps.to_vec(),
        im2col: Some(Im2col {
            lower: vec![-3, -4],
            upper: vec![-1, -2],
            channels: 8,
            pixels: 64,
            along_w: None,
        }),
        ..TensorMap::tiled("f16", address, &[64, 14, 9, 8], &strides, &[])
    };
    assert_eq!(TensorMap::decode(&map.0), Ok(expected));
}

/// One test: the device of a process is made once.
#[test]
fn maps_are_made_checked_and_used() {
    ask_for("h100");
    let mut map = Map([0; 128]);
    assert_eq!(good(4096).encode(&raw mut map), 3, "before cuInit");
    let user = User::new(PTX, 0..400);
    let tensor = user.tensor;
    limits(tensor);
    columns(tensor);
    slices(tensor);
    assert_eq!(good(tensor).encode(&raw mut map), 0);
    for first in [0u32, 160] {
        // The same map of a tensor that begins elsewhere.
        let begin = (tensor + 4 * u64::from(first)) as *mut c_void;
        // SAFETY: the place is valid.
        assert_eq!(unsafe { cuTensorMapReplaceAddress((&raw mut map).cast(), begin) }, 0);
        let found = user.run(&map, 32);
        let word = |i: u32| first + (1 + i / 8) * 24 + 4 + i % 8;
        assert_eq!(found, (0..32).map(word).collect::<Vec<_>>());
    }
    // SAFETY: the place is valid.
    assert_eq!(unsafe { cuTensorMapReplaceAddress((&raw mut map).cast(), (tensor + 4) as *mut c_void) }, 1);
    for (name, function) in [
        (c"cuTensorMapEncodeTiled", cuTensorMapEncodeTiled as *const c_void),
        (c"cuTensorMapEncodeIm2col", cuTensorMapEncodeIm2col as *const c_void),
        (c"cuTensorMapReplaceAddress", cuTensorMapReplaceAddress as *const c_void),
    ] {
        let (mut at, mut status) = ([null(); 3], [9; 3]);
        let name = name.as_ptr();
        // SAFETY: the places are valid.
        unsafe {
            assert_eq!(cuGetProcAddress_v2(name, &raw mut at[0], 12_000, 0, &raw mut status[0]), 0);
            assert_eq!(cudaGetDriverEntryPoint(name, &raw mut at[1], 0, &raw mut status[1]), 0);
            let by_version = cudaGetDriverEntryPointByVersion;
            assert_eq!(by_version(name, &raw mut at[2], 12_000, 0, &raw mut status[2]), 0);
        }
        assert_eq!((at, status), ([function; 3], [0; 3]));
    }
    let (mut at, mut status) = (c"".as_ptr().cast::<c_void>(), 9);
    // SAFETY: the places are valid.
    unsafe {
        assert_eq!(cudaGetDriverEntryPoint(c"cuNone".as_ptr(), &raw mut at, 0, &raw mut status), 0);
        assert_eq!((at, status), (null(), 1));
        assert_eq!(cudaGetDriverEntryPoint(c"cuInit".as_ptr(), &raw mut at, 3, &raw mut status), 1);
    }
}
