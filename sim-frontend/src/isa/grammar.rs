//! The grammar that the rows of the table are written in.

use std::sync::OnceLock;

use sim_memory::vocabulary::ScalarType;

use super::table::{Entry, Root, TABLE, word_target};

/// What an operand of an instruction may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A destination register; its type where it is not the form's.
    Destination(Option<ScalarType>),
    /// A predicate destination.
    PredicateDestination,
    /// A register or constant; its type where it is not the form's. The Boolean says that it has
    /// the type of the result.
    Source(Option<ScalarType>, bool),
    /// A predicate.
    Predicate,
    /// `[…]`.
    Address,
    /// `[texture, coordinates]` or `[texture, sampler, coordinates]`.
    Texture,
    /// A register, constant or vector.
    Vector,
    /// A label or symbol.
    Label,
    /// A register, constant or part of a register (`%r1.b0`); the Boolean allows a minus.
    Part(bool),
    /// A register or part of one that takes the result.
    DestinationPart(Option<ScalarType>),
    /// An integer constant.
    Immediate,
    /// Anything, any number of times.
    Anything,
}

/// One operand of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandShape {
    /// The kind of operand.
    pub shape: Shape,
    /// A second, predicate destination may follow after `|`.
    pub pair: bool,
    /// It may be left out.
    pub optional: bool,
}

/// How often words of a group stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupKind {
    /// One of them.
    One,
    /// At most one.
    Optional,
    /// Any number, in any order.
    Any,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) kind: GroupKind,
    pub(super) words: Vec<&'static str>,
}

/// Why a form is none of later modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Legacy {
    /// Up to PTX ISA 1.4.
    Version,
    /// For targets below sm_20.
    Target,
}

/// Targets whose features other targets do not have: their names end in `a` (one architecture) or `f` (a
/// family of them).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Architectures {
    /// The least of them (major * 10 + minor).
    pub least: u32,
    /// Those from here on do not have the form, if some do not.
    pub below: Option<u32>,
    /// Families do not have it either.
    pub no_families: bool,
}

impl Architectures {
    /// The target `sm_NUMBER` or `compute_NUMBER` is one of them.
    pub fn has(&self, number: &str) -> bool {
        let suffixes: &[char] = if self.no_families { &['a'] } else { &['a', 'f'] };
        number
            .strip_suffix(suffixes)
            .and_then(|number| number.parse().ok())
            .is_some_and(|number: u32| number >= self.least && self.below.is_none_or(|below| number < below))
    }

    /// What `.target` must name.
    pub fn wanted(&self) -> String {
        let suffix = if self.no_families { "`a`" } else { "`a` or `f`" };
        match self.below {
            // There is none between.
            Some(100) if self.least == 90 => "sm_90a".into(),
            Some(below) => {
                format!("sm_{}a, or a higher one below sm_{below} with the suffix {suffix}", self.least)
            }
            None => format!("sm_{}a, or a higher one with the suffix {suffix}", self.least),
        }
    }
}

/// One form of a row.
#[derive(Clone, Debug)]
pub(super) struct Grammar {
    pub(super) groups: Vec<Group>,
    pub(super) operands: Vec<OperandShape>,
    pub(super) executed: bool,
    pub(super) min_sm: u32,
    pub(super) legacy: Option<Legacy>,
    pub(super) architectures: Option<Architectures>,
    pub(super) version: (u32, u32),
}

/// Shapes of `wgmma` with this depth: N is a multiple of 8, or of 16 from 32 on.
macro_rules! shapes {
    ($k:literal) => {
        shapes!($k, 8 16 24 32 40 48 56 64 72 80 88 96 104 112 120 128 136 144 152 160 168 176 184 192 200 208 216 224
            232 240 248 256)
    };
    ($k:literal, by 16) => {
        shapes!($k, 8 16 24 32 48 64 80 96 112 128 144 160 176 192 208 224 240 256)
    };
    ($k:literal, $first:literal $($n:literal)+) => {
        concat!("m64n", $first, "k", $k $(, " m64n", $n, "k", $k)+)
    };
}

