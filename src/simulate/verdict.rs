//! How results compare with what is expected.

use std::collections::BTreeMap;

use sim_core::error::SimError;
use sim_frontend::workload::{Expectation, HostBuffer, Number, Tolerance, push_element};

use super::buffers::{call, data_file};
use super::job::{Job, placed, wrong};

/// How the results compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All results are as expected.
    Pass,
    /// The first difference, in words.
    Fail(String),
    /// The workload has no expected results.
    Unchecked,
}

/// Compares the final contents of buffers with what is expected of them.
pub fn judge(job: &Job, after: &BTreeMap<String, HostBuffer>) -> Result<Verdict, SimError> {
    if job.spec.expect.is_empty() {
        return Ok(Verdict::Unchecked);
    }
    for expectation in &job.spec.expect {
        let Some(got) = after.get(&expectation.buffer) else { continue };
        let source = job.spec.source.as_ref();
        let expected =
            expected(job, expectation, got).map_err(|error| placed(error, expectation.place, source))?;
        if let Some(difference) = difference(&expectation.buffer, got, &expected, expectation.tolerance) {
            return Ok(Verdict::Fail(difference));
        }
    }
    Ok(Verdict::Pass)
}

fn expected(job: &Job, e: &Expectation, got: &HostBuffer) -> Result<HostBuffer, SimError> {
    if let Some(function) = &e.reference {
        return call(job, function, |_| true);
    }
    let mut bytes = Vec::new();
    match (&e.values, &e.file) {
        (Some(values), _) => {
            values.iter().try_for_each(|value| push_element(&mut bytes, got.ty, *value)).map_err(wrong)?;
        }
        (None, Some(file)) => bytes = data_file(job, file, &e.buffer, got.ty, got.len())?,
        (None, None) => {}
    }
    Ok(HostBuffer { ty: got.ty, bytes })
}

/// The first element that differs by more than the tolerance, in words.
fn difference(name: &str, got: &HostBuffer, expected: &HostBuffer, tolerance: Tolerance) -> Option<String> {
    if expected.is_empty() || expected.len() > got.len() || expected.ty.bytes() != got.ty.bytes() {
        return Some(format!(
            "{name} has {} elements of {} bytes; expected {} of {} bytes",
            got.len(),
            got.ty.bytes(),
            expected.len(),
            expected.ty.bytes()
        ));
    }
    let size = got.ty.bytes() as usize;
    if tolerance == Tolerance::Multiset {
        let sorted = |buffer: &HostBuffer| -> HostBuffer {
            let mut elements: Vec<&[u8]> = buffer.bytes.chunks(size).take(expected.len()).collect();
            elements.sort_unstable();
            HostBuffer { ty: buffer.ty, bytes: elements.concat() }
        };
        let name = format!("{name}, sorted by bytes, ");
        return difference(&name, &sorted(got), &sorted(expected), Tolerance::Exact);
    }
    for i in 0..expected.len() {
        let (a, b) = (&got.bytes[i * size..][..size], &expected.bytes[i * size..][..size]);
        if a == b {
            continue;
        }
        let (Some(x), Some(y)) = (got.number(i), expected.number(i)) else { continue };
        let near = match tolerance {
            Tolerance::Exact | Tolerance::Multiset => false,
            Tolerance::Ulp(n) => ulps(a, b) <= u64::from(n),
            Tolerance::Near { abs, rel } => {
                let apart = match (x, y) {
                    (Number::Int(x), Number::Int(y)) => x.abs_diff(y) as f64,
                    _ => (x.as_f64() - y.as_f64()).abs(),
                };
                apart <= abs + rel * y.as_f64().abs()
            }
        };
        if !near {
            return Some(format!("{name}[{i}] is {x}; expected {y}"));
        }
    }
    None
}

/// Distance of two floating-point values of equal size, in units in the last place.
fn ulps(a: &[u8], b: &[u8]) -> u64 {
    let ordered = |bytes: &[u8]| -> i64 {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(wide) as i64;
        let sign = 1i64 << (bytes.len() * 8 - 1);
        if bits & sign == 0 { bits } else { -(bits & !sign) }
    };
    ordered(a).abs_diff(ordered(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances() {
        let got = HostBuffer::from_f32(&[1.0, 2.0]);
        let next = HostBuffer::from_f32(&[1.0, f32::from_bits(2f32.to_bits() + 2)]);
        assert!(difference("x", &got, &next, Tolerance::Exact).is_some());
        assert!(difference("x", &got, &next, Tolerance::Ulp(1)).is_some());
        assert_eq!(difference("x", &got, &next, Tolerance::Ulp(2)), None);
        assert_eq!(difference("x", &got, &next, Tolerance::Near { abs: 1e-5, rel: 0.0 }), None);
        // A relative tolerance is of what is expected, not of what came out.
        let relative = Tolerance::Near { abs: 0.0, rel: 0.1 };
        let (one, more) = (HostBuffer::from_f32(&[1.0]), HostBuffer::from_f32(&[1.105]));
        assert_eq!(difference("x", &one, &more, relative), None);
        assert!(difference("x", &more, &one, relative).is_some());
        assert!(difference("x", &got, &HostBuffer::from_f32(&[]), Tolerance::Exact).is_some());
        let swapped = HostBuffer::from_f32(&[2.0, 1.0]);
        assert!(difference("x", &got, &swapped, Tolerance::Exact).is_some());
        assert_eq!(difference("x", &got, &swapped, Tolerance::Multiset), None);
        let twice = HostBuffer::from_f32(&[2.0, 2.0]);
        assert!(difference("x", &got, &twice, Tolerance::Multiset).is_some());
        assert_eq!(ulps(&0f32.to_le_bytes(), &(-0f32).to_le_bytes()), 0);
    }
}
