//! The syntax tree of a PTX module. Names are slices of the text.

use sim_memory::address_space::LOCAL_PHYSICAL;
use sim_memory::vocabulary::{ScalarType, StateSpace};

use crate::diagnostic::Span;

/// A module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module<'a> {
    /// `.version`, major and minor.
    pub version: Option<(u32, u32)>,
    /// `.target` words.
    pub target: Vec<&'a str>,
    /// `.address_size`: 32 or 64.
    pub address_size: Option<u32>,
    /// The papers' dialect.
    pub papers: bool,
    /// `.file` numbers and names.
    pub files: Vec<(u32, &'a str)>,
    /// Module-scope variables.
    pub variables: Vec<Variable<'a>>,
    /// Functions and entries.
    pub functions: Vec<Function<'a>>,
    /// `.pragma "nounroll";`: no loop is unrolled.
    pub keeps_loops: bool,
}

/// The string of the pragma that keeps loops as they are, and its name among the bounds of a function.
pub const NO_UNROLL: &str = "nounroll";

/// Most bytes of a variable: global memory ends where local memory begins in physical memory.
pub const MAX_VARIABLE: u64 = LOCAL_PHYSICAL;

/// Where a variable or register lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// `.reg`.
    Register,
    /// A state space.
    Space(StateSpace),
}

/// An opaque type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opaque {
    /// `.texref`.
    Texture,
    /// `.samplerref`.
    Sampler,
    /// `.surfref`.
    Surface,
}

impl Opaque {
    /// As PTX writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Texture => ".texref",
            Self::Sampler => ".samplerref",
            Self::Surface => ".surfref",
        }
    }
}

/// A variable, register or parameter declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable<'a> {
    /// Where it lives.
    pub storage: Storage,
    /// Element type (untyped in the papers' dialect: `b32`).
    pub ty: ScalarType,
    /// It is declared with an opaque type; its value is a handle.
    pub opaque: Option<Opaque>,
    /// Elements of `.v2`, `.v4`; 1 otherwise.
    pub vector: u32,
    /// `.align` in bytes.
    pub align: Option<u32>,
    /// Name.
    pub name: &'a str,
    /// `name<N>` declares `name0` … `nameN-1`.
    pub count: Option<u32>,
    /// Array dimensions; `None` for `[]`.
    pub dims: Vec<Option<u64>>,
    /// Initialiser.
    pub init: Option<Init<'a>>,
    /// `.extern`.
    pub external: bool,
    /// Bytes of the declaration.
    pub span: Span,
}

impl Variable<'_> {
    /// The name of a variable of global or constant memory that a function declares, in the module.
    pub(crate) fn inner_name(&self, function: &str) -> String {
        // The place tells those of different blocks apart.
        format!("{function}::{}@{}", self.name, self.span.start)
    }
}

impl Module<'_> {
    /// The architecture of `.target` (major * 10 + minor), if one is named.
    pub fn target_sm(&self) -> Option<u32> {
        self.target.iter().find_map(|word| {
            let number = word.strip_prefix("sm_").or_else(|| word.strip_prefix("compute_"))?;
            number.trim_end_matches(['a', 'f']).parse().ok()
        })
    }
}

impl Variable<'_> {
    /// Bytes of one element, vectors included. A predicate that is a parameter has a word of the frame.
    pub fn element_bytes(&self) -> u64 {
        u64::from(if self.ty == ScalarType::Pred { 4 } else { self.ty.bytes() }) * u64::from(self.vector)
    }

    /// Bytes in all; zero for `[]`, `None` where they are more than any state space has.
    pub fn bytes(&self) -> Option<u64> {
        if let Some(count) = self.count {
            return self.stride().checked_mul(count.into()).filter(|bytes| *bytes <= MAX_VARIABLE);
        }
        let first = self.dims.first().map_or(1, |dim| dim.unwrap_or(0));
        self.row_bytes()?.checked_mul(first).filter(|bytes| *bytes <= MAX_VARIABLE)
    }

    /// Bytes of an element of the first dimension; `None` where they are more than any state space has.
    pub fn row_bytes(&self) -> Option<u64> {
        let inner = self.dims.iter().skip(1);
        let bytes = inner.copied().try_fold(self.element_bytes(), |n, dim| n.checked_mul(dim.unwrap_or(0)));
        bytes.filter(|bytes| *bytes <= MAX_VARIABLE)
    }

    /// An array whose length is not said: `[]` or `[0]`.
    pub fn is_incomplete(&self) -> bool {
        self.dims.iter().any(|dim| dim.unwrap_or(0) == 0)
    }

    /// Bytes from one member of `x<3>` to the next.
    pub fn stride(&self) -> u64 {
        self.element_bytes().next_multiple_of(self.alignment())
    }

    /// Alignment in bytes.
    pub fn alignment(&self) -> u64 {
        u64::from(self.align.unwrap_or(0)).max(self.element_bytes().clamp(1, 16).next_power_of_two())
    }
}