/// Lists of words that many rows share.
const LISTS: &[(&str, &str)] = &[
    ("$rnd", "rn rz rm rp"),
    ("$irnd", "rni rzi rmi rpi"),
    ("$int", "u16 u32 u64 s16 s32 s64"),
    ("$words", "b16 b32 b64 u16 u32 u64 s16 s32 s64"),
    ("$cvt", "u8 u16 u32 u64 s8 s16 s32 s64 f16 f32 f64"),
    ("$memory", "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"),
    ("$atomic", "u32 s32 u64 s64 b32 b64 f64"),
    ("$icmp", "eq ne lt le gt ge lo ls hi hs"),
    ("$fcmp", "eq ne lt le gt ge equ neu ltu leu gtu geu num nan"),
    ("$scope", "cta cluster gpu sys"),
    ("$ordering", "relaxed acquire release acq_rel"),
    ("$shared", "shared shared::cta"),
    ("$spaces", "const global local param param::entry param::func shared shared::cta"),
    ("$evict", "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate"),
    ("$l2evict", "L2::evict_last L2::evict_first L2::evict_normal"),
    ("$prefetch", "L2::64B L2::128B L2::256B"),
    ("$flat", "1d 2d 3d a1d a2d"),
    ("$m64nNk8", shapes!(8)),
    ("$m64nNk16", shapes!(16)),
    ("$m64nNk32", shapes!(32)),
    ("$m64nNk64", shapes!(64)),
    ("$m64nMk32", shapes!(32, by 16)),
    ("$m64nMk64", shapes!(64, by 16)),
    ("$m64nMk256", shapes!(256, by 16)),
];

/// The forms of a root.
pub(super) fn grammars(root: Root) -> &'static [Grammar] {
    static GRAMMARS: OnceLock<Vec<Vec<Grammar>>> = OnceLock::new();
    let all = GRAMMARS.get_or_init(|| {
        TABLE.iter().map(|entry| entry.forms.iter().map(|form| grammar(form)).collect()).collect()
    });
    &all[root as usize]
}

/// Words of a group, lists spelled out.
fn words(text: &'static str) -> Vec<&'static str> {
    let mut out = Vec::new();
    for word in text.split(' ') {
        match LISTS.iter().find(|(name, _)| *name == word) {
            Some((_, list)) => out.extend(list.split(' ')),
            None => out.push(word),
        }
    }
    out
}

/// Parses a row's form. The rows are constants; a test reads them all.
pub(super) fn grammar(text: &'static str) -> Grammar {
    let (modifiers, operands) = text.split_once("->").unwrap_or((text, ""));
    let mut rest = modifiers.trim();
    let (mut executed, mut min_sm, mut legacy, mut architectures) = (true, 0, None, None);
    let mut version = (0, 0);
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('~') {
            (executed, rest) = (false, after);
        } else if let Some(after) = rest.strip_prefix('@') {
            let number = |text: &'static str| {
                let digits = text.bytes().take_while(u8::is_ascii_digit).count();
                (text[..digits].parse::<u32>().unwrap_or(0), &text[digits..])
            };
            (min_sm, rest) = number(after);
            let mut below = None;
            if let Some(after) = rest.strip_prefix('-') {
                let (least_without, after) = number(after);
                (below, rest) = (Some(least_without), after);
            }
            if let Some(after) = rest.strip_prefix(['a', 'x']) {
                let no_families = rest.starts_with('x');
                (architectures, rest) = (Some(Architectures { least: min_sm, below, no_families }), after);
            }
        } else if let Some(after) = rest.strip_prefix('v') {
            let end = after.find(' ').unwrap_or(after.len());
            let (major, minor) = after[..end].split_once('.').unwrap_or((&after[..end], "0"));
            version = (major.parse().unwrap_or(0), minor.parse().unwrap_or(0));
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix("!1.4") {
            (legacy, rest) = (Some(Legacy::Version), after);
        } else if let Some(after) = rest.strip_prefix("!20") {
            (legacy, rest) = (Some(Legacy::Target), after);
        } else {
            break;
        }
    }
    let mut groups = Vec::new();
    while let Some(open) = rest.chars().next() {
        let (kind, close) = match open {
            '{' => (GroupKind::One, '}'),
            '[' => (GroupKind::Optional, ']'),
            _ => (GroupKind::Any, '>'),
        };
        let end = rest.find(close).unwrap_or(rest.len() - 1);
        groups.push(Group { kind, words: words(&rest[1..end]) });
        rest = rest[end + 1..].trim_start();
    }
    let operands = operands.split_whitespace().map(operand).collect();
    Grammar { groups, operands, executed, min_sm, legacy, architectures, version }
}

fn operand(word: &str) -> OperandShape {
    let optional = word.starts_with('(');
    let word = word.trim_matches(['(', ')']);
    let (word, pair) = word.strip_suffix("|q").map_or((word, false), |w| (w, true));
    let (kind, ty) = word.split_once(':').map_or((word, None), |(k, t)| (k, Some(t)));
    let dst = ty == Some("dst");
    let ty = ty.and_then(ScalarType::named);
    let shape = match kind {
        "d" => Shape::Destination(ty),
        "y" => Shape::DestinationPart(ty),
        "q" => Shape::PredicateDestination,
        "p" => Shape::Predicate,
        "m" => Shape::Address,
        "t" => Shape::Texture,
        "v" => Shape::Vector,
        "x" => Shape::Part(false),
        "n" => Shape::Part(true),
        "i" => Shape::Immediate,
        "L" => Shape::Label,
        "*" => Shape::Anything,
        _ => Shape::Source(ty, dst),
    };
    OperandShape { shape, pair, optional }
}

