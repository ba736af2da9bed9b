//! Mapping tables: which PTX instructions an operation of C++ becomes.

use std::collections::BTreeMap;

use sim_frontend::diagnostic::{Diagnostic, Source, Span};

use super::program::{MemoryOrder, Mode, OpKind};
use crate::litmus::program::{Order, Scope};

/// The table of MM figure 11.
pub const FIG11: &str = include_str!("../../../data/mappings/fig11.map");

/// A PTX instruction of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// It is a fence, not the access itself.
    pub fence: bool,
    /// Its semantics.
    pub order: Order,
    /// Its scope; none for weak accesses.
    pub scope: Option<Scope>,
}

/// A mapping table.
#[derive(Clone, Debug)]
pub struct Table {
    rows: BTreeMap<(OpKind, MemoryOrder, Option<Scope>), Vec<Instruction>>,
}

const SCOPES: [Scope; 3] = [Scope::Cta, Scope::Gpu, Scope::Sys];

impl Table {
    /// The instructions of an operation.
    pub fn compile(&self, kind: OpKind, mode: Mode) -> &[Instruction] {
        self.rows.get(&(kind, mode.order, mode.scope)).map_or(&[], Vec::as_slice)
    }

    /// An access that is no stronger than what an operation becomes with any of these modes; none for fences.
    pub fn weakest(&self, kind: OpKind, modes: &[Mode]) -> Option<Instruction> {
        let images = modes.iter().flat_map(|mode| self.compile(kind, *mode)).filter(|i| !i.fence);
        let mut images = images.filter(|_| kind.accesses()).peekable();
        images.peek()?;
        let scope = images.map(|i| i.scope).min().flatten();
        let order = if scope.is_some() { Order::Relaxed } else { Order::Weak };
        Some(Instruction { fence: false, order, scope })
    }

    /// Reads a table: a row for each operation and memory order.
    ///
    /// # Errors
    /// A row cannot be read, names instructions that do not fit, or is missing.
    pub fn parse(name: &str, text: &str) -> Result<Self, Diagnostic> {
        let source = Source::new(name, text);
        let mut rows = BTreeMap::new();
        for line in source.text.lines() {
            let content = line.split('#').next().unwrap_or("").trim();
            let Some((left, right)) = content.split_once(char::is_whitespace) else {
                if content.is_empty() {
                    continue;
                }
                let error = Diagnostic::error("mapping", "the PTX instructions of this row are missing");
                return Err(error.at(source.span_of(content), "").in_source(&source));
            };
            row(&source, left, right.trim(), &mut rows)?;
        }
        for kind in OpKind::ALL {
            for order in kind.orders() {
                for scope in scopes(*order) {
                    if !rows.contains_key(&(kind, *order, scope)) {
                        let mode = Mode { order: *order, scope };
                        let message = format!("there is no row for `{}.{mode}`", kind.letter());
                        return Err(Diagnostic::error("mapping", message)
                            .at(Span::default(), "")
                            .in_source(&source));
                    }
                }
            }
        }
        Ok(Self { rows })
    }

    /// Rows that differ from those of another table.
    pub fn differing(&self, other: &Self) -> Vec<(OpKind, Mode)> {
        let differ = self.rows.iter().filter(|(key, row)| other.rows.get(key) != Some(row));
        differ.map(|((kind, order, scope), _)| (*kind, Mode { order: *order, scope: *scope })).collect()
    }
}

fn scopes(order: MemoryOrder) -> Vec<Option<Scope>> {
    if order == MemoryOrder::Na { vec![None] } else { SCOPES.map(Some).to_vec() }
}

type Rows = BTreeMap<(OpKind, MemoryOrder, Option<Scope>), Vec<Instruction>>;

fn row(source: &Source, left: &str, right: &str, rows: &mut Rows) -> Result<(), Diagnostic> {
    let error = |part: &str, message: String| {
        Diagnostic::error("mapping", message).at(source.span_of(part), "").in_source(source)
    };
    let mut words = left.split('.');
    let (letter, order, scope) = (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next());
    let Some(kind) = OpKind::ALL.into_iter().find(|kind| letter == kind.letter().to_string()) else {
        return Err(
            error(left, format!("`{letter}` is not an operation")).help("operations are R, W, U and F")
        );
    };
    let Some(order) = kind.orders().iter().find(|o| o.name() == order) else {
        let names: Vec<String> = kind.orders().iter().map(|o| format!("`{letter}.{}`", o.name())).collect();
        let message = format!("`{letter}` cannot be `{order}`");
        return Err(error(left, message).help(format!("rows are {}", names.join(", "))));
    };
    let of_scope = match scope {
        None => None,
        Some(word) => match SCOPES.into_iter().find(|s| s.name() == word) {
            Some(scope) if *order != MemoryOrder::Na => Some(scope),
            _ => {
                return Err(error(left, format!("`{word}` is not a scope of this row"))
                    .help("scopes are cta, gpu, sys"));
            }
        },
    };
    for scope in scopes(*order) {
        if of_scope.is_some() && scope != of_scope {
            continue;
        }
        let mut list = Vec::new();
        for part in right.split(';').map(str::trim) {
            list.push(instruction(kind, part, scope).map_err(|message| error(part, message))?);
        }
        if list.iter().filter(|i| !i.fence).count() != usize::from(kind.accesses()) {
            let message = format!("`{left}` needs {} access", if kind.accesses() { "one" } else { "no" });
            return Err(error(right, message));
        }
        let before = rows.insert((kind, *order, scope), list);
        if before.is_some() && of_scope.is_none() {
            return Err(error(left, format!("there are two rows for `{left}`"))
                .help("a row for one scope comes last"));
        }
    }
    Ok(())
}

/// `ld.acquire.SCOPE` and the like.
fn instruction(kind: OpKind, text: &str, scope: Option<Scope>) -> Result<Instruction, String> {
    let mut words = text.split('.');
    let (root, order, level) = (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next());
    let fence = root == "fence";
    let access = match kind {
        OpKind::Read => "ld",
        OpKind::Write => "st",
        OpKind::Update => "atom",
        OpKind::Fence => "fence",
    };
    if !fence && root != access {
        return Err(format!(
            "`{root}` cannot implement `{}`; allowed instructions: `{access}`, `fence`",
            kind.letter()
        ));
    }
    let legal: &[Order] = match root {
        "fence" => &[Order::Acquire, Order::Release, Order::AcqRel, Order::Sc],
        "ld" => &[Order::Weak, Order::Relaxed, Order::Acquire],
        "st" => &[Order::Weak, Order::Relaxed, Order::Release],
        _ => &[Order::Relaxed, Order::Acquire, Order::Release, Order::AcqRel],
    };
    let Some(order) = legal.iter().find(|o| o.name() == order) else {
        return Err(format!("`{root}` cannot be `.{order}`"));
    };
    let scope = match (level, *order) {
        (None, Order::Weak) => None,
        (Some(_), Order::Weak) => return Err("a weak operation has no scope".to_string()),
        (Some("SCOPE"), _) => Some(scope.ok_or("an operation that is not atomic has no scope")?),
        (Some(word), _) => match SCOPES.into_iter().find(|s| s.name() == word) {
            Some(scope) => Some(scope),
            None => return Err(format!("`{word}` is not a scope: cta, gpu, sys or SCOPE")),
        },
        (None, _) => return Err(format!("`{text}` needs a scope: cta, gpu, sys or SCOPE")),
    };
    Ok(Instruction { fence, order: *order, scope })
}
