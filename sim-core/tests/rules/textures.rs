//! Textures and surfaces on whole programs: objects and references, every geometry, levels, offsets, comparisons,
//! gathers, queries, loads, stores and reductions of surfaces; timed under every policy, and functional.

use sim_core::context::Context;
use sim_core::reconvergence::registry::POLICIES;
use sim_core::texture::{AddressMode, Bound, Channels, Extent, Filter, Format, Image, ReadMode, Sampler};

use crate::machine::{Run, chip, device_with, module, newer_chip};

/// An array of texels in a context, filled with `texel`.
fn array(
    context: &mut Context,
    channels: Channels,
    count: u8,
    (extent, dimensions): ([u32; 3], u8),
    change: impl FnOnce(&mut Image),
    texel: impl Fn(u32, u32, u32, u32) -> Vec<u8>,
) -> Image {
    let [width, height, depth] = extent;
    let format = Format::new(channels, count).expect("a format");
    let mut image = Image::array(0, format, Extent { width, height, depth }, dimensions);
    change(&mut image);
    image.address = context.malloc("array", image.bytes()).expect("it fits");
    for level in 0..image.levels {
        let Extent { width, height, .. } = image.extent.level(level);
        for slice in 0..image.slices(level) {
            for y in 0..height {
                for x in 0..width {
                    let at = u64::from(x) * u64::from(format.bytes());
                    context.write(image.address_of(level, slice, at, y), &texel(level, slice, y, x));
                }
            }
        }
    }
    image
}

/// A float array of `100 * level + 64 * slice + 8 * y + x`.
fn numbers(context: &mut Context, shape: ([u32; 3], u8), change: impl FnOnce(&mut Image)) -> Image {
    array(context, Channels::Float(32), 1, shape, change, |level, slice, y, x| {
        ((100 * level + 64 * slice + 8 * y + x) as f32).to_le_bytes().to_vec()
    })
}

type Setup = fn(&mut Context) -> Vec<u64>;

/// Words of `out` after `body` ran on one warp, with the handles of `setup` in `%h0`, `%h1` …; all policies and the
/// functional mode agree.
fn words(setup: Setup, body: &str) -> Vec<u32> {
    let mut found: Option<Vec<u32>> = None;
    for (name, functional) in POLICIES.iter().map(|row| (row.name, false)).chain([("crs_stack", true)]) {
        let words = run(setup, "", body, name, functional).unwrap_or_else(|e| panic!("{name}: {body}: {e}"));
        match &found {
            Some(first) => assert_eq!(*first, words, "{name}: {body}"),
            None => found = Some(words),
        }
    }
    found.expect("a policy")
}

fn run(setup: Setup, before: &str, body: &str, policy: &str, functional: bool) -> Result<Vec<u32>, String> {
    let device = device_with(newer_chip("9.0"), policy, |o| o);
    let registers =
        ".reg .u64 %h<4>;\n.reg .f32 %x, %y, %z, %d, %f<8>;\n.reg .b32 %k<8>;\n.reg .b16 %s<4>;\n";
    let handles: String = (0..3).map(|i| format!("ld.param.u64 %h{i}, [q+{}];\n", 8 * i)).collect();
    let text = module(before, &format!("{registers}{handles}cvt.rn.f32.u32 %x, %t;\n{body}"))
        .replace(".version 3.0\n.target sm_20", ".version 8.6\n.target sm_90")
        .replace(".param .u64 p)", ".param .u64 p, .param .align 8 .b8 q[24])")
        .replace("%w, %x;", "%w;");
    let mut run = Run::new(device, &text, false, 64);
    let mut handles = setup(run.device.context(run.context).expect("it exists"));
    handles.resize(3, 0);
    let more: Vec<u8> = handles.iter().flat_map(|handle| handle.to_le_bytes()).collect();
    run.launch_with(&more, 0, 1, 32, functional).map_err(|e| e.to_string())?;
    run.wait().map_err(|e| e.to_string())?;
    Ok(run.words())
}

fn linear() -> Sampler {
    Sampler { filter: Filter::Linear, ..Sampler::default() }
}

fn flat(context: &mut Context) -> Vec<u64> {
    let image = numbers(context, ([8, 8, 1], 2), |_| {});
    vec![
        context.create_object(Bound::Texture(image.clone(), Sampler::default())),
        context.create_object(Bound::Texture(image.clone(), linear())),
        context.create_object(Bound::Surface(image)),
    ]
}

