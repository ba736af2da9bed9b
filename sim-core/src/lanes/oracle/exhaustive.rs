//! The approximate functions over all of single precision, as a command:
//!
//! ```text
//! cargo test --release -p sim-core --lib exhaustive -- --ignored --nocapture
//! ```
//!
//! It prints the greatest error of each function beside the manual's bound and fails where one is
//! exceeded. `WARPSIM_STRIDE=1009` looks at every 1009th value only.

use sim_frontend::form::Form;
use sim_frontend::isa::{entry, resolve as resolve_form};

use super::{Bound, Expected, Inputs, expected};
use crate::instruction_set::InstructionSet;
use crate::lanes::file::LaneFile;
use crate::lanes::tests::op;
use crate::lanes::{immediate, resolve};
use crate::registers::LaneRow;

/// Greatest error of a function, as a share of what the manual allows, and where.
#[derive(Clone, Copy, Debug, Default)]
struct Worst {
    share: f64,
    relative: f64,
    absolute: f64,
    at: u32,
}

fn form(text: &str) -> Form {
    let mut words = text.split('.');
    let row = words.next().and_then(entry).unwrap_or_else(|| panic!("{text}"));
    resolve_form(row, &words.collect::<Vec<_>>(), false).unwrap_or_else(|e| panic!("{text} {e:?}")).form
}

/// Errors of `form` for the values `first + k * stride` below 2^32; special values must be exact.
fn measure(form: &Form, first: u64, stride: u64) -> Worst {
    let function = resolve(form, InstructionSet::detect()).expect("an executed form");
    let mut operation = op();
    operation.imm = immediate(form).unwrap_or(0);
    let mut rows = vec![LaneRow([0; 32]); 20];
    let mut worst = Worst::default();
    let mut at = first;
    while at <= u64::from(u32::MAX) {
        let value = |lane: usize| (at + lane as u64 * stride).min(u64::from(u32::MAX)) as u32;
        for lane in 0..32 {
            rows[0].0[lane] = value(lane);
            // A divisor that has no nice reciprocal.
            rows[2].0[lane] = 0x4049_0fdb;
        }
        let mut file = LaneFile { rows: &mut rows, consts: &[], preds: &mut [0; 4] };
        // SAFETY: `detect` found the instruction set on this host.
        unsafe { function(&mut file, &operation, u32::MAX) };
        for lane in 0..32 {
            let input = Inputs { src: [value(lane).into(), 0x4049_0fdb, 0, 0, 0], psrc: [false; 2] };
            let Some(Expected::Near(bound)) = expected(form, &input) else { panic!("no bound") };
            let Bound { value: exact, relative, absolute, .. } = bound;
            let got = f64::from(f32::from_bits(rows[16].0[lane]));
            if exact.is_nan() || got.is_nan() {
                assert!(exact.is_nan() && rows[16].0[lane] == 0x7fff_ffff, "{:#x}", value(lane));
                continue;
            }
            let largest = f64::from(f32::MAX);
            let (exact, got) = (exact.clamp(-largest, largest), got.clamp(-largest, largest));
            let error = (got - exact).abs();
            let allowed = absolute.max(relative * exact.abs());
            let share = if error == 0.0 { 0.0 } else { error / allowed };
            if share > worst.share {
                let relative = if exact == 0.0 { 0.0 } else { error / exact.abs() };
                worst = Worst { share, relative, absolute: error, at: value(lane) };
            }
        }
        at += 32 * stride;
    }
    worst
}

#[test]
#[ignore = "minutes to hours: the whole of single precision"]
fn exhaustive_errors_of_the_approximate_functions() {
    let stride = std::env::var("WARPSIM_STRIDE").ok().and_then(|s| s.parse().ok()).unwrap_or(1u64);
    let workers = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let functions = [
        "rcp.approx.f32",
        "rcp.approx.ftz.f32",
        "sqrt.approx.f32",
        "sqrt.approx.ftz.f32",
        "rsqrt.approx.f32",
        "rsqrt.approx.ftz.f32",
        "sin.approx.f32",
        "cos.approx.f32",
        "lg2.approx.f32",
        "lg2.approx.ftz.f32",
        "ex2.approx.f32",
        "ex2.approx.ftz.f32",
        "tanh.approx.f32",
        "div.approx.f32",
        "div.full.f32",
    ];
    let mut exceeded = Vec::new();
    for text in functions {
        let form = form(text);
        let worst = std::thread::scope(|scope| {
            // Each worker takes whole groups of 32 values in turn.
            let handles: Vec<_> = (0..workers)
                .map(|worker| scope.spawn(move || measure(&form, worker * stride, workers * stride)))
                .collect();
            let results =
                handles.into_iter().map(|handle| handle.join().expect("a worker that does not panic"));
            results.fold(Worst::default(), |a, b| if b.share > a.share { b } else { a })
        });
        println!(
            "{text:22} worst at {:#010x} ({:e}): relative 2^{:.2}, absolute 2^{:.2}, {:.3} of what is allowed",
            worst.at,
            f32::from_bits(worst.at),
            worst.relative.log2(),
            worst.absolute.log2(),
            worst.share
        );
        if worst.share > 1.0 {
            exceeded.push(text);
        }
    }
    assert!(exceeded.is_empty(), "beyond the manual's bounds: {exceeded:?}");
}
