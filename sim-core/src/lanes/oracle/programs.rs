//! Random straight-line programs: the lane code of every instruction set against the oracle, one
//! operation after the other, on registers that earlier operations wrote.

use sim_frontend::form::{Form, register_bits};
use sim_frontend::isa::{OperandShape, Root, Shape, TABLE, resolve as resolve_form};
use sim_frontend::lower::tf1_validate;
use sim_frontend::program::{Op, Pred, Row};
use sim_memory::vocabulary::ScalarType as T;

use super::tests::with_parts;
use super::{Expected, Inputs, expected};
use crate::instruction_set::InstructionSet;
use crate::lanes::file::LaneFile;
use crate::lanes::tests::{data_forms, mix, op};
use crate::lanes::{immediate, resolve};
use crate::registers::LaneRow;

/// Registers of each width.
const REGISTERS: usize = 6;
/// Predicates.
const PREDICATES: usize = 4;

/// The first row of a register of 16, 32 or 64 bits.
fn row(width: u8, number: usize) -> usize {
    let class = match width {
        16 => 0,
        32 => 1,
        _ => 2,
    };
    2 * (class * REGISTERS + number)
}

/// An operation with the widths and rows of its operands.
struct Step {
    name: String,
    form: Form,
    op: Op,
    mask: u32,
    sources: Vec<(u8, usize)>,
    destination: Option<(u8, usize)>,
}

fn step(list: &[(&'static str, Vec<&'static str>)], seed: &mut u64) -> Option<Step> {
    let (name, modifiers) = &list[mix(seed) as usize % list.len()];
    let row_of = sim_frontend::isa::entry(name)?;
    let resolved = resolve_form(row_of, modifiers, false).ok()?;
    let mut form = resolved.form;
    if tf1_validate::modifiers(&form).is_err() {
        return None;
    }
    if sim_frontend::isa::is_video(form.root) {
        with_parts(&mut form, seed);
    }
    let mut operation = op();
    operation.src = [Row::NONE; 5];
    operation.dst = [Row::NONE; 4];
    (operation.pdst, operation.psrc) = ([Pred::NONE; 2], [Pred::NONE; 2]);
    let (mut sources, mut destination) = (Vec::new(), None);
    let (mut q, mut p) = (0, 0);
    let mut predicate = |negate: bool| {
        let bits = mix(seed);
        Pred((bits as usize % PREDICATES) as u16 | if negate && bits >> 32 & 1 == 1 { Pred::NOT } else { 0 })
    };
    if form.mods.cc {
        operation.pdst[0] = predicate(false);
    }
    if matches!(form.root, Root::Addc | Root::Subc | Root::Madc) {
        operation.psrc[0] = predicate(false);
    }
    let mut shapes: Vec<OperandShape> = resolved.operands.to_vec();
    if form.root == Root::Mov {
        let source = if form.ty == T::Pred { Shape::Predicate } else { Shape::Source(None, false) };
        let target = if form.ty == T::Pred { Shape::PredicateDestination } else { Shape::Destination(None) };
        shapes = [target, source].map(|shape| OperandShape { shape, pair: false, optional: false }).to_vec();
    }
    for shape in &shapes {
        match shape.shape {
            Shape::Destination(ty) | Shape::DestinationPart(ty) => {
                // That of `cvt.pack` is larger than what it is packed from.
                let width = match ty {
                    None if form.root == Root::Cvt => form.dst_reg,
                    _ => register_bits(ty.unwrap_or(form.dst)),
                };
                destination = Some((width, 0));
            }
            Shape::PredicateDestination => {
                operation.pdst[q] = predicate(false);
                q += 1;
                if shape.pair {
                    let second = predicate(false);
                    if second != operation.pdst[0] {
                        operation.pdst[q] = second;
                    }
                }
            }
            Shape::Source(ty, result) => {
                let ty = ty.unwrap_or(if result { form.dst } else { form.ty });
                sources.push((
                    if form.root == Root::Cvt && sources.is_empty() {
                        form.src_reg
                    } else {
                        register_bits(ty)
                    },
                    0,
                ));
            }
            Shape::Part(_) | Shape::Immediate => sources.push((32, 0)),
            Shape::Predicate => {
                operation.psrc[p] = predicate(true);
                p += 1;
            }
            _ => return None,
        }
        if shape.pair && !matches!(shape.shape, Shape::PredicateDestination) {
            operation.pdst[0] = predicate(false);
        }
    }
    if form.asks_for_rank() {
        sources.push((32, 0));
    }
    let mut place = |width: u8| {
        let number = mix(seed) as usize % REGISTERS;
        (width, row(width, number))
    };
    for (k, source) in sources.iter_mut().enumerate() {
        *source = place(source.0);
        operation.src[k] = Row(source.1 as u16);
    }
    if let Some(target) = &mut destination {
        *target = place(target.0);
        operation.dst[0] = Row(target.1 as u16);
    }
    operation.imm = immediate(&form).unwrap_or(0);
    let mask = if mix(seed).is_multiple_of(3) { mix(seed) as u32 } else { u32::MAX };
    Some(Step {
        name: format!("{name}.{}", modifiers.join(".")),
        form,
        op: operation,
        mask,
        sources,
        destination,
    })
}

