//! The parser of one instruction of a litmus test.

use sim_frontend::diagnostic::{Diagnostic, Span};

use super::program::{
    Access, Address, AtomicOp, Comparison, Instruction, Kind, Operand, Order, Proxy, Scope, ValueOp,
    address_of,
};
use super::words::{Parser, begins_word, is_word};

/// The label that an instruction goes to, not yet resolved.
type Pending = Option<(String, Span)>;

type Cell = (Instruction, Pending);

/// The cells of one thread, and the labels of its rows: name, place, index of the following instruction.
#[derive(Default)]
pub(super) struct Column {
    pub(super) cells: Vec<Cell>,
    pub(super) labels: Vec<(String, Span, usize)>,
}

/// An opcode: its root and modifiers.
struct Opcode<'t> {
    root: &'t str,
    words: Vec<&'t str>,
    span: Span,
}

/// Words of a memory operation.
#[derive(Default)]
struct Words {
    order: Option<Order>,
    scope: Option<Scope>,
    op: Option<Op>,
}

#[derive(Clone, Copy, PartialEq)]
enum Op {
    Value(ValueOp),
    Cas,
}

const OPS: [(&str, Op); 16] = [
    ("plus", Op::Value(ValueOp::Add)),
    ("add", Op::Value(ValueOp::Add)),
    ("minus", Op::Value(ValueOp::Sub)),
    ("sub", Op::Value(ValueOp::Sub)),
    ("mul", Op::Value(ValueOp::Mul)),
    ("mult", Op::Value(ValueOp::Mul)),
    ("div", Op::Value(ValueOp::Div)),
    ("and", Op::Value(ValueOp::And)),
    ("or", Op::Value(ValueOp::Or)),
    ("xor", Op::Value(ValueOp::Xor)),
    ("min", Op::Value(ValueOp::Min)),
    ("max", Op::Value(ValueOp::Max)),
    ("exch", Op::Value(ValueOp::Exch)),
    ("inc", Op::Value(ValueOp::Inc)),
    ("dec", Op::Value(ValueOp::Dec)),
    ("cas", Op::Cas),
];

const COMPARISONS: [(&str, Comparison); 6] = [
    ("eq", Comparison::Eq),
    ("ne", Comparison::Ne),
    ("lt", Comparison::Lt),
    ("le", Comparison::Le),
    ("gt", Comparison::Gt),
    ("ge", Comparison::Ge),
];

const ROOTS: [&str; 33] = [
    "ld", "tld", "suld", "cold", "st", "sust", "atom", "suatom", "red", "sured", "fence", "membar", "bar",
    "barrier", "mov", "add", "sub", "mul", "mult", "div", "and", "or", "xor", "min", "max", "setp", "beq",
    "bne", "blt", "ble", "bgt", "bge", "goto",
];

/// Types, state spaces and cache operators of PTX change nothing in the model (MM §3.6).
const WITHOUT_EFFECT: [&str; 24] = [
    "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "b8", "b16", "b32", "b64", "f32", "f64", "global",
    "shared", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "lo",
];

fn found<T: Copy>(list: &[(&str, T)], word: &str) -> Option<T> {
    list.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}

fn order(word: &str) -> Option<Order> {
    Some(match word {
        "weak" => Order::Weak,
        "relaxed" => Order::Relaxed,
        "acquire" => Order::Acquire,
        "release" => Order::Release,
        "acq_rel" => Order::AcqRel,
        "sc" => Order::Sc,
        _ => return None,
    })
}

fn scope(word: &str) -> Option<Scope> {
    Some(match word {
        "cta" => Scope::Cta,
        "cluster" => Scope::Cluster,
        "gpu" => Scope::Gpu,
        "sys" => Scope::Sys,
        _ => return None,
    })
}

