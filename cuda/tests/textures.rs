//! Texture references as programs before CUDA 12 use them, and the arrays and objects of the driver API.

#![allow(missing_docs, reason = "tests")]
#![allow(unsafe_code, reason = "the interface is C's")]

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use warpsim::device::program::{ENVIRONMENT, ProgramRequest};
use warpsim_cuda::arrays::{
    cudaCreateChannelDesc, cudaFreeArray, cudaMallocArray, cudaMemcpy2DToArray, cudaMemcpyToArray,
};
use warpsim_cuda::device::cudaDeviceSynchronize;
use warpsim_cuda::driver::arrays::{
    cuArrayCreate_v2, cuArrayDestroy, cuSurfObjectCreate, cuSurfObjectDestroy, cuSurfObjectGetResourceDesc,
    cuTexObjectCreate, cuTexObjectDestroy, cuTexObjectGetResourceDesc, cuTexObjectGetTextureDesc,
};
use warpsim_cuda::driver::memory::cuMemcpy2D_v2;
use warpsim_cuda::fatbin::make::{Packing, container, wrapper};
use warpsim_cuda::images::ChannelFormat;
use warpsim_cuda::launch::{Dim3, cudaLaunchKernel};
use warpsim_cuda::memory::{cudaMalloc, cudaMemcpy};
use warpsim_cuda::register::{__cudaRegisterFatBinary, __cudaRegisterFatBinaryEnd, __cudaRegisterFunction};
use warpsim_cuda::textures::{
    __cudaRegisterTexture, cudaBindTexture, cudaBindTextureToArray, cudaUnbindTexture,
};

const PTX: &str = "
.version 7.0
.target sm_70
.address_size 64
.global .texref numbers;
.global .texref colors;
.visible .entry look(.param .u64 out, .param .u64 object) {
    .reg .b64 %a, %b, %o;
    .reg .b32 %t, %r<4>;
    .reg .f32 %f<8>, %x;
    ld.param.u64 %a, [out];
    ld.param.u64 %o, [object];
    mov.u32 %t, %tid.x;
    cvt.rn.f32.u32 %x, %t;
    tex.1d.v4.s32.s32 {%r0, %r1, %r2, %r3}, [numbers, {%t}];
    cvt.rn.f32.s32 %f0, %r0;
    tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [colors, {%x, %x}];
    tex.2d.v4.f32.f32 {%f5, %f2, %f3, %f4}, [%o, {%x, %x}];
    add.f32 %f0, %f0, %f1;
    add.f32 %f0, %f0, %f5;
    mul.wide.u32 %b, %t, 4;
    add.s64 %a, %a, %b;
    st.global.f32 [%a], %f0;
    ret;
}
.visible .entry fill(.param .u64 out, .param .u64 object) {
    .reg .b64 %o;
    .reg .b32 %t, %y, %z;
    ld.param.u64 %o, [object];
    mov.u32 %t, %tid.x;
    and.b32 %z, %t, 7;
    shl.b32 %z, %z, 2;
    shr.u32 %y, %t, 3;
    cvt.rn.f32.u32 %t, %t;
    sust.b.2d.b32.trap [%o, {%z, %y}], %t;
    ret;
}
";

/// Stand-ins: a kernel by its address, references by what the program says in them.
static LOOK: u8 = 0;
static FILL: u8 = 1;

/// CUDA's `textureReference` with 15 words behind it.
#[repr(C)]
struct Reference([i32; 40]);

fn reference(filter: i32) -> &'static Reference {
    let mut words = [0; 40];
    // Not normalized; the filter; clamped in every direction.
    words[1..5].copy_from_slice(&[filter, 1, 1, 1]);
    Box::leak(Box::new(Reference(words)))
}

fn at<T>(place: &'static T) -> *const c_void {
    std::ptr::from_ref(place).cast()
}

/// CUDA's `CUDA_RESOURCE_DESC` of an array.
fn of_array(array: usize) -> [u64; 19] {
    let mut words = [0; 19];
    words[1] = array as u64;
    words
}