#[test]
fn random_straight_line_programs_agree_with_the_oracle_under_every_instruction_set() {
    let sets = InstructionSet::available();
    let list: Vec<(&str, Vec<&str>)> = TABLE
        .iter()
        .filter(|row| row.executed() && row.of_lanes())
        .flat_map(|row| data_forms(row).map(|modifiers| (row.name, modifiers)))
        .collect();
    let mut steps = 0;
    for program in 0..300u64 {
        let mut seed = 77 + program;
        let rows = 3 * 2 * REGISTERS;
        let mut start = vec![LaneRow([0; 32]); rows];
        for (at, lanes) in start.iter_mut().enumerate() {
            for lane in &mut lanes.0 {
                let bits = mix(&mut seed);
                *lane = match (at < 2 * REGISTERS, bits >> 60) {
                    (true, _) => bits as u32 & 0xffff,
                    (_, 0..6) => bits as u32 % 40,
                    (_, 6..9) => ((bits as i32 as f32) / 1e5).to_bits(),
                    _ => bits as u32,
                };
            }
        }
        let preds: Vec<u32> = (0..PREDICATES).map(|_| mix(&mut seed) as u32).collect();
        let mut files: Vec<_> = sets.iter().map(|_| (start.clone(), preds.clone())).collect();
        let (mut values, mut truths) = (start, preds);
        for _ in 0..60 {
            let Some(step) = step(&list, &mut seed) else { continue };
            // The oracle's step, one lane after the other; approximations are left out.
            let (old, old_truths) = (values.clone(), truths.clone());
            let mut exact = true;
            for lane in (0..32).filter(|lane| step.mask >> lane & 1 == 1) {
                let truth = |p: Pred| p.is_some() && (old_truths[p.index()] >> lane & 1 == 1) != p.negated();
                let mut input = Inputs { src: [0; 5], psrc: step.op.psrc.map(truth) };
                for (k, (width, at)) in step.sources.iter().enumerate() {
                    let high = if *width == 64 { u64::from(old[at + 1].0[lane]) << 32 } else { 0 };
                    input.src[k] = u64::from(old[*at].0[lane]) | high;
                }
                let mut set = |p: Pred, value: bool| {
                    if p.is_some() {
                        let bits = &mut truths[p.index()];
                        *bits = *bits & !(1 << lane) | u32::from(value) << lane;
                    }
                };
                let bits = match expected(&step.form, &input).unwrap_or_else(|| panic!("{}", step.name)) {
                    Expected::Bits(bits) => Some(bits),
                    Expected::BitsAndPredicate(bits, q) => {
                        set(step.op.pdst[0], q);
                        Some(bits)
                    }
                    Expected::Predicates(q, r) => {
                        set(step.op.pdst[0], q);
                        set(step.op.pdst[1], r.unwrap_or(false));
                        None
                    }
                    Expected::Near(_) | Expected::NearPair(..) => {
                        exact = false;
                        None
                    }
                };
                if let (Some(bits), Some((width, at))) = (bits, step.destination) {
                    values[at].0[lane] = bits as u32;
                    if width == 64 {
                        values[at + 1].0[lane] = (bits >> 32) as u32;
                    }
                }
            }
            if !exact {
                (values, truths) = (old, old_truths);
                continue;
            }
            steps += 1;
            for ((rows, preds), set) in files.iter_mut().zip(&sets) {
                let function = resolve(&step.form, *set).unwrap_or_else(|| panic!("{}", step.name));
                let mut file = LaneFile { rows, consts: &[], preds };
                // SAFETY: `available` found the instruction set on this host.
                unsafe { function(&mut file, &step.op, step.mask) };
                assert!(
                    *rows == values && *preds == truths,
                    "program {program}: {} with {}, operands {:?} to {:?}",
                    step.name,
                    set.name(),
                    step.sources,
                    step.destination
                );
            }
        }
    }
    assert!(steps > 5_000, "{steps}");
}
