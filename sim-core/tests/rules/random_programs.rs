//! Random programs whose every thread ends: blocks in any order joined by branches of every kind,
//! functions, early exits, loads that miss. A thread keeps a hash of the blocks it ran through, so
//! that its result is its trace.

use std::fmt::Write;

use sim_frontend::workload::SplitMix64;

/// One number after another from a seed.
pub struct Numbers(SplitMix64);

impl Numbers {
    /// Those of a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d))
    }

    /// The next below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.next_bits() % end
    }
}

/// What a body is part of.
struct Body<'a> {
    numbers: &'a mut Numbers,
    text: String,
    /// Label prefix.
    name: String,
    /// Functions it may call.
    callees: Vec<String>,
    blocks: u64,
}

impl Body<'_> {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn label(&mut self) -> String {
        let to = self.numbers.below(self.blocks + 1);
        if to == self.blocks { format!("{}_END", self.name) } else { format!("{}_{to}", self.name) }
    }

    /// A predicate of the thread's own numbers, in `%p`.
    fn choose(&mut self) {
        let shift = self.numbers.below(24) + 4;
        let mask = [1, 3, 7][self.numbers.below(3) as usize];
        self.line(&format!("shr.u32 %t, %x, {shift};\nand.b32 %t, %t, {mask};\nsetp.eq.u32 %p, %t, 0;"));
    }

    fn block(&mut self, id: u64) {
        let name = self.name.clone();
        self.line(&format!("{name}_{id}:"));
        let number = self.numbers.below(1 << 20);
        self.line(&format!("mad.lo.u32 %h, %h, 31, {number};"));
        self.line("mad.lo.u32 %x, %x, 1664525, 1013904223;");
        for _ in 0..self.numbers.below(3) {
            self.line("xor.b32 %x, %x, %h;");
        }
        self.line("sub.u32 %n, %n, 1;\nsetp.le.s32 %p, %n, 0;");
        self.line(&format!("@%p bra {name}_END;"));
        if self.numbers.below(4) == 0 {
            // Lanes go to different lines: some have their data before others.
            self.line("shr.u32 %t, %x, 9;\nand.b32 %t, %t, 4092;\ncvt.u64.u32 %w, %t;\nadd.u64 %w, %w, %in;");
            self.line("ld.global.u32 %t, [%w];\nadd.u32 %h, %h, %t;");
        }
        if !self.callees.is_empty() && self.numbers.below(3) == 0 {
            let callee = self.callees[self.numbers.below(self.callees.len() as u64) as usize].clone();
            let guarded = self.numbers.below(2) == 0;
            if guarded {
                self.choose();
            }
            let guard = if guarded { "@%p " } else { "" };
            self.line(&format!("{guard}call (%h, %x, %n), {callee}, (%h, %x, %n, %in);"));
        }
        match self.numbers.below(8) {
            0 => {}
            1 => {
                let to = self.label();
                self.line(&format!("bra {to};"));
            }
            2 => {
                let targets: Vec<String> = (0..4).map(|_| self.label()).collect();
                self.line("shr.u32 %t, %x, 7;\nand.b32 %t, %t, 3;");
                self.line(&format!("{name}_T{id}: .branchtargets {};", targets.join(", ")));
                self.line(&format!("brx.idx %t, {name}_T{id};"));
            }
            3 => {
                self.choose();
                let (a, b) = (self.label(), self.label());
                self.line(&format!("@%p bra {a};\nbra {b};"));
            }
            _ => {
                self.choose();
                let to = self.label();
                let not = if self.numbers.below(2) == 0 { "!" } else { "" };
                self.line(&format!("@{not}%p bra {to};"));
            }
        }
    }

    fn blocks(&mut self) {
        for id in 0..self.blocks {
            self.block(id);
        }
        let name = self.name.clone();
        self.line(&format!("{name}_END:"));
    }
}

const REGISTERS: &str = ".reg .u32 %h, %x, %t, %n;\n.reg .u64 %w, %in;\n.reg .pred %p, %q;\n";

/// A module with the kernel `k(.u64 out)` of program number `seed`; its words lie at `out`, 1024
/// words of input after them at `out + 4096`.
pub fn program(seed: u64) -> String {
    let numbers = &mut Numbers::new(seed);
    let mut text = ".version 6.0\n.target sm_30\n.address_size 64\n".to_string();
    let functions: Vec<String> = (0..numbers.below(3)).map(|i| format!("f{i}")).collect();
    for (i, name) in functions.iter().enumerate() {
        let blocks = numbers.below(4) + 1;
        // Earlier ones, and itself: fuel ends the recursion.
        let callees = functions[..=i].to_vec();
        let mut body = Body { numbers, text: String::new(), name: name.clone(), callees, blocks };
        body.blocks();
        let body = body.text;
        let _ = write!(
            text,
            ".func (.reg .u32 %ho, .reg .u32 %xo, .reg .u32 %no) {name}(.reg .u32 %hi, .reg .u32 %xi, .reg .u32 %ni, .reg .u64 %ini)\n\
             {{\n{REGISTERS}mov.u32 %h, %hi;\nmov.u32 %x, %xi;\nmov.u32 %n, %ni;\nmov.u64 %in, %ini;\n{body}\
             mov.u32 %ho, %h;\nmov.u32 %xo, %x;\nmov.u32 %no, %n;\nret;\n}}\n"
        );
    }
    let (blocks, leaves) = (numbers.below(9) + 2, numbers.below(4) == 0);
    let fuel = numbers.below(40) + 4;
    let mut body = Body { numbers, text: String::new(), name: "K".into(), callees: functions, blocks };
    body.blocks();
    let body = body.text;
    // Some threads end before the barrier; the others tell their neighbour's result.
    let leave = if leaves { "and.b32 %t, %h, 7;\nsetp.eq.u32 %p, %t, 3;\n@%p exit;\n" } else { "" };
    let _ = write!(
        text,
        ".visible .entry k(.param .u64 p)\n{{\n{REGISTERS}.reg .u32 %i, %a, %b;\n.reg .u64 %own, %out;\n\
         .shared .align 4 .b8 room[1024];\n\
         ld.param.u64 %out, [p];\nmov.u32 %i, %tid.x;\nmul.wide.u32 %own, %i, 4;\nadd.u64 %own, %own, %out;\n\
         add.u64 %in, %out, 4096;\nmad.lo.u32 %x, %i, 2654435, {number};\nmov.u32 %h, %i;\n\
         and.b32 %n, %i, 7;\nadd.u32 %n, %n, {fuel};\nshl.b32 %a, %i, 2;\nmov.u32 %b, room;\nadd.u32 %a, %a, %b;\n\
         st.shared.u32 [%a], %i;\nbar.sync 0;\n{body}{leave}st.shared.u32 [%a], %h;\nbar.sync 0;\n\
         xor.b32 %a, %a, 4;\nld.shared.u32 %t, [%a];\nmad.lo.u32 %h, %t, 3, %h;\nst.global.u32 [%own], %h;\nexit;\n}}\n",
        number = numbers.below(1 << 31),
    );
    text
}