/// A form of a row, for people and other programs.
#[derive(Clone, Debug, serde::Serialize)]
pub struct FormListing {
    /// As the manual writes it: `.(a|b)` one of these, `[.a|.b]` at most one, `[.a|.b]*` any number.
    pub syntax: String,
    /// Executed, or parsed and checked only.
    pub executed: bool,
    /// Least target (major * 10 + minor).
    pub min_sm: u32,
    /// Not valid in later modules.
    pub legacy: Option<Legacy>,
    /// Only targets with these features have it.
    pub architectures: Option<Architectures>,
    /// Least PTX ISA (major, minor), where the table says one.
    pub min_version: Option<(u32, u32)>,
    /// Modifiers that need a higher target than the form.
    pub word_targets: Vec<(&'static str, u32)>,
    /// Groups of modifiers: how often words of it stand (`one`, `optional`, `any`), and the words.
    pub groups: Vec<(&'static str, Vec<&'static str>)>,
    /// Operands as the table writes them.
    pub operands: Vec<&'static str>,
}

/// The forms of a row.
pub fn listing(entry: &Entry) -> Vec<FormListing> {
    let spelled = |group: &Group| -> String {
        let dotted: Vec<String> = group.words.iter().map(|word| format!(".{word}")).collect();
        match (group.kind, group.words.as_slice()) {
            // Of many shapes the first and the last.
            (GroupKind::One, [first, _, _, .., last]) if first.starts_with("m64n") => {
                format!(".({first}|…|{last})")
            }
            (GroupKind::One, [word]) => format!(".{word}"),
            (GroupKind::One, words) => format!(".({})", words.join("|")),
            (GroupKind::Optional, _) => format!("[{}]", dotted.join("|")),
            (GroupKind::Any, _) => format!("[{}]*", dotted.join("|")),
        }
    };
    let name = |operand: &'static str| -> String {
        let (bare, ty) = operand.trim_matches(['(', ')']).split_once(':').unwrap_or((operand, ""));
        let bare = bare.trim_matches(['(', ')']);
        let pair = if operand.contains("|q") { "[|q]" } else { "" };
        let what = match bare.trim_end_matches("|q") {
            "m" => "[a]",
            "t" => "[a, {s,} c]",
            "L" => "label",
            "*" => "...",
            "i" => "immediate",
            "x" => "a[.part]",
            "y" => "d[.part]",
            "n" => "[-]a[.part]",
            "v" => "v",
            other => other,
        };
        let ty = match ty.trim_end_matches("|q").trim_end_matches(')') {
            "" | "dst" => String::new(),
            ty => format!(":{ty}"),
        };
        if operand.starts_with('(') { format!("[{what}{ty}]") } else { format!("{what}{ty}{pair}") }
    };
    let grammars = grammars(entry.root);
    entry
        .forms
        .iter()
        .zip(grammars)
        .map(|(text, grammar)| {
            let operands: Vec<&str> =
                text.split_once("->").map_or(Vec::new(), |(_, list)| list.split_whitespace().collect());
            let list: Vec<String> = operands.iter().map(|operand| name(operand)).collect();
            let modifiers: String = grammar.groups.iter().map(spelled).collect();
            FormListing {
                syntax: format!("{}{modifiers} {}", entry.name, list.join(", ")).trim_end().to_string(),
                executed: grammar.executed,
                min_sm: entry.min_sm.max(grammar.min_sm),
                legacy: grammar.legacy,
                architectures: grammar.architectures,
                min_version: Some(grammar.version).filter(|version| *version > (0, 0)),
                word_targets: grammar
                    .groups
                    .iter()
                    .flat_map(|group| &group.words)
                    .map(|word| (*word, word_target(entry.root, word)))
                    .filter(|(_, target)| *target > entry.min_sm.max(grammar.min_sm))
                    .collect(),
                groups: grammar
                    .groups
                    .iter()
                    .map(|group| {
                        let kind = match group.kind {
                            GroupKind::One => "one",
                            GroupKind::Optional => "optional",
                            GroupKind::Any => "any",
                        };
                        (kind, group.words.clone())
                    })
                    .collect(),
                operands,
            }
        })
        .collect()
}