fn floats(words: &[u32]) -> Vec<f32> {
    words.iter().map(|word| f32::from_bits(*word)).collect()
}

fn each(f: impl Fn(u32) -> f32) -> Vec<f32> {
    (0..32).map(f).collect()
}

/// Lane t reads texel (t % 8, t / 8).
const OWN: &str = "and.b32 %a, %t, 7;\nshr.u32 %b, %t, 3;\ncvt.rn.f32.u32 %x, %a;\ncvt.rn.f32.u32 %y, %b;\n";

#[test]
fn texels_are_looked_up_by_point_and_between_them() {
    let point =
        format!("{OWN}tex.2d.v4.f32.f32 {{%f0, %f1, %f2, %f3}}, [%h0, {{%x, %y}}];\nmov.b32 %r, %f0;\n");
    assert_eq!(floats(&words(flat, &point)[..32]), each(|t| t as f32));
    // One texel and a quarter to the right of the corner, halfway down.
    let between = format!(
        "{OWN}add.f32 %x, %x, 0f3FA00000;\nadd.f32 %y, %y, 0f3F800000;\n\
         tex.2d.v4.f32.f32 {{%f0, _, _, _}}, [%h1, {{%x, %y}}];\nmov.b32 %r, %f0;\n"
    );
    let expected = each(|t| {
        let x = ((t % 8) as f32 + 0.75).min(7.0);
        x + 8.0 * ((t / 8) as f32 + 0.5)
    });
    assert_eq!(floats(&words(flat, &between)[..32]), expected);
}

#[test]
fn lanes_diverge_at_lookups_and_their_guards() {
    let body = format!(
        "{OWN}mov.f32 %f0, 0fBF800000;\nsetp.lt.u32 %p, %t, 20;\nand.b32 %c, %t, 1;\nsetp.eq.u32 %q, %c, 0;\n\
         @!%q bra ODD;\n@%p tex.2d.v4.f32.f32 {{%f0, %f1, %f2, %f3}}, [%h0, {{%x, %y}}];\nbra DONE;\n\
         ODD: add.f32 %x, %x, 0f3F800000;\n\
         tex.grad.2d.v4.f32.f32 {{%f0, _, _, _}}, [%h0, {{%x, %y}}], {{%x, %x}}, {{%y, %y}}, {{-1, 1}};\n\
         DONE: mov.b32 %r, %f0;\n"
    );
    let expected = each(|t| match t {
        t if t % 2 == 1 => (t % 8 + 8 * (t / 8 + 1)) as f32,
        t if t < 20 => t as f32,
        _ => -1.0,
    });
    assert_eq!(floats(&words(flat, &body)[..32]), expected);
}

#[test]
fn every_geometry_has_its_coordinates() {
    let shapes: Setup = |context| {
        let line = numbers(context, ([32, 1, 1], 1), |_| {});
        let volume = numbers(context, ([8, 8, 4], 3), |_| {});
        let layers = numbers(context, ([8, 8, 1], 2), |image| image.layers = 4);
        [line, volume, layers]
            .map(|image| context.create_object(Bound::Texture(image, Sampler::default())))
            .to_vec()
    };
    let line = "tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%h0, {%t}];\nmov.b32 %r, %f0;\n";
    assert_eq!(floats(&words(shapes, line)[..32]), each(|t| t as f32));
    let volume = format!(
        "{OWN}tex.3d.v4.f32.f32 {{%f0, _, _, _}}, [%h1, {{%x, %x, %y, %y}}], {{0, 0, 0, 0}};\nmov.b32 %r, %f0;\n"
    );
    assert_eq!(floats(&words(shapes, &volume)[..32]), each(|t| (9 * (t % 8) + 64 * (t / 8)) as f32));
    let layers =
        format!("{OWN}tex.a2d.v4.f32.f32 {{%f0, _, _, _}}, [%h2, {{%b, %x, %y, %y}}];\nmov.b32 %r, %f0;\n");
    assert_eq!(floats(&words(shapes, &layers)[..32]), each(|t| (t % 8 + 72 * (t / 8)) as f32));
    let cubes: Setup = |context| {
        let cube = numbers(context, ([8, 8, 1], 2), |image| (image.layers, image.cube) = (12, true));
        let lines = numbers(context, ([8, 1, 1], 1), |image| image.layers = 4);
        [cube, lines].map(|image| context.create_object(Bound::Texture(image, Sampler::default()))).to_vec()
    };
    // Along +z: face 4, s = x, t = -y.
    let cube = "mov.f32 %z, 0f3F800000;\nmov.f32 %x, 0f00000000;\nmov.u32 %k0, 1;\n\
                tex.acube.v4.f32.f32 {%f0, _, _, _}, [%h0, {%k0, %x, %x, %z}];\n\
                tex.cube.v4.f32.f32 {%f1, _, _, _}, [%h0, {%x, %x, %z, %z}];\nsub.f32 %f0, %f0, %f1;\nmov.b32 %r, %f0;\n";
    assert_eq!(floats(&words(cubes, cube)[..32]), each(|_| 6.0 * 64.0));
    let lines = format!("{OWN}tex.a1d.v4.f32.f32 {{%f0, _, _, _}}, [%h1, {{%b, %x}}];\nmov.b32 %r, %f0;\n");
    assert_eq!(floats(&words(cubes, &lines)[..32]), each(|t| (t % 8 + 64 * (t / 8)) as f32));
}