/// An initialiser.
#[derive(Clone, Debug, PartialEq)]
pub enum Init<'a> {
    /// A value.
    Value(Operand<'a>),
    /// `{ … }`.
    List(Vec<Init<'a>>),
}

/// A function or entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Function<'a> {
    /// `.entry`, else `.func`.
    pub entry: bool,
    /// Name.
    pub name: &'a str,
    /// Return parameters.
    pub returns: Vec<Variable<'a>>,
    /// Parameters.
    pub params: Vec<Variable<'a>>,
    /// The body; `None` for a declaration.
    pub body: Option<Vec<Statement<'a>>>,
    /// `.reqntid`, `.maxntid`, `.minnctapersm`, `.maxnreg`, those of clusters: name and values.
    pub bounds: Vec<(&'a str, Vec<u64>)>,
    /// Bytes of the name.
    pub span: Span,
}

/// A statement of a body.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement<'a> {
    /// A declaration.
    Declaration(Variable<'a>),
    /// `name:`.
    Label(&'a str, Span),
    /// An instruction.
    Instruction(Instruction<'a>),
    /// `{ … }`.
    Block(Vec<Statement<'a>>),
    /// `.loc file line column`.
    Loc(u32, u32),
    /// `name: .branchtargets a, b;`
    BranchTargets(&'a str, Vec<(&'a str, Span)>),
    /// `name: .callprototype …;` or `.calltargets`: the name.
    Prototype(&'a str),
    /// `.pragma "nounroll";`: a loop that begins here is not unrolled.
    KeepLoop,
}

/// A guard `@p` or `@!p`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard<'a> {
    /// `!`.
    pub negated: bool,
    /// The predicate.
    pub name: &'a str,
    /// Its bytes.
    pub span: Span,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction<'a> {
    /// Guard.
    pub guard: Option<Guard<'a>>,
    /// Opcode root.
    pub root: &'a str,
    /// Modifiers with their dots, as written.
    pub dotted: &'a str,
    /// Operands.
    pub operands: Vec<Operand<'a>>,
    /// Its bytes, guard to last operand.
    pub span: Span,
    /// Bytes of root and modifiers.
    pub opcode: Span,
    /// A blank stands before a modifier (the papers' dialect).
    pub spaced: bool,
}

impl<'a> Instruction<'a> {
    /// Modifiers without their dots.
    pub fn modifiers(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.dotted.split('.').skip(1).map(str::trim)
    }
}

/// An operand with its bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand<'a> {
    /// What it is.
    pub kind: OperandKind<'a>,
    /// Its bytes.
    pub span: Span,
}

/// An integer constant: 64 bits and a sign. (An `i128` would align every operand to 16 bytes.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer {
    magnitude: u64,
    negative: bool,
}

impl Integer {
    /// Its value.
    pub fn value(self) -> i128 {
        let value = i128::from(self.magnitude);
        if self.negative { -value } else { value }
    }
}

impl From<i128> for Integer {
    /// What has more than 64 bits wraps.
    fn from(value: i128) -> Self {
        let magnitude = value.unsigned_abs() as u64;
        Self { magnitude, negative: value < 0 && magnitude != 0 }
    }
}

/// Kinds of operands.
#[derive(Clone, Debug, PartialEq)]
pub enum OperandKind<'a> {
    /// A register, symbol, label or special register.
    Name(&'a str),
    /// `!p`.
    Not(&'a str),
    /// `name.x`: a special register's or vector's component.
    Component(&'a str, &'a str),
    /// `-name` or `-name.part`, in `vmad`.
    Negated(&'a str, Option<&'a str>),
    /// `name + constant`, or `generic(name) + constant`.
    Offset {
        /// The symbol.
        name: &'a str,
        /// Added bytes.
        offset: i64,
        /// `generic(…)` around it.
        generic: bool,
    },
    /// An integer.
    Int(Integer),
    /// A floating-point number; hexadecimal ones keep their bits.
    Float32(u32),
    /// A double.
    Float64(u64),
    /// `{a, b}`.
    Vector(Vec<Operand<'a>>),
    /// `[name + constant]`, `[constant]`.
    Address {
        /// Register or symbol.
        base: Option<&'a str>,
        /// Added bytes.
        offset: i64,
    },
    /// `[a, b, c]`: a texture or surface, perhaps a sampler, and coordinates.
    Texture(Vec<Operand<'a>>),
    /// `p|q`.
    Pair(Box<Operand<'a>>, Box<Operand<'a>>),
    /// `(a, b)` of a call.
    List(Vec<Operand<'a>>),
    /// `_`.
    Sink,
}
