//! Prints instructions as PTX: what was parsed, printed, parses to the same.

use std::fmt::Write;

use super::ast::{Instruction, Operand, OperandKind};
use super::parser::parse_instruction;
use crate::diagnostic::{Source, Span};

/// Root and modifiers.
pub fn opcode(instruction: &Instruction<'_>) -> String {
    let mut out = String::from(instruction.root);
    for modifier in instruction.modifiers() {
        let _ = write!(out, ".{modifier}");
    }
    out
}

/// The instruction at a place of a text that was parsed.
pub fn written(source: &Source, span: Span, papers: bool) -> String {
    let text = source.text.get(span.start as usize..span.end as usize).unwrap_or_default();
    let alone = Source::new(&source.name, &format!("{text};"));
    parse_instruction(&alone, papers).map_or_else(|| text.to_string(), |found| instruction(&found))
}

/// An instruction without its semicolon.
pub fn instruction(instruction: &Instruction<'_>) -> String {
    let mut out = String::new();
    if let Some(guard) = instruction.guard {
        let _ = write!(out, "@{}{} ", if guard.negated { "!" } else { "" }, guard.name);
    }
    out.push_str(&opcode(instruction));
    for (i, operand) in instruction.operands.iter().enumerate() {
        out.push_str(if i == 0 { " " } else { ", " });
        print(&mut out, operand);
    }
    out
}

fn list(out: &mut String, operands: &[Operand<'_>]) {
    for (i, operand) in operands.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        print(out, operand);
    }
}

fn offset(out: &mut String, name: &str, offset: i64) {
    out.push_str(name);
    match offset {
        0 => {}
        1.. => {
            let _ = write!(out, "+{offset}");
        }
        _ => {
            let _ = write!(out, "+-{}", offset.unsigned_abs());
        }
    }
}

fn print(out: &mut String, operand: &Operand<'_>) {
    let _ = match &operand.kind {
        OperandKind::Name(name) => write!(out, "{name}"),
        OperandKind::Not(name) => write!(out, "!{name}"),
        OperandKind::Component(name, component) => write!(out, "{name}.{component}"),
        OperandKind::Negated(name, part) => match part {
            Some(part) => write!(out, "-{name}.{part}"),
            None => write!(out, "-{name}"),
        },
        OperandKind::Offset { name, offset: by, generic } => {
            if *generic {
                offset(out, &format!("generic({name})"), *by);
            } else {
                offset(out, name, *by);
            }
            Ok(())
        }
        OperandKind::Int(value) => write!(out, "{}", value.value()),
        OperandKind::Float32(bits) => write!(out, "0f{bits:08X}"),
        OperandKind::Float64(bits) => write!(out, "0d{bits:016X}"),
        OperandKind::Vector(operands) => {
            out.push('{');
            list(out, operands);
            out.push('}');
            Ok(())
        }
        OperandKind::List(operands) => {
            out.push('(');
            list(out, operands);
            out.push(')');
            Ok(())
        }
        OperandKind::Address { base, offset: by } => {
            out.push('[');
            match base {
                Some(base) => offset(out, base, *by),
                None => {
                    let _ = write!(out, "{by}");
                }
            }
            out.push(']');
            Ok(())
        }
        OperandKind::Texture(operands) => {
            out.push('[');
            list(out, operands);
            out.push(']');
            Ok(())
        }
        OperandKind::Pair(a, b) => {
            print(out, a);
            out.push('|');
            print(out, b);
            Ok(())
        }
        OperandKind::Sink => write!(out, "_"),
    };
}