#[test]
fn levels_come_from_an_operand_or_from_derivatives() {
    let levels: Setup = |context| {
        let image = numbers(context, ([8, 8, 1], 2), |image| image.levels = 4);
        let sampler = Sampler { mip_filter: Filter::Linear, ..Sampler::default() };
        vec![context.create_object(Bound::Texture(image, sampler))]
    };
    let detail = "mul.f32 %d, %x, 0f3E800000;\nmov.f32 %y, 0f00000000;\n\
                  tex.level.2d.v4.f32.f32 {%f0, _, _, _}, [%h0, {%y, %y}], %d;\nmov.b32 %r, %f0;\n";
    assert_eq!(floats(&words(levels, detail)[..32]), each(|t| 100.0 * (t as f32 / 4.0).min(3.0)));
    let by_index =
        "mov.u32 %k0, 0;\ntex.level.2d.v4.f32.s32 {%f0, _, _, _}, [%h0, {%k0, %k0}], %t;\nmov.b32 %r, %f0;\n";
    assert_eq!(floats(&words(levels, by_index)[..32]), each(|t| 100.0 * t.min(3) as f32));
    // Derivatives of one to eight texels.
    let gradient = "and.b32 %a, %t, 3;\nshl.b32 %a, 1, %a;\ncvt.rn.f32.u32 %d, %a;\nmov.f32 %y, 0f00000000;\n\
                    tex.grad.2d.v4.f32.f32 {%f0, _, _, _}, [%h0, {%y, %y}], {%d, %y}, {%y, %y};\nmov.b32 %r, %f0;\n";
    assert_eq!(floats(&words(levels, gradient)[..32]), each(|t| 100.0 * (t % 4) as f32));
}

#[test]
fn offsets_comparisons_and_predicates() {
    let offset = format!(
        "{OWN}tex.2d.v4.f32.f32 {{%f0, _, _, _}}|%p, [%h0, {{%x, %y}}], {{2, -1}};\n\
                          @%p add.f32 %f0, %f0, 0f42C80000;\nmov.b32 %r, %f0;\n"
    );
    let expected = each(|t| 100.0 + ((t % 8 + 2).min(7) + 8 * (t / 8).saturating_sub(1)) as f32);
    assert_eq!(floats(&words(flat, &offset)[..32]), expected);
    let compared = format!(
        "{OWN}mov.f32 %d, 0f41880000;\n\
                            tex.2d.v4.f32.f32 {{%f0, _, _, _}}, [%h0, {{%x, %y}}], {{0, 0}}, %d;\nmov.b32 %r, %f0;\n"
    );
    assert_eq!(floats(&words(flat, &compared)[..32]), each(|t| f32::from(u8::from(t >= 17))));
}