impl Parser<'_> {
    /// A cell of the table: labels, and at most one instruction.
    pub(super) fn cell(&mut self, thread: usize, column: &mut Column) -> Result<(), Diagnostic> {
        loop {
            self.cursor.skip_blanks()?;
            let start = self.cursor.offset();
            let guard = if self.cursor.take("@") {
                let negated = self.cursor.take("!");
                let (register, _) = self.register_word()?;
                Some((self.register(thread, &register), negated))
            } else {
                None
            };
            self.cursor.skip_blanks()?;
            if guard.is_none() && !self.cursor.peek().is_some_and(begins_word) {
                return match self.cursor.rest().starts_with(['|', ';']) {
                    true => Ok(()),
                    false => Err(self.expected("an instruction, `|` or `;`")),
                };
            }
            let opcode = self.cursor.offset();
            let text = self.cursor.take_while(|c| is_word(c) || c == '.');
            let span = self.cursor.span_from(opcode);
            if guard.is_none() && self.take_symbol(":")? {
                column.labels.push((text.to_string(), span, column.cells.len()));
                continue;
            }
            let mut words = text.split('.');
            let opcode = Opcode { root: words.next().unwrap_or(""), words: words.collect(), span };
            let (kind, pending) = self.instruction(thread, &opcode, guard)?;
            let span = self.cursor.span_from(start);
            column.cells.push((Instruction { kind, span, line: 0 }, pending));
            return Ok(());
        }
    }

    fn instruction(
        &mut self,
        thread: usize,
        opcode: &Opcode<'_>,
        guard: Option<(usize, bool)>,
    ) -> Result<(Kind, Pending), Diagnostic> {
        if let Some((register, negated)) = guard {
            if opcode.root != "bra" {
                return Err(self.error("guard", "only `bra` can be guarded in a litmus test", opcode.span));
            }
            let comparison = if negated { Comparison::Eq } else { Comparison::Ne };
            let (a, b) = (Operand::Register(register), Operand::Constant(0));
            return Ok((Kind::Branch { comparison, a, b, target: 0 }, Some(self.word("a label")?)));
        }
        let kind = match opcode.root {
            "ld" => self.load(thread, opcode, Proxy::Generic)?,
            "tld" => self.load(thread, opcode, Proxy::Texture)?,
            "suld" => self.load(thread, opcode, Proxy::Surface)?,
            "cold" => self.load(thread, opcode, Proxy::Constant)?,
            "st" => self.store(thread, opcode, Proxy::Generic)?,
            "sust" => self.store(thread, opcode, Proxy::Surface)?,
            "atom" => self.atomic(thread, opcode, Proxy::Generic, true)?,
            "suatom" => self.atomic(thread, opcode, Proxy::Surface, true)?,
            "red" => self.atomic(thread, opcode, Proxy::Generic, false)?,
            "sured" => self.atomic(thread, opcode, Proxy::Surface, false)?,
            "fence" => self.fence(opcode)?,
            "membar" => self.membar(opcode)?,
            "bar" | "barrier" => self.barrier(thread, opcode)?,
            "mov" => {
                let register = self.destination(thread)?;
                let a = self.operand_or_address(thread)?;
                Kind::Compute { register, op: ValueOp::Add, a, b: Operand::Constant(0) }
            }
            "setp" => {
                let comparison = opcode.words.first().and_then(|word| found(&COMPARISONS, word));
                let Some(comparison) = comparison else {
                    return Err(self.error(
                        "opcode",
                        "`setp` needs a comparison, as in `setp.eq`",
                        opcode.span,
                    ));
                };
                self.compute(thread, ValueOp::Compare(comparison))?
            }
            "goto" | "bra" => return Ok((Kind::Goto(0), Some(self.word("a label")?))),
            root => {
                if let Some(Op::Value(op)) = found(&OPS, root).filter(|_| ROOTS.contains(&root)) {
                    self.compute(thread, op)?
                } else if let Some(comparison) = root.strip_prefix('b').and_then(|c| found(&COMPARISONS, c)) {
                    let a = self.operand(thread)?;
                    self.symbol(",", "after the first value")?;
                    let b = self.operand(thread)?;
                    self.symbol(",", "after the second value")?;
                    let label = self.word("a label")?;
                    return Ok((Kind::Branch { comparison, a, b, target: 0 }, Some(label)));
                } else {
                    let error = self.error(
                        "opcode",
                        format!("`{root}` is not an instruction that litmus tests support"),
                        opcode.span,
                    );
                    return Err(error.did_you_mean(root, ROOTS));
                }
            }
        };
        Ok((kind, None))
    }

    fn compute(&mut self, thread: usize, op: ValueOp) -> Result<Kind, Diagnostic> {
        let register = self.destination(thread)?;
        let a = self.operand(thread)?;
        self.symbol(",", "after the first value")?;
        let b = self.operand(thread)?;
        Ok(Kind::Compute { register, op, a, b })
    }

    /// A register and the comma after it.
    fn destination(&mut self, thread: usize) -> Result<usize, Diagnostic> {
        let (word, _) = self.register_word()?;
        self.symbol(",", "after the register")?;
        Ok(self.register(thread, &word))
    }

    /// A register, a number, or a location for its address.
    fn operand_or_address(&mut self, thread: usize) -> Result<Operand, Diagnostic> {
        let mut ahead = self.cursor.clone();
        ahead.skip_blanks()?;
        let word = ahead.take_while(is_word);
        match self.locations.iter().position(|l| l.name == word) {
            Some(location) => {
                self.cursor = ahead;
                Ok(Operand::Constant(address_of(location)))
            }
            None => self.operand(thread),
        }
    }

    /// A register or a number.
    fn operand(&mut self, thread: usize) -> Result<Operand, Diagnostic> {
        if let Some(value) = self.take_number()? {
            return Ok(Operand::Constant(value));
        }
        let (word, span) = self.register_word()?;
        if self.locations.iter().any(|l| l.name == word) {
            let message = format!("`{word}` is a location; expected a register or a number");
            return Err(self.error("operand", message, span));
        }
        Ok(Operand::Register(self.register(thread, &word)))
    }

    /// A location, or a register that holds its address, in brackets or not.
    fn address(&mut self, thread: usize) -> Result<Address, Diagnostic> {
        let bracket = self.take_symbol("[")?;
        let percent = self.take_symbol("%")?;
        let (word, span) = self.word("a location")?;
        let address = if !percent && self.locations.iter().any(|l| l.name == word) {
            Address::Location(self.location(&word, span)?)
        } else if self.threads[thread].registers.contains(&word) {
            Address::Register(self.register(thread, &word))
        } else {
            self.location(&word, span)?;
            Address::Location(0)
        };
        if bracket {
            self.symbol("]", "after the address")?;
        }
        Ok(address)
    }

    fn words(&self, opcode: &Opcode<'_>, ops: bool) -> Result<Words, Diagnostic> {
        let mut out = Words::default();
        let twice = |word: &str| {
            self.error("opcode", format!("`.{word}` repeats or contradicts an earlier modifier"), opcode.span)
        };
        for word in &opcode.words {
            if let Some(order) = order(word) {
                if out.order.replace(order).is_some() {
                    return Err(twice(word));
                }
            } else if let Some(scope) = scope(word) {
                if out.scope.replace(scope).is_some() {
                    return Err(twice(word));
                }
            } else if *word == "volatile" {
                // MM §3.6: `.volatile` has the semantics of relaxed at system scope.
                if out.order.replace(Order::Relaxed).is_some() || out.scope.replace(Scope::Sys).is_some() {
                    return Err(twice(word));
                }
            } else if let Some(op) = found(&OPS, word).filter(|_| ops) {
                if out.op.replace(op).is_some() {
                    return Err(twice(word));
                }
            } else if !WITHOUT_EFFECT.contains(word) {
                let error = self.error(
                    "opcode",
                    format!("`.{word}` is not a modifier of `{}`", opcode.root),
                    opcode.span,
                );
                let names = [
                    "weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "cta", "cluster", "gpu",
                    "sys",
                ];
                let ops = OPS.iter().map(|(name, _)| *name).filter(|_| ops);
                return Err(error.did_you_mean(word, names.into_iter().chain(ops)));
            }
        }
        Ok(out)
    }

    /// The semantics and the scope of an access; `legal` are those that the instruction takes.
    fn semantics(
        &self,
        opcode: &Opcode<'_>,
        words: &Words,
        legal: &[Order],
        default: Order,
    ) -> Result<(Order, Option<Scope>), Diagnostic> {
        let order = words.order.unwrap_or(default);
        if !legal.contains(&order) {
            let names: Vec<String> = legal.iter().map(|o| format!("`.{}`", o.name())).collect();
            let message = format!("`{}` cannot be `.{}`", opcode.root, order.name());
            let error = self.error("semantics", message, opcode.span);
            return Err(error.help(format!("it takes {}", names.join(", "))));
        }
        match (order, words.scope) {
            (Order::Weak, Some(scope)) => {
                let message = format!("a weak operation has no scope, but this one has `.{}`", scope.name());
                Err(self.error("scope", message, opcode.span).help("write `.relaxed`, or remove the scope"))
            }
            (Order::Weak, None) => Ok((order, None)),
            // PTX gives atomics the scope of the GPU where none is written.
            (_, None) if ["atom", "red", "suatom", "sured"].contains(&opcode.root) => {
                Ok((order, Some(Scope::Gpu)))
            }
            (_, None) => {
                let message = format!("`.{}` requires a scope", order.name());
                Err(self
                    .error("scope", message, opcode.span)
                    .help("scopes are `.cta`, `.cluster`, `.gpu`, `.sys`"))
            }
            (_, scope) => Ok((order, scope)),
        }
    }

    fn load(&mut self, thread: usize, opcode: &Opcode<'_>, proxy: Proxy) -> Result<Kind, Diagnostic> {
        let words = self.words(opcode, false)?;
        let legal = [Order::Weak, Order::Relaxed, Order::Acquire];
        let (order, scope) = self.semantics(opcode, &words, &legal, Order::Weak)?;
        let register = self.destination(thread)?;
        // `ld r0, 2` gives a register a value.
        if let Some(value) = self.take_number()? {
            let (a, b) = (Operand::Constant(value), Operand::Constant(0));
            return Ok(Kind::Compute { register, op: ValueOp::Add, a, b });
        }
        let address = self.address(thread)?;
        Ok(Kind::Load { register, access: Access { address, order, scope, proxy } })
    }

    fn store(&mut self, thread: usize, opcode: &Opcode<'_>, proxy: Proxy) -> Result<Kind, Diagnostic> {
        let words = self.words(opcode, false)?;
        let legal = [Order::Weak, Order::Relaxed, Order::Release];
        let (order, scope) = self.semantics(opcode, &words, &legal, Order::Weak)?;
        let address = self.address(thread)?;
        self.symbol(",", "after the address")?;
        let value = self.operand(thread)?;
        Ok(Kind::Store { access: Access { address, order, scope, proxy }, value })
    }

    fn atomic(
        &mut self,
        thread: usize,
        opcode: &Opcode<'_>,
        proxy: Proxy,
        result: bool,
    ) -> Result<Kind, Diagnostic> {
        let words = self.words(opcode, true)?;
        // PTX has no `red.acquire`, but litmus tests of other tools do: it begins no acquire pattern.
        let legal = [Order::Relaxed, Order::Acquire, Order::Release, Order::AcqRel];
        let (order, scope) = self.semantics(opcode, &words, &legal, Order::Relaxed)?;
        let Some(op) = words.op else {
            let error = self.error("opcode", "the atomic operation is missing", opcode.span);
            return Err(error.help("as in `atom.relaxed.gpu.add`"));
        };
        let register = if result { Some(self.destination(thread)?) } else { None };
        let address = self.address(thread)?;
        self.symbol(",", "after the address")?;
        let value = self.operand(thread)?;
        let op = match op {
            Op::Value(op) => AtomicOp::Apply(op, value),
            Op::Cas => {
                if !result {
                    return Err(self.error("opcode", "`red` has no `cas`", opcode.span).help("use `atom`"));
                }
                self.symbol(",", "after the value to compare with")?;
                AtomicOp::Cas(value, self.operand(thread)?)
            }
        };
        Ok(Kind::Atomic { register, access: Access { address, order, scope, proxy }, op })
    }

    fn fence(&mut self, opcode: &Opcode<'_>) -> Result<Kind, Diagnostic> {
        if let ["proxy", proxy] = opcode.words[..] {
            return Ok(match proxy {
                "alias" => Kind::AliasFence,
                "generic" => Kind::ProxyFence(Proxy::Generic),
                "surface" => Kind::ProxyFence(Proxy::Surface),
                "texture" => Kind::ProxyFence(Proxy::Texture),
                "constant" => Kind::ProxyFence(Proxy::Constant),
                other => {
                    let error = self.error(
                        "fence",
                        format!("`fence.proxy.{other}` is not part of the memory models"),
                        opcode.span,
                    );
                    return Err(error.help("proxy fences are alias, constant, generic, surface, texture"));
                }
            });
        }
        let words = self.words(opcode, false)?;
        // `.sem` is acq_rel where none is written.
        let order = words.order.unwrap_or(Order::AcqRel);
        if matches!(order, Order::Weak | Order::Relaxed) {
            let error = self.error("fence", format!("a fence cannot be `.{}`", order.name()), opcode.span);
            return Err(error.help("fences are `.acq_rel`, `.sc`, `.acquire`, `.release`"));
        }
        let Some(scope) = words.scope else {
            let error = self.error("scope", "a fence requires a scope", opcode.span);
            return Err(error.help("scopes are `.cta`, `.cluster`, `.gpu`, `.sys`"));
        };
        Ok(Kind::Fence { order, scope })
    }

    fn membar(&self, opcode: &Opcode<'_>) -> Result<Kind, Diagnostic> {
        let scope = match opcode.words[..] {
            ["cta"] => Scope::Cta,
            ["gl"] => Scope::Gpu,
            ["sys"] => Scope::Sys,
            _ => {
                let error = self.error("fence", "`membar` requires a level", opcode.span);
                return Err(error.help("`membar.cta`, `membar.gl`, `membar.sys`"));
            }
        };
        Ok(Kind::Fence { order: Order::Sc, scope })
    }

    /// `bar.cta.sync ID`, `bar.cta.sync INSTANCE, ID` and `bar.cta.sync INSTANCE, ID, QUORUM`; PTX's own `bar.sync ID,
    /// COUNT` and `barrier.cta.sync ID, COUNT`.
    fn barrier(&mut self, thread: usize, opcode: &Opcode<'_>) -> Result<Kind, Diagnostic> {
        let words: Vec<&str> =
            opcode.words.iter().copied().filter(|w| *w != "cta" && *w != "aligned").collect();
        let arrive = match words[..] {
            ["sync"] => false,
            ["arrive"] => true,
            _ => {
                let error =
                    self.error("barrier", "a barrier is `bar.cta.sync` or `bar.cta.arrive`", opcode.span);
                return Err(error);
            }
        };
        let mut operands = vec![self.operand(thread)?];
        while operands.len() < 3 && self.take_symbol(",")? {
            operands.push(self.operand(thread)?);
        }
        let of_litmus = opcode.root == "bar" && opcode.words.contains(&"cta");
        let (id, quorum) = match (operands.as_slice(), of_litmus) {
            ([id], _) => (*id, None),
            ([_, id], true) => (*id, None),
            ([_, id, quorum], true) => (*id, Some(*quorum)),
            ([id, count], false) => (*id, Some(*count)),
            _ => return Err(self.error("barrier", "this barrier takes at most two operands", opcode.span)),
        };
        Ok(Kind::Barrier { arrive, id, quorum })
    }
}
