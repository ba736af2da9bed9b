//! A litmus test as a PTX kernel. Each thread of the test is a thread of the kernel; the schedule's plan in memory says
//! which block is which CTA of which instance, where the locations are, how long each thread waits, and what it loads first.
//! Lanes of one warp whose threads are the same share their code, so that one instruction is executed for all of them.

use std::fmt::Write;

use sim_verify::litmus::Test;
use sim_verify::litmus::program::{
    Access, Address, AtomicOp, Comparison, Instruction, Kind, Operand, Order, Proxy, Scope, ValueOp,
    location_at,
};

use super::schedule::{Space, Threads};

/// A kernel of a test.
pub struct Kernel {
    /// Its PTX.
    pub text: String,
    /// Bytes of a location and of a register.
    pub word: u32,
    /// Threads of a block.
    pub block: u32,
}

/// The CTAs of a test: for each thread its CTA and its place in it.
pub struct Places {
    /// Number of CTAs.
    pub ctas: u32,
    /// By thread: CTA, and number within the CTA.
    pub of: Vec<(u32, u32)>,
    /// Threads of the largest CTA.
    pub most: u32,
}

/// Numbers the CTAs of a test.
///
/// # Errors
/// The threads are on several GPUs: one is simulated.
pub fn places(test: &Test) -> Result<Places, String> {
    let mut known = Vec::new();
    let mut of = Vec::new();
    for thread in &test.threads {
        if thread.place.gpu != test.threads[0].place.gpu {
            return Err("its threads are on several GPUs".to_string());
        }
        let cta = known.iter().position(|cta| *cta == thread.place.cta).unwrap_or_else(|| {
            known.push(thread.place.cta);
            known.len() - 1
        }) as u32;
        let within = of.iter().filter(|(other, _)| *other == cta).count() as u32;
        of.push((cta, within));
    }
    let most = of.iter().map(|(_, within)| within + 1).max().unwrap_or(1);
    Ok(Places { ctas: known.len() as u32, of, most })
}

struct Writer<'t> {
    test: &'t Test,
    threads: Threads,
    space: Space,
    /// PTX of compute capability 7.0 has semantics and scopes; before, there are volatile accesses and membar.
    scoped: bool,
    word: u32,
    out: String,
}

/// The kernel of a test.
///
/// # Errors
/// The reason why PTX, or the simulated chip, has no such kernel.
pub fn kernel(
    test: &Test,
    places: &Places,
    threads: Threads,
    space: Space,
    scoped: bool,
) -> Result<Kernel, String> {
    for location in &test.locations {
        if test.locations[location.physical].name != location.name {
            return Err(format!(
                "`{}` is an alias: the simulated chip has one address for each location",
                location.name
            ));
        }
    }
    // Registers that hold addresses need 64 bits.
    let holds_address = |i: &Instruction| match i.kind {
        Kind::Load { access, .. } | Kind::Store { access, .. } | Kind::Atomic { access, .. } => {
            matches!(access.address, Address::Register(_))
        }
        Kind::Compute { a, .. } => is_address(test, a),
        _ => false,
    };
    let initially =
        test.threads.iter().flat_map(|t| &t.init).any(|v| location_at(*v, test.locations.len()).is_some());
    let wide = initially || test.threads.iter().flat_map(|t| &t.code).any(holds_address);
    let word = if wide { 8 } else { 4 };
    let per_thread = if threads == Threads::Lanes { 1 } else { 32 };
    let mut writer = Writer { test, threads, space, scoped, word, out: String::new() };
    writer.head(places, per_thread);
    for thread in 0..test.threads.len() {
        if writer.code_of(thread, places) == thread {
            writer.thread(thread, places)?;
        }
    }
    if space == Space::Shared {
        writer.end();
    }
    writer.traffic();
    writer.out.push_str("}\n");
    Ok(Kernel { text: writer.out, word, block: places.most * per_thread })
}