#[test]
fn four_texels_are_gathered() {
    let body = "mov.f32 %x, 0f40000000;\ntld4.r.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%h0, {%x, %x}];\n\
                mad.rn.f32 %f0, %f0, 0f42C80000, %f1;\nmad.rn.f32 %f0, %f0, 0f42C80000, %f2;\n\
                sub.f32 %f0, %f0, %f3;\nmov.b32 %r, %f0;\n";
    // (1, 2), (2, 2), (2, 1), (1, 1).
    assert_eq!(floats(&words(flat, body)[..32]), each(|_| 17.0 * 10000.0 + 1800.0 + 10.0 - 9.0));
}

#[test]
fn results_may_be_halves() {
    let body = "mov.f32 %y, 0f00000000;\ntex.2d.v2.f16x2.f32 {%k0, %k1}, [%h0, {%y, %y}], {3, 1};\n\
                tex.2d.v4.f16.f32 {%s0, %s1, %s2, %s3}, [%h0, {%y, %y}], {3, 1};\nmov.b32 %k2, {%s0, %s3};\n\
                add.u32 %r, %k0, %k1;\nadd.u32 %r, %r, %k2;\n";
    // 11 and 0; 0 and 1; 11 and 1.
    let [eleven, one] = [0x4980u32, 0x3c00 << 16];
    assert_eq!(words(flat, body)[..32], [eleven + one + (eleven + one); 32]);
}

#[test]
fn integers_and_normalized_numbers_have_every_width() {
    let bytes: Setup = |context| {
        let texel = |_, _, y: u32, x: u32| vec![x as u8, (200 + y) as u8];
        let image = array(context, Channels::Unsigned(8), 2, ([8, 4, 1], 2), |_| {}, texel);
        let normalized = Sampler {
            read: ReadMode::NormalizedFloat,
            normalized: true,
            address: [AddressMode::Wrap, AddressMode::Mirror, AddressMode::Clamp],
            ..Sampler::default()
        };
        vec![
            context.create_object(Bound::Texture(image.clone(), Sampler::default())),
            context.create_object(Bound::Texture(image, normalized)),
        ]
    };
    let raw = format!(
        "{OWN}tex.2d.v4.u32.f32 {{%k0, %k1, %k2, %k3}}, [%h0, {{%x, %y}}];\n\
                       mad.lo.u32 %r, %k1, 1000, %k0;\nmad.lo.u32 %r, %k3, 1000000, %r;\n"
    );
    let expected: Vec<u32> = (0..32).map(|t| 1_000_000 + (200 + t / 8) * 1000 + t % 8).collect();
    assert_eq!(words(bytes, &raw)[..32], expected);
    // 1 + (t + 1/2) / 8 repeats; 1 + (row + 1/2) / 4 is mirrored.
    let wrapped = format!(
        "{OWN}fma.rn.f32 %x, %x, 0f3E000000, 0f3F880000;\nfma.rn.f32 %y, %y, 0f3E800000, 0f3F900000;\n\
                           tex.2d.v4.f32.f32 {{%f0, %f1, _, _}}, [%h1, {{%x, %y}}];\nadd.f32 %f0, %f0, %f1;\nmov.b32 %r, %f0;\n"
    );
    let expected = each(|t| (t % 8) as f32 / 255.0 + (203 - t / 8) as f32 / 255.0);
    assert_eq!(floats(&words(bytes, &wrapped)[..32]), expected);
}