#[test]
fn references_and_objects_are_read_and_written_by_kernels() {
    let request = ProgramRequest { program: "test".into(), ..ProgramRequest::default() };
    let request = serde_json::to_string(&request).expect("JSON");
    // SAFETY: there are no other threads that read variables.
    unsafe { std::env::set_var(ENVIRONMENT, request) };
    let fat = container(&[(1, 70, PTX.as_bytes())], Packing::Zstd);
    let wrapper = Box::leak(Box::new(wrapper(Box::leak(fat.into_boxed_slice()))));
    let (numbers, colors) = (reference(0), reference(1));
    // SAFETY: all pointers lead to variables of this function, or to what lives as long as the process.
    unsafe {
        let handle = __cudaRegisterFatBinary(wrapper.as_mut_ptr().cast());
        for (stand_in, name) in [(at(&LOOK), c"look"), (at(&FILL), c"fill")] {
            let none = null_mut::<c_void>();
            let name = name.as_ptr();
            __cudaRegisterFunction(
                handle,
                stand_in.cast(),
                null_mut(),
                name,
                -1,
                none,
                none,
                none,
                none,
                null_mut(),
            );
        }
        __cudaRegisterTexture(handle, at(numbers), null(), c"numbers".as_ptr(), 1, 0, 0);
        // Bytes that are read as numbers from 0 to 1.
        __cudaRegisterTexture(handle, at(colors), null(), c"colors".as_ptr(), 2, 1, 0);
        __cudaRegisterFatBinaryEnd(handle);

        let words: Vec<i32> = (0..32).map(|i| 1000 * i).collect();
        let mut memory = null_mut();
        assert_eq!(cudaMalloc(&raw mut memory, 128), 0);
        assert_eq!(cudaMemcpy(memory, words.as_ptr().cast(), 128, 1), 0);
        let format = cudaCreateChannelDesc(32, 0, 0, 0, 0);
        let mut offset = 9;
        let bound = cudaBindTexture(
            &raw mut offset,
            at(numbers).cast(),
            memory as usize,
            &raw const format,
            usize::MAX,
        );
        assert_eq!((bound, offset), (0, 0));

        let bytes = ChannelFormat { bits: [8, 0, 0, 0], kind: 1 };
        let mut array = 0;
        assert_eq!(cudaMallocArray(&raw mut array, &raw const bytes, 8, 8, 0), 0);
        let texels: Vec<u8> = (0..64).map(|i| if i % 9 == 0 { 255 } else { 0 }).collect();
        assert_eq!(cudaMemcpyToArray(array, 0, 0, texels.as_ptr() as usize, 64, 1), 0);
        // No room is made for a box that the array does not hold.
        for (x, width, height) in
            [(0, usize::MAX, 1), (0, 1 << 40, 1 << 40), (usize::MAX, 8, 1), (4, 8, 1), (0, 8, 9)]
        {
            let copied = cudaMemcpy2DToArray(array, x, 0, texels.as_ptr() as usize, 8, width, height, 1);
            assert_eq!(copied, 1, "{x} {width} {height}");
        }
        assert_eq!(cudaBindTextureToArray(at(colors).cast(), array, null()), 0);
        assert_eq!(cudaBindTextureToArray(at(&LOOK).cast(), array, null()), 13, "no reference");

        // The driver's array is filled by a kernel, and looked up by another.
        let flat: [u64; 3] = [8, 8, 32 | 1 << 32];
        let mut own = 0;
        assert_eq!(cuArrayCreate_v2(&raw mut own, flat.as_ptr().cast()), 0);
        let mut surface = 0u64;
        assert_eq!(cuSurfObjectCreate(&raw mut surface, of_array(own).as_ptr().cast()), 0);
        let mut description = [0i32; 26];
        description[..3].copy_from_slice(&[1; 3]);
        let mut object = 0u64;
        let made = cuTexObjectCreate(
            &raw mut object,
            of_array(own).as_ptr().cast(),
            description.as_ptr().cast(),
            null(),
        );
        assert_eq!(made, 0);
        // Objects tell what they were made of; a surface has no sampler.
        let (mut resource, mut sampled) = ([7u64; 18], [7u32; 26]);
        for handle in [object, surface] {
            let done = if handle == object {
                cuTexObjectGetResourceDesc(&raw mut resource, handle)
            } else {
                cuSurfObjectGetResourceDesc(&raw mut resource, handle)
            };
            assert_eq!((done, resource[0] as u32, resource[1]), (0, 0, own as u64));
        }
        assert_eq!(cuTexObjectGetTextureDesc(&raw mut sampled, object), 0);
        assert_eq!(sampled.map(u32::cast_signed), description);
        assert_eq!(cuTexObjectGetTextureDesc(&raw mut sampled, surface), 1);
        assert_eq!(cuTexObjectGetResourceDesc(&raw mut resource, 77), 1);

        let mut out = null_mut();
        assert_eq!(cudaMalloc(&raw mut out, 128), 0);
        for (kernel, handle, threads) in [(at(&FILL), surface, 64), (at(&LOOK), object, 32)] {
            let mut arguments =
                [(&raw const out).cast_mut().cast::<c_void>(), (&raw const handle).cast_mut().cast()];
            let (grid, block) = (Dim3 { x: 1, y: 1, z: 1 }, Dim3 { x: threads, y: 1, z: 1 });
            assert_eq!(cudaLaunchKernel(kernel, grid, block, arguments.as_mut_ptr(), 0, null_mut()), 0);
        }
        assert_eq!(cudaDeviceSynchronize(), 0);
        let mut found = [0f32; 32];
        assert_eq!(cudaMemcpy(found.as_mut_ptr().cast(), out, 128, 2), 0);
        for (i, value) in found.into_iter().enumerate() {
            // Between the diagonal texels: half of the four are 255.
            let color = if i == 0 || i > 7 { 1.0 } else { 0.5 };
            let texel = 9 * i.min(7);
            assert_eq!(value, 1000.0 * i as f32 + color + texel as f32, "{i}");
        }

        // A box of the array comes back: rows 2 and 3, the first two texels.
        let mut part = [0f32; 4];
        let copy: [u64; 16] = [
            0,
            2,
            3,
            0,
            0,
            own as u64,
            0, //
            0,
            0,
            1,
            part.as_mut_ptr() as u64,
            0,
            0,
            8, //
            8,
            2,
        ];
        assert_eq!(cuMemcpy2D_v2(copy.as_ptr().cast()), 0);
        assert_eq!(part, [16.0, 17.0, 24.0, 25.0]);

        assert_eq!(cudaUnbindTexture(at(numbers).cast()), 0);
        assert_eq!((cuTexObjectDestroy(object), cuTexObjectDestroy(object)), (0, 1));
        assert_eq!(cuSurfObjectDestroy(surface), 0);
        assert_eq!((cuArrayDestroy(own), cuArrayDestroy(own)), (0, 400));
        assert_eq!((cudaFreeArray(array), cudaFreeArray(0)), (0, 0));
    }
}
