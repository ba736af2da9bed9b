//! References of the workloads with textures and surfaces.

use sim_frontend::workload::HostBuffer;

use super::inputs::{Inputs, Reference, ReferenceError};

type Result = std::result::Result<HostBuffer, ReferenceError>;

/// All references by name.
pub const ALL: &[(&str, Reference)] = &[
    ("texture_stencil", texture_stencil),
    ("bicubic_filter", bicubic_filter),
    ("surface_pixels", surface_pixels),
    ("surface_turned", surface_turned),
];

/// A step of the stencil; texels beyond the image are those at its edge, or zero.
fn step(n: usize, image: &[f32], edge: bool) -> Vec<f32> {
    let at = |x: i64, y: i64| {
        let last = n as i64 - 1;
        let inside = (0..=last).contains(&x) && (0..=last).contains(&y);
        if !inside && !edge {
            return 0.0;
        }
        image[y.clamp(0, last) as usize * n + x.clamp(0, last) as usize]
    };
    let mut out = Vec::new();
    for y in 0..n as i64 {
        for x in 0..n as i64 {
            let c = at(x, y);
            let sum = at(x - 1, y) + at(x + 1, y);
            let sum = sum + at(x, y - 1) + at(x, y + 1);
            out.push(c + 0.125 * (sum - 4.0 * c));
        }
    }
    out
}

fn texture_stencil(inputs: &Inputs<'_>) -> Result {
    let n = inputs.count("n")?;
    let middle = step(n, &inputs.f32s("first")?, true);
    Ok(HostBuffer::from_f32(&step(n, &middle, false)))
}

/// A lookup between the texels of an image of bytes, clamped at its edges, with weights of 8 bits.
fn between(n: usize, texels: &[u8], x: f32, y: f32) -> f32 {
    let split = |v: f32| {
        let v = f64::from(v) - 0.5;
        (v.floor() as i64, ((v - v.floor()) * 256.0).round() / 256.0)
    };
    let ((i, a), (j, b)) = (split(x), split(y));
    let at = |x: i64, y: i64| {
        let last = n as i64 - 1;
        let texel = texels[y.clamp(0, last) as usize * n + x.clamp(0, last) as usize];
        f64::from(f32::from(texel) / 255.0)
    };
    let sum = (1.0 - a) * (1.0 - b) * at(i, j)
        + a * (1.0 - b) * at(i + 1, j)
        + (1.0 - a) * b * at(i, j + 1)
        + a * b * at(i + 1, j + 1);
    sum as f32
}

fn bicubic_filter(inputs: &Inputs<'_>) -> Result {
    const SIXTH: f32 = 1.0 / 6.0;
    let (n, zoom) = (inputs.count("n")?, inputs.count("zoom")?);
    let texels = inputs.buffer("texels")?.bytes;
    let step = (1.0 / inputs.number("zoom")?) as f32;
    let w0 = |a: f32| SIXTH * (a * (a * (-a + 3.0) - 3.0) + 1.0);
    let w1 = |a: f32| SIXTH * (a * a * (3.0 * a - 6.0) + 4.0);
    let w2 = |a: f32| SIXTH * (a * (a * (-3.0 * a + 3.0) + 3.0) + 1.0);
    let w3 = |a: f32| SIXTH * (a * a * a);
    let axis = |i: usize| {
        let x = (i as f32 + 0.5) * step - 0.5;
        let p = x.floor();
        let f = x - p;
        let (g0, g1) = (w0(f) + w1(f), w2(f) + w3(f));
        (g0, g1, p + (w1(f) / g0 - 0.5), p + (w3(f) / g1 + 1.5))
    };
    let mut out = Vec::new();
    for j in 0..n * zoom {
        let (gy0, gy1, y0, y1) = axis(j);
        for i in 0..n * zoom {
            let (gx0, gx1, x0, x1) = axis(i);
            let row = |y| gx0 * between(n, &texels, x0, y) + gx1 * between(n, &texels, x1, y);
            out.push(gy0 * row(y0) + gy1 * row(y1));
        }
    }
    Ok(HostBuffer::from_f32(&out))
}

/// The image that is drawn, four bytes a pixel.
fn drawn(inputs: &Inputs<'_>) -> std::result::Result<(usize, usize, Vec<[u8; 4]>), ReferenceError> {
    let (width, height) = (inputs.count("width")?, inputs.count("height")?);
    let mut out = Vec::new();
    for y in 0..height as i64 {
        for x in 0..width as i64 {
            let (dx, dy) = (x - width as i64 / 2, y - height as i64 / 2);
            out.push([(x ^ y) as u8, ((dx * dx + dy * dy) >> 4) as u8, (3 * x + 5 * y) as u8, 255]);
        }
    }
    Ok((width, height, out))
}

fn surface_pixels(inputs: &Inputs<'_>) -> Result {
    Ok(HostBuffer::from_u8(&drawn(inputs)?.2.concat()))
}

fn surface_turned(inputs: &Inputs<'_>) -> Result {
    let (width, height, pixels) = drawn(inputs)?;
    let mut out = Vec::new();
    for x in 0..width {
        for y in 0..height {
            let next = if x + 1 < width { pixels[y * width + x + 1][1] } else { 0 };
            out.push(u32::from_le_bytes(pixels[y * width + x]).wrapping_add(next.into()));
        }
    }
    Ok(HostBuffer::from_u32(&out))
}