#[test]
fn surfaces_are_loaded_stored_and_reduced() {
    let load = "and.b32 %a, %t, 7;\nshl.b32 %k0, %a, 2;\nshr.u32 %k1, %t, 3;\n\
                suld.b.2d.b32.trap %r, [%h2, {%k0, %k1}];\n";
    assert_eq!(floats(&words(flat, load)[..32]), each(|t| t as f32));
    let zero = "shl.b32 %k0, %t, 2;\nmov.u32 %k1, 1;\nsuld.b.2d.b32.zero %r, [%h2, {%k0, %k1}];\n\
                suld.b.2d.b32.clamp %k2, [%h2, {%k0, %k1}];\nadd.u32 %r, %r, %k2;\n";
    let bits = |n: u32| (n as f32).to_bits();
    let expected: Vec<u32> =
        (0..32u32).map(|t| if t < 8 { bits(8 + t).wrapping_mul(2) } else { bits(15) }).collect();
    assert_eq!(words(flat, zero)[..32], expected);
    // Each lane writes two texels of a row of its own and reads its neighbour's behind a barrier.
    let store = "and.b32 %k0, %t, 3;\nshl.b32 %k0, %k0, 3;\nshr.u32 %k1, %t, 2;\nmov.b32 %k2, %t;\nadd.u32 %k3, %t, 100;\n\
                 sust.b.2d.v2.b32.trap [%h2, {%k0, %k1}], {%k2, %k3};\nmembar.gl;\nbar.sync 0;\n\
                 xor.b32 %k0, %k0, 8;\nsuld.b.2d.cg.v2.b32.trap {%k4, %k5}, [%h2, {%k0, %k1}];\n\
                 mad.lo.u32 %r, %k5, 1000, %k4;\n";
    let expected: Vec<u32> = (0..32u32).map(|t| ((t ^ 1) + 100) * 1000 + (t ^ 1)).collect();
    assert_eq!(words(flat, store)[..32], expected);
    let words_of: Setup = |context| {
        let image =
            array(context, Channels::Unsigned(32), 1, ([8, 8, 1], 2), |_| {}, |_, _, _, _| vec![1, 0, 0, 0]);
        let bytes = array(context, Channels::Signed(8), 4, ([8, 1, 1], 1), |_| {}, |_, _, _, _| vec![0; 4]);
        [image, bytes].map(|image| context.create_object(Bound::Surface(image))).to_vec()
    };
    let reduce = "and.b32 %a, %t, 3;\nshl.b32 %k0, %a, 2;\nmov.u32 %k1, 2;\n\
                  sured.b.add.2d.u32.trap [%h0, {%k0, %k1}], %t;\nmembar.gl;\nbar.sync 0;\n\
                  suld.b.2d.cg.b32.trap %r, [%h0, {%k0, %k1}];\n";
    let expected: Vec<u32> = (0..32).map(|t| 1 + (0..8).map(|i| 4 * i + t % 4).sum::<u32>()).collect();
    assert_eq!(words(words_of, reduce)[..32], expected);
    let formatted = "and.b32 %k0, %t, 7;\nmov.b32 %k1, 300;\nmov.b32 %k2, -300;\nmov.b32 %k3, 5;\n\
                     sust.p.1d.v4.b32.trap [%h1, {%k0}], {%k1, %k2, %k3, %k0};\nmembar.gl;\nbar.sync 0;\n\
                     shl.b32 %k0, %k0, 2;\nsuld.b.1d.cg.b32.trap %r, [%h1, {%k0}];\n";
    let expected: Vec<u32> = (0..32).map(|t| 0x0005_807f | (t % 8) << 24).collect();
    assert_eq!(words(words_of, formatted)[..32], expected);
}

#[test]
fn images_are_queried() {
    let levels: Setup = |context| {
        let image = numbers(context, ([8, 4, 1], 2), |image| (image.levels, image.layers) = (3, 5));
        vec![
            context.create_object(Bound::Texture(image.clone(), linear())),
            context.create_object(Bound::Surface(image)),
            context.create_object(Bound::Sampler(linear())),
        ]
    };
    let texture = "txq.width.b32 %k0, [%h0];\ntxq.level.height.b32 %k1, [%h0], 1;\ntxq.array_size.b32 %k2, [%h0];\n\
                   txq.num_mipmap_levels.b32 %k3, [%h0];\ntxq.filter_mode.b32 %k4, [%h0];\n\
                   mov.u32 %r, %k0;\nmad.lo.u32 %r, %r, 10, %k1;\nmad.lo.u32 %r, %r, 10, %k2;\n\
                   mad.lo.u32 %r, %r, 10, %k3;\nmad.lo.u32 %r, %r, 10, %k4;\n";
    assert_eq!(words(levels, texture)[..32], [82531; 32]);
    let kinds = "suq.width.b32 %k0, [%h1];\nsuq.channel_data_type.b32 %k1, [%h1];\nmad.lo.u32 %r, %k0, 100, %k1;\n\
                 istypep.texref %p, %h0;\n@%p add.u32 %r, %r, 1000;\nistypep.surfref %p, %h0;\n@%p add.u32 %r, %r, 5000;\n\
                 istypep.surfref %p, %h1;\n@%p add.u32 %r, %r, 10000;\nistypep.samplerref %p, %h2;\n@%p add.u32 %r, %r, 100000;\n";
    assert_eq!(words(levels, kinds)[..32], [832 + 111_000; 32]);
}