fn is_address(test: &Test, operand: Operand) -> bool {
    matches!(operand, Operand::Constant(value) if location_at(value, test.locations.len()).is_some())
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn bits(&self) -> u32 {
        8 * self.word
    }

    fn space(&self) -> &'static str {
        match self.space {
            Space::Global => "global",
            Space::Shared => "shared",
        }
    }

    /// The thread whose code `thread` executes: itself, or the first lane of its warp that does the same.
    fn code_of(&self, thread: usize, places: &Places) -> usize {
        let of = &self.test.threads[thread];
        let same = |other: &usize| {
            let first = &self.test.threads[*other];
            places.of[*other].0 == places.of[thread].0
                && first.registers.len() == of.registers.len()
                && first.init == of.init
                && first.code.iter().map(|i| &i.kind).eq(of.code.iter().map(|i| &i.kind))
        };
        match self.threads {
            Threads::Lanes => (0..thread).find(same).unwrap_or(thread),
            Threads::Warps => thread,
        }
    }

    /// Declarations, the role of the block, addresses of locations, and the way to each thread's code.
    fn head(&mut self, places: &Places, per_thread: u32) {
        let bits = self.bits();
        let (version, target) = if self.scoped { ("7.8", "sm_70") } else { ("3.2", "sm_20") };
        let most = self.test.threads.iter().map(|t| t.registers.len()).max().unwrap_or(0) + 1;
        let locations = self.test.locations.len();
        let ctas = places.ctas;
        let _ = writeln!(
            self.out,
            ".version {version}\n.target {target}\n.address_size 64\n\
             .visible .entry litmus(.param .u64 out, .param .u64 data, .param .u64 plan, .param .u32 blocks, \
             .param .u32 stride, .param .u32 apart)\n{{\n\
             .reg .pred %p<4>;\n.reg .b32 %t<13>;\n.reg .b64 %d<12>;\n.reg .b{bits} %r<{most}>;\n\
             .reg .b{bits} %w<4>;\n.reg .b64 %x<{0}>;\n.reg .b{bits} %z<{0}>;\n\
             .shared .align 128 .b8 room[32768];",
            locations + 1
        );
        let _ = writeln!(
            self.out,
            "ld.param.u64 %d0, [out];\nld.param.u64 %d1, [data];\nld.param.u64 %d2, [plan];\n\
             ld.param.u32 %t3, [blocks];\nld.param.u32 %t4, [stride];\nld.param.u32 %t5, [apart];\n\
             mov.u32 %t0, %ctaid.x;\nmov.u32 %t1, %tid.x;\n\
             mul.wide.u32 %d3, %t0, 4;\nadd.u64 %d3, %d3, %d2;\nld.global.u32 %t2, [%d3];\n\
             setp.ge.u32 %p0, %t2, 2147483648;\n@%p0 bra TRAFFIC;\n\
             div.u32 %t6, %t2, {ctas};\nrem.u32 %t7, %t2, {ctas};"
        );
        match self.space {
            Space::Global => self.line("mul.wide.u32 %d4, %t6, %t5;\nadd.u64 %d4, %d4, %d1;"),
            Space::Shared => self.line("mov.u64 %d4, room;"),
        }
        for location in 0..locations {
            let _ = writeln!(
                self.out,
                "mul.lo.u32 %t8, %t4, {location};\ncvt.u64.u32 %d5, %t8;\nadd.u64 %x{location}, %d4, %d5;"
            );
        }
        if self.space == Space::Shared {
            self.line("setp.ne.u32 %p0, %t1, 0;\n@%p0 bra READY;");
            for location in 0..locations {
                let init = self.test.locations[location].init;
                let _ = writeln!(self.out, "st.shared.b{bits} [%x{location}], {init};");
            }
            self.line("READY:\nbar.sync 0;");
        }
        // Lanes that share their code branch to it together.
        self.line("mov.u32 %t9, 4294967295;");
        for (thread, (cta, within)) in places.of.iter().enumerate() {
            let _ = writeln!(
                self.out,
                "setp.eq.u32 %p0, %t7, {cta};\nsetp.eq.and.u32 %p1, %t1, {}, %p0;\n\
                 @%p1 mov.u32 %t12, {thread};\n@%p1 mov.u32 %t9, {};",
                within * per_thread,
                self.code_of(thread, places)
            );
        }
        for thread in 0..places.of.len() {
            if self.code_of(thread, places) == thread {
                let _ = writeln!(self.out, "setp.eq.u32 %p0, %t9, {thread};\n@%p0 bra T{thread};");
            }
        }
        self.line("exit;");
    }

    /// A thread, numbered in `%t12`: it loads what is to be warm, waits, begins loads that it does not wait for, runs its
    /// instructions, and stores its registers.
    fn thread(&mut self, thread: usize, places: &Places) -> Result<(), String> {
        let (bits, threads, locations) = (self.bits(), self.test.threads.len(), self.test.locations.len());
        let _ = writeln!(
            self.out,
            "T{thread}:\nmad.lo.u32 %t8, %t6, {threads}, %t12;\nmul.wide.u32 %d5, %t8, 12;\n\
             mul.wide.u32 %d6, %t3, 4;\nadd.u64 %d5, %d5, %d6;\nadd.u64 %d5, %d5, %d2;\n\
             ld.global.u32 %t9, [%d5];\nld.global.u32 %t10, [%d5+4];\n\
             ld.global.u32 %t12, [%d5+8];"
        );
        for location in 0..locations {
            let _ = writeln!(
                self.out,
                "and.b32 %t11, %t10, {};\nsetp.ne.u32 %p2, %t11, 0;\nmov.b{bits} %w0, 0;\n\
                 @%p2 ld.{}.b{bits} %w0, [%x{location}];\nand.b{bits} %w0, %w0, 0;\ncvt.u32.u{bits} %t11, %w0;\n\
                 add.u32 %t9, %t9, %t11;",
                1u32 << location.min(31),
                self.space()
            );
        }
        let _ = writeln!(
            self.out,
            "D{thread}:\nsetp.eq.u32 %p2, %t9, 0;\n@%p2 bra B{thread};\nsub.u32 %t9, %t9, 1;\nbra D{thread};\nB{thread}:"
        );
        for location in 0..locations {
            let _ = writeln!(
                self.out,
                "and.b32 %t11, %t12, {};\nsetp.ne.u32 %p2, %t11, 0;\n@%p2 ld.{}.b{bits} %z{location}, [%x{location}];",
                1u32 << location.min(31),
                self.space()
            );
        }
        for (register, init) in self.test.threads[thread].init.clone().into_iter().enumerate() {
            self.value(&format!("%r{register}"), Operand::Constant(init));
        }
        let code = self.test.threads[thread].code.clone();
        for (i, instruction) in code.iter().enumerate() {
            let _ = writeln!(self.out, "I{thread}_{i}:");
            self.instruction(thread, instruction, places)?;
        }
        let _ = writeln!(self.out, "I{thread}_{}:", code.len());
        let registers = self.test.threads[thread].registers.len();
        let most = self.test.threads.iter().map(|t| t.registers.len()).max().unwrap_or(0);
        let _ = writeln!(
            self.out,
            "mul.wide.u32 %d7, %t8, {};\nadd.u64 %d7, %d7, %d0;",
            (most as u32 + 1) * self.word
        );
        for register in 0..registers {
            let _ =
                writeln!(self.out, "st.global.b{bits} [%d7+{}], %r{register};", register as u32 * self.word);
        }
        // It has come to its end.
        let _ = writeln!(self.out, "st.global.b{bits} [%d7+{}], 1;", most as u32 * self.word);
        match self.space {
            Space::Global => self.line("exit;"),
            Space::Shared => self.line("bra END;"),
        }
        Ok(())
    }

    /// Shared memory is copied out once all threads have come to their end.
    fn end(&mut self) {
        let bits = self.bits();
        self.line("END:\nbar.sync 15;\nsetp.ne.u32 %p0, %t1, 0;\n@%p0 exit;");
        self.line("mul.wide.u32 %d8, %t6, %t5;\nadd.u64 %d8, %d8, %d1;");
        for location in 0..self.test.locations.len() {
            let _ = writeln!(
                self.out,
                "ld.shared.b{bits} %w0, [%x{location}];\nmul.lo.u32 %t8, %t4, {location};\n\
                 cvt.u64.u32 %d9, %t8;\nadd.u64 %d9, %d9, %d8;\nst.global.b{bits} [%d9], %w0;"
            );
        }
        self.line("exit;");
    }

    /// Blocks that load and store memory of their own, or whose atomics keep the bank of L2 busy in which a location of an
    /// instance lies: they act on a word of its line that no location has.
    fn traffic(&mut self) {
        self.line(
            "TRAFFIC:\nsetp.ne.u32 %p0, %t2, 4294967295;\n@%p0 bra BUSY;\nmul.wide.u32 %d3, %t5, 64;\nadd.u64 %d3, %d3, %d1;\nmul.wide.u32 %d4, %t0, 4096;\n\
             add.u64 %d3, %d3, %d4;\nmul.wide.u32 %d4, %t1, 4;\nadd.u64 %d3, %d3, %d4;\nmov.u32 %t9, 0;\nMORE:\n\
             ld.global.u32 %t10, [%d3];\nadd.u32 %t10, %t10, 1;\nst.global.u32 [%d3], %t10;\n\
             ld.global.cg.u32 %t10, [%d3+2048];\nadd.u32 %t9, %t9, 1;\nsetp.lt.u32 %p0, %t9, 12;\n@%p0 bra MORE;\nexit;\n\
             BUSY:\nand.b32 %t6, %t2, 65535;\nmul.wide.u32 %d3, %t6, %t5;\nadd.u64 %d3, %d3, %d1;\n\
             shr.u32 %t6, %t2, 16;\nand.b32 %t6, %t6, 255;\nmul.wide.u32 %d4, %t6, %t4;\nadd.u64 %d3, %d3, %d4;\n\
             mov.u32 %t9, 0;\nAGAIN:\nred.global.add.u32 [%d3+124], 1;\nadd.u32 %t9, %t9, 1;\n\
             setp.lt.u32 %p0, %t9, 12;\n@%p0 bra AGAIN;\nexit;",
        );
    }

    /// Puts an operand into a register.
    fn value(&mut self, register: &str, operand: Operand) {
        let bits = self.bits();
        let text = match operand {
            Operand::Register(r) => format!("mov.b{bits} {register}, %r{r};"),
            Operand::Constant(value) => match location_at(value, self.test.locations.len()) {
                Some(location) => format!("mov.b64 {register}, %x{location};"),
                None => format!("mov.b{bits} {register}, {value};"),
            },
        };
        self.line(&text);
    }

    fn address(&self, access: &Access) -> Result<String, String> {
        if access.proxy != Proxy::Generic {
            return Err("it accesses memory through a proxy other than the generic one".to_string());
        }
        Ok(match access.address {
            Address::Location(location) => format!("[%x{location}]"),
            Address::Register(register) => format!("[%r{register}]"),
        })
    }

    fn membar(&mut self, scope: Option<Scope>) {
        let level = match scope {
            Some(Scope::Cta) => "cta",
            Some(Scope::Sys) => "sys",
            _ => "gl",
        };
        self.line(&format!("membar.{level};"));
    }

    /// `.semantics.scope` of an access.
    fn semantics(&self, access: &Access) -> Result<String, String> {
        match access.scope {
            _ if access.order == Order::Weak => Ok(String::new()),
            Some(Scope::Cluster) => Err("it uses cluster scope".to_string()),
            scope => Ok(format!(".{}.{}", access.order.name(), scope.map_or("gpu", Scope::name))),
        }
    }

    fn instruction(
        &mut self,
        thread: usize,
        instruction: &Instruction,
        places: &Places,
    ) -> Result<(), String> {
        let (bits, space) = (self.bits(), self.space());
        match &instruction.kind {
            Kind::Load { register, access } => {
                let (address, semantics) = (self.address(access)?, self.semantics(access)?);
                let semantics = match (self.scoped, access.order) {
                    (true, _) => semantics,
                    (false, Order::Weak) => String::new(),
                    (false, _) => ".volatile".to_string(),
                };
                self.line(&format!("ld{semantics}.{space}.b{bits} %r{register}, {address};"));
                if !self.scoped && access.order == Order::Acquire {
                    self.membar(access.scope);
                }
            }
            Kind::Store { access, value } => {
                let (address, semantics) = (self.address(access)?, self.semantics(access)?);
                self.value("%w1", *value);
                if !self.scoped && access.order == Order::Release {
                    self.membar(access.scope);
                }
                let semantics = match (self.scoped, access.order) {
                    (true, _) => semantics,
                    (false, Order::Weak) => String::new(),
                    (false, _) => ".volatile".to_string(),
                };
                self.line(&format!("st{semantics}.{space}.b{bits} {address}, %w1;"));
            }
            Kind::Atomic { register, access, op } => self.atomic(*register, access, *op)?,
            Kind::Fence { order, scope } => {
                if *scope == Scope::Cluster {
                    return Err("it uses cluster scope".to_string());
                }
                match (self.scoped, order) {
                    (true, Order::Sc) => self.line(&format!("fence.sc.{};", scope.name())),
                    // PTX before 8.6 has no fence that only acquires or releases.
                    (true, _) => self.line(&format!("fence.acq_rel.{};", scope.name())),
                    (false, _) => self.membar(Some(*scope)),
                }
            }
            Kind::ProxyFence(_) | Kind::AliasFence => return Err("it uses proxy fences".to_string()),
            Kind::Barrier { arrive, id, quorum } => {
                let own = places.of[thread].0;
                let count = match quorum {
                    Some(Operand::Constant(count)) => *count,
                    Some(Operand::Register(_)) => {
                        return Err("a thread count of a barrier is in a register".to_string());
                    }
                    None => self.arrivals(own, *id, places)?,
                };
                self.value("%w2", *id);
                let _ = writeln!(self.out, "cvt.u32.u{bits} %t11, %w2;");
                let what = if *arrive { "arrive" } else { "sync" };
                // Each thread is the only one of its warp; those that have exited count as arrived.
                self.line(&format!("bar.{what} %t11, {};", 32 * count));
            }
            Kind::Compute { register, op, a, b } => self.compute(*register, *op, *a, *b)?,
            Kind::Branch { comparison, a, b, target } => {
                self.value("%w1", *a);
                self.value("%w2", *b);
                let name = comparison_name(*comparison);
                let _ =
                    writeln!(self.out, "setp.{name}.s{bits} %p3, %w1, %w2;\n@%p3 bra I{thread}_{target};");
            }
            Kind::Goto(target) => {
                let _ = writeln!(self.out, "bra I{thread}_{target};");
            }
        }
        Ok(())
    }

    /// Threads of a CTA that arrive at a barrier: without a count all of them must.
    fn arrivals(&self, cta: u32, id: Operand, places: &Places) -> Result<i64, String> {
        let Operand::Constant(_) = id else {
            return Err("a barrier index is in a register".to_string());
        };
        let arrives = |thread: &usize| {
            let code = &self.test.threads[*thread].code;
            code.iter().any(|i| matches!(i.kind, Kind::Barrier { id: other, .. } if other == id))
        };
        let of_cta = (0..self.test.threads.len()).filter(|t| places.of[*t].0 == cta);
        Ok(of_cta.filter(arrives).count() as i64)
    }

    fn atomic(&mut self, register: Option<usize>, access: &Access, op: AtomicOp) -> Result<(), String> {
        let (address, semantics) = (self.address(access)?, self.semantics(access)?);
        let (bits, space) = (self.bits(), self.space());
        let releases = matches!(access.order, Order::Release | Order::AcqRel);
        let acquires = matches!(access.order, Order::Acquire | Order::AcqRel);
        if !self.scoped && releases {
            self.membar(access.scope);
        }
        let root = if register.is_some() { "atom" } else { "red" };
        if register.is_none() && acquires && self.scoped {
            return Err("PTX has no `red` with acquire semantics".to_string());
        }
        let semantics = if self.scoped { semantics } else { String::new() };
        let destination = register.map_or(String::new(), |r| format!("%r{r}, "));
        let text = match op {
            AtomicOp::Cas(old, new) => {
                self.value("%w1", old);
                self.value("%w2", new);
                format!("atom{semantics}.{space}.cas.b{bits} {destination}{address}, %w1, %w2;")
            }
            AtomicOp::Apply(op, value) => {
                self.value("%w1", value);
                let name = match op {
                    ValueOp::Add => format!("add.u{bits}"),
                    ValueOp::Sub => {
                        let _ = writeln!(self.out, "neg.s{bits} %w1, %w1;");
                        format!("add.u{bits}")
                    }
                    ValueOp::And => format!("and.b{bits}"),
                    ValueOp::Or => format!("or.b{bits}"),
                    ValueOp::Xor => format!("xor.b{bits}"),
                    ValueOp::Min => format!("min.s{bits}"),
                    ValueOp::Max => format!("max.s{bits}"),
                    ValueOp::Exch if register.is_some() => format!("exch.b{bits}"),
                    ValueOp::Inc if bits == 32 => "inc.u32".to_string(),
                    ValueOp::Dec if bits == 32 => "dec.u32".to_string(),
                    _ => return Err("PTX has no atomic with this operation".to_string()),
                };
                format!("{root}{semantics}.{space}.{name} {destination}{address}, %w1;")
            }
        };
        self.line(&text);
        if !self.scoped && acquires {
            self.membar(access.scope);
        }
        Ok(())
    }

    fn compute(&mut self, register: usize, op: ValueOp, a: Operand, b: Operand) -> Result<(), String> {
        let bits = self.bits();
        self.value("%w1", a);
        self.value("%w2", b);
        let name = match op {
            ValueOp::Add => format!("add.s{bits}"),
            ValueOp::Sub => format!("sub.s{bits}"),
            ValueOp::Mul => format!("mul.lo.s{bits}"),
            ValueOp::Div => format!("div.s{bits}"),
            ValueOp::And => format!("and.b{bits}"),
            ValueOp::Or => format!("or.b{bits}"),
            ValueOp::Xor => format!("xor.b{bits}"),
            ValueOp::Min => format!("min.s{bits}"),
            ValueOp::Max => format!("max.s{bits}"),
            ValueOp::Compare(comparison) => {
                let name = comparison_name(comparison);
                let _ = writeln!(
                    self.out,
                    "setp.{name}.s{bits} %p3, %w1, %w2;\nselp.b{bits} %r{register}, 1, 0, %p3;"
                );
                return Ok(());
            }
            ValueOp::Exch | ValueOp::Inc | ValueOp::Dec => {
                return Err("it uses an operation that PTX has only as an atomic".to_string());
            }
        };
        self.line(&format!("{name} %r{register}, %w1, %w2;"));
        Ok(())
    }
}

fn comparison_name(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Eq => "eq",
        Comparison::Ne => "ne",
        Comparison::Lt => "lt",
        Comparison::Le => "le",
        Comparison::Gt => "gt",
        Comparison::Ge => "ge",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_do_the_same_share_their_code() {
        let text = include_str!("../../../workloads/litmus/atomics/add-add-one-cta.litmus");
        let test = Test::parse("add-add-one-cta.litmus", text).expect("a test that comes with warpsim");
        let places = places(&test).expect("one GPU");
        let atomics = |threads| {
            let kernel = kernel(&test, &places, threads, Space::Global, true).expect("PTX has it");
            kernel.text.matches("atom.").count()
        };
        assert_eq!((atomics(Threads::Lanes), atomics(Threads::Warps)), (1, 2));
    }
}