#[test]
fn references_are_variables_of_the_module() {
    let body = format!(
        "{OWN}tex.2d.v4.f32.f32 {{%f0, _, _, _}}, [colors, {{%x, %y}}];\n\
                        mov.u64 %w, colors;\ntex.2d.v4.f32.f32 {{%f1, _, _, _}}, [%w, {{%x, %y}}];\n\
                        add.f32 %f0, %f0, %f1;\nmov.b32 %r, %f0;\n"
    );
    let text = module(".global .texref colors;", &format!(".reg .f32 %x, %y, %f<4>;\n{body}"))
        .replace("%w, %x;", "%w;");
    for functional in [false, true] {
        let mut run = Run::new(device_with(chip(|_| {}), "crs_stack", |o| o), &text, false, 64);
        let context = run.device.context(run.context).expect("it exists");
        let variable = context.variables(0).find(|(name, ..)| *name == "colors").map(|(_, at, _)| at);
        let image = numbers(context, ([8, 8, 1], 2), |_| {});
        context.bind(variable.expect("the reference"), Some(Bound::Texture(image, Sampler::default())));
        run.launch(1, 32, functional).expect("it fits");
        run.wait().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(floats(&run.words()[..32]), each(|t| 2.0 * t as f32));
    }
    // In independent mode the sampler is an operand.
    let independent = text
        .replace(".target sm_20", ".target sm_20, texmode_independent")
        .replace(".global .texref colors;", ".global .texref colors;\n.global .samplerref how;")
        .replace("[colors, {", "[colors, how, {")
        .replace("[%w, {", "[%w, how, {");
    let mut run = Run::new(device_with(chip(|_| {}), "crs_stack", |o| o), &independent, false, 64);
    let context = run.device.context(run.context).expect("it exists");
    let variables: Vec<(String, u64)> =
        context.variables(0).map(|(name, at, _)| (name.to_string(), at)).collect();
    let image = numbers(context, ([8, 8, 1], 2), |_| {});
    for (name, at) in variables {
        let bound = match name.as_str() {
            "colors" => Bound::Texture(image.clone(), linear()),
            _ => Bound::Sampler(Sampler::default()),
        };
        context.bind(at, Some(bound));
    }
    run.launch(1, 32, false).expect("it fits");
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(floats(&run.words()[..32]), each(|t| 2.0 * t as f32));
}

#[test]
fn what_is_not_bound_or_lies_outside_is_a_fault() {
    for (body, wanted) in [
        ("mov.u64 %h0, 77;\ntex.1d.v4.f32.s32 {%f0, _, _, _}, [%h0, {%t}];\n", "bound to handle 0x4d"),
        ("tex.1d.v4.f32.s32 {%f0, _, _, _}, [%h2, {%t}];\n", "is no texture"),
        ("suld.b.1d.b32.trap %r, [%h0, {%t}];\n", "is no surface"),
        ("shl.b32 %k0, %t, 2;\nsuld.b.1d.b32.trap %r, [%h2, {%k0}];\n", "is outside the surface of 8 by 8"),
        ("mov.u32 %k0, 2;\nsuld.b.1d.b32.trap %r, [%h2, {%k0}];\n", "is not a multiple of 4"),
        ("tex.cube.v4.f32.f32 {%f0, _, _, _}, [%h0, {%x, %x, %x, %x}];\n", "is no cubemap"),
    ] {
        for functional in [false, true] {
            let error = run(flat, "", body, "crs_stack", functional).expect_err(body);
            assert!(error.contains(wanted), "{error}");
        }
    }
    let layers: Setup = |context| {
        let six = numbers(context, ([8, 8, 1], 2), |image| image.layers = 6);
        vec![context.create_object(Bound::Texture(six, Sampler::default()))]
    };
    let cube = "tex.cube.v4.f32.f32 {%f0, _, _, _}, [%h0, {%x, %x, %x, %x}];\n";
    let error = run(layers, "", cube, "crs_stack", false).expect_err("six layers are no cube");
    assert!(error.contains("is no cubemap"), "{error}");
}

#[test]
fn a_lookup_takes_the_time_of_its_texels_and_of_the_filter() {
    let body = "mov.f32 %y, 0f00000000;\nmov.u32 %a, %clock;\ntex.2d.v4.f32.f32 {%f0, _, _, _}, [%h0, {%y, %y}];\n\
                mov.b32 %k0, %f0;\nand.b32 %k0, %k0, 1;\nmov.u32 %b, %clock;\nsub.u32 %r, %b, %a;\n\
                mov.u32 %a, %clock;\ntex.2d.v4.f32.f32 {%f0, _, _, _}, [%h0, {%y, %y}];\n\
                mov.b32 %k1, %f0;\nand.b32 %k1, %k1, 1;\nmov.u32 %b, %clock;\nsub.u32 %c, %b, %a;\n\
                add.u32 %c, %c, %k0;\nadd.u32 %c, %c, %k1;\nshl.b32 %c, %c, 16;\nor.b32 %r, %r, %c;\n";
    let word = run(flat, "", body, "convergence_barriers", false).expect("it runs")[0];
    let (miss, hit) = (word & 0xffff, word >> 16);
    // A hit in L1 and the filter; the first lookup goes to L2, where the copy from the host is.
    assert!((70..130).contains(&hit), "{hit}");
    assert!(miss > hit + 150, "{miss} {hit}");
}

#[test]
fn lookups_of_several_samples_name_the_sample() {
    // Three layers of four samples; a texel is 64 * (4 * layer + sample) + 8 * y + x.
    let setup: Setup = |context| {
        let one = numbers(context, ([8, 8, 1], 2), |image| (image.layers, image.samples) = (4, 4));
        let three = numbers(context, ([8, 8, 1], 2), |image| (image.layers, image.samples) = (12, 4));
        let plain = numbers(context, ([8, 8, 1], 2), |_| {});
        [one, three, plain].map(|image| context.create_object(Bound::Texture(image, linear()))).to_vec()
    };
    let own = "and.b32 %a, %t, 7;\nshr.u32 %b, %t, 3;\nand.b32 %c, %t, 3;\n";
    let flat =
        format!("{own}tex.2dms.v4.f32.s32 {{%f0, _, _, _}}, [%h0, {{%c, %a, %b, %a}}];\nmov.b32 %r, %f0;\n");
    assert_eq!(floats(&words(setup, &flat)[..32]), each(|t| (64 * (t % 4) + t) as f32));
    // A layer beyond is the last one; offsets are added.
    let layered = format!(
        "{own}shr.u32 %k0, %t, 2;\ntex.base.a2dms.v4.f32.s32 {{%f0, _, _, _}}|%q, [%h1, {{%c, %k0, %a, %b}}], {{-1, 2}};\n@!%q trap;\nmov.b32 %r, %f0;\n"
    );
    let expected = each(|t| {
        let (x, y) = ((t % 8).saturating_sub(1), (t / 8 + 2).min(7));
        (64 * (4 * (t / 4).min(2) + t % 4) + 8 * y + x) as f32
    });
    assert_eq!(floats(&words(setup, &layered)[..32]), expected);
    let queries = "txq.num_samples.b32 %r, [%h0];\ntxq.num_samples.b32 %a, [%h2];\ntxq.array_size.b32 %b, [%h0];\ntxq.array_size.b32 %c, [%h1];\n\
                   mad.lo.u32 %r, %r, 10, %a;\nmad.lo.u32 %r, %r, 10, %b;\nmad.lo.u32 %r, %r, 10, %c;\n";
    assert_eq!(words(setup, queries)[0], 4103);
    for (body, wanted) in [
        (
            "mov.u32 %a, 4;\ntex.2dms.v4.f32.s32 {%f0, _, _, _}, [%h0, {%a, %t, %t, %t}];\n",
            "sample 4 of a texture of 4 samples",
        ),
        ("tex.2dms.v4.f32.s32 {%f0, _, _, _}, [%h2, {%t, %t, %t, %t}];\n", "has one sample"),
        ("tex.2d.v4.f32.s32 {%f0, _, _, _}, [%h0, {%t, %t}];\n", "has 4 samples"),
    ] {
        for functional in [false, true] {
            let error = run(setup, "", body, "crs_stack", functional).expect_err(body);
            assert!(error.contains(wanted), "{error}");
        }
    }
}
