//! Executed instructions by class, beside what a profiler counts by pipeline.

use std::fmt;

use serde::{Deserialize, Serialize};
use sim_core::report::LineReport;
use sim_frontend::isa::UnitClass;

use crate::study::agreement::middle;

/// Executed warp instructions by pipeline, as Nsight Compute names them (`smsp__inst_executed_pipe_*`).
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pipes {
    /// Integer and logic operations, comparisons, moves.
    alu: f64,
    /// FP32, FP16, and multiplications of integers.
    fma: f64,
    fp64: f64,
    /// Special functions and conversions.
    xu: f64,
    /// Loads, stores, atomics, shuffles, reads of the numbers of threads (S2R of SR_TID: a copy of the addition of vectors has one
    /// more than its accesses).
    lsu: f64,
    /// Uniform datapath.
    uniform: f64,
    /// Convergence barriers, exits.
    cbu: f64,
    tensor: f64,
}

/// Executed instructions of a launch by class: those of hardware, or machine operations of the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Classes {
    /// Integers, FP32, FP16, logic, comparisons, moves, uniform ones too: which pipeline takes them is the assembler's choice.
    pub arithmetic: f64,
    /// Of these, the ones of the multipliers.
    pub multipliers: f64,
    /// Double precision.
    pub fp64: f64,
    /// Special functions and conversions.
    pub special: f64,
    /// Accesses to memory, shuffles, reads of the numbers of threads.
    pub memory: f64,
    /// Branches, barriers, loads of constants and special registers. Those that the profiler counts for no pipeline are such: the
    /// unit of divergent addresses has no counter here.
    pub control: f64,
    /// Products of matrices.
    pub tensor: f64,
}

impl Classes {
    /// Names and values.
    fn each(&self) -> [(&'static str, f64); 7] {
        [
            ("arithmetic", self.arithmetic),
            ("of these, multipliers", self.multipliers),
            ("double precision", self.fp64),
            ("special functions, conversions", self.special),
            ("memory, shuffles", self.memory),
            ("branches, barriers, constants, special registers", self.control),
            ("products of matrices", self.tensor),
        ]
    }

    /// Those of a profiler that counts so many executed instructions.
    pub(super) fn of_silicon(pipes: &Pipes, all: f64) -> Self {
        // What `cbu` counts is in what is left.
        let Pipes { alu, fma, fp64, xu, lsu, uniform, cbu: _, tensor } = pipes;
        let others = alu + fma + fp64 + xu + lsu + uniform + tensor;
        Self {
            arithmetic: alu + fma + uniform,
            multipliers: *fma,
            fp64: *fp64,
            special: *xu,
            memory: *lsu,
            control: (all - others).max(0.0),
            tensor: *tensor,
        }
    }

    /// Those of the lines of a kernel.
    pub(super) fn of_lines(lines: &[LineReport], kernel: &str) -> Self {
        let mut all = Self::default();
        for line in lines.iter().filter(|line| line.kernel == kernel) {
            for (class, operations) in &line.machine_operations {
                all.add(*class, *operations as f64, line.issues as f64, &line.text);
            }
        }
        all
    }

    /// Adds the machine operations of so many issues of an instruction.
    fn add(&mut self, class: UnitClass, operations: f64, issues: f64, text: &str) {
        let kind = Kind::of(text);
        match class {
            UnitClass::Alu | UnitClass::Imul if kind == Kind::Special => self.control += operations,
            UnitClass::Alu | UnitClass::Imul if kind == Kind::Thread => self.memory += operations,
            UnitClass::Alu => self.arithmetic += operations,
            UnitClass::Imul if kind == Kind::Quotient => {
                let special = operations.min(OF_QUOTIENT * issues);
                self.special += special;
                self.arithmetic += operations - special;
                self.multipliers += operations - special;
            }
            UnitClass::Fma | UnitClass::Imul => {
                self.arithmetic += operations;
                self.multipliers += operations;
            }
            UnitClass::Fp64 => self.fp64 += operations,
            // What stands around a special function are comparisons and multiplications.
            UnitClass::Convert | UnitClass::Sfu => {
                let special = operations.min(issues);
                let branches = (kind.branches() * issues).min(operations - special);
                self.special += special;
                self.control += branches;
                self.arithmetic += operations - special - branches;
            }
            UnitClass::LoadStore if kind == Kind::Constant => self.control += operations,
            UnitClass::LoadStore => self.memory += operations,
            UnitClass::Control if kind == Kind::Shuffle => self.memory += operations,
            UnitClass::Control => self.control += operations,
            UnitClass::Tensor => self.tensor += operations,
        }
    }
}

/// What an instruction is that hardware executes elsewhere than its unit here (Nsight Compute, Profiling Guide, "Pipelines").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A load of a parameter or constant, or a wait, which the load-store unit has here.
    Constant,
    /// A read of a number of the thread, block or grid, or the move of a constant that the assembler makes.
    Special,
    Shuffle,
    /// A read of the number of the thread in its block.
    Thread,
    /// A division of integers.
    Quotient,
    /// A division of single precision, correctly rounded.
    Division,
    /// A reciprocal or square root of single precision, correctly rounded.
    Root,
    Other,
}

/// Operations of the special-function unit that a division of integers has: to a float, the reciprocal, and back (ptxas 12.9).
const OF_QUOTIENT: f64 = 3.0;

impl Kind {
    /// Of its operations, those of control flow: it goes elsewhere for subnormal numbers and the like. A division has a convergence
    /// barrier besides the branch (ptxas 12.9).
    fn branches(self) -> f64 {
        match self {
            Self::Division => 3.0,
            Self::Root => 1.0,
            _ => 0.0,
        }
    }

    /// That of a line's text.
    fn of(text: &str) -> Self {
        let mut words =
            text.split([' ', '\t', ';']).filter(|word| !word.is_empty() && !word.starts_with('@'));
        let opcode = words.next().unwrap_or_default();
        match opcode.split('.').next().unwrap_or_default() {
            "shfl" => Self::Shuffle,
            "div" if opcode.starts_with("div.r") => Self::Division,
            "rcp" | "sqrt" if opcode.contains(".r") && !opcode.contains(".f64") => Self::Root,
            "div" | "rem" => Self::Quotient,
            // Waits for asynchronous copies (DEPBAR).
            "cp" if opcode.contains(".wait") => Self::Constant,
            "ld" if [".param", ".const"].iter().any(|space| opcode.contains(space)) => Self::Constant,
            // What a pass made has no types in its text.
            "mov" if opcode == "mov" => Self::Special,
            "mov" if text.contains("%tid.") => Self::Thread,
            "mov" if ["%ntid.", "%ctaid.", "%nctaid.", "%laneid"].iter().any(|own| text.contains(own)) => {
                Self::Special
            }
            _ => Self::Other,
        }
    }
}

/// Least share of a launch's instructions at which a class counts.
const LEAST: f64 = 0.02;

/// What a launch executed, here and on hardware.
#[derive(Clone, Copy, Debug)]
pub(super) struct Executed {
    /// Machine operations here.
    pub(super) operations: f64,
    pub(super) classes: Option<Classes>,
    /// Warp instructions of hardware.
    pub(super) instructions: Option<f64>,
    pub(super) pipes: Option<Pipes>,
}

/// How far the classes agree over launches.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ClassAgreement {
    class: &'static str,
    /// Launches of which the class is a fiftieth of the machine's instructions or more.
    launches: usize,
    /// Median of the simulator's operations over the machine's.
    median_ratio: f64,
    /// Median of the absolute errors, in per cent.
    median_absolute_error: f64,
}

/// Agreement of each class, and of all instructions, over the launches that have them.
pub(super) fn agreement(launches: &[Executed]) -> Vec<ClassAgreement> {
    let mut found = Vec::new();
    let mut add = |class, pairs: Vec<(f64, f64)>| {
        if !pairs.is_empty() {
            let ratios = pairs.iter().map(|(own, machine)| own / machine);
            found.push(ClassAgreement {
                class,
                launches: pairs.len(),
                median_ratio: middle(ratios.clone().collect()),
                median_absolute_error: middle(ratios.map(|ratio| 100.0 * (ratio - 1.0).abs()).collect()),
            });
        }
    };
    let all = launches.iter().filter_map(|launch| Some((launch.operations, launch.instructions?)));
    add("all", all.collect());
    for (class, (name, _)) in Classes::default().each().into_iter().enumerate() {
        let pair = |launch: &Executed| {
            let own = launch.classes?.each()[class].1;
            let all = launch.instructions?;
            let machine = Classes::of_silicon(&launch.pipes?, all).each()[class].1;
            (machine >= LEAST * all).then_some((own, machine))
        };
        add(name, launches.iter().filter_map(pair).collect());
    }
    found
}

impl fmt::Display for ClassAgreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} launches, median ratio {:.2}, median absolute error {:.1} %",
            self.class, self.launches, self.median_ratio, self.median_absolute_error
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hardware_executes_elsewhere_is_known_by_its_text() {
        for (text, kind) in [
            ("shfl.sync.down.b32 %r1, %r2, 16, 31, -1;", Kind::Shuffle),
            ("rem.u32 %r1, %r2, %r3;", Kind::Quotient),
            ("div.s32 %r1, %r2, %r3;", Kind::Quotient),
            ("div.rn.f32 %f1, %f2, %f3;", Kind::Division),
            ("div.full.f32 %f1, %f2, %f3;", Kind::Quotient),
            ("sqrt.rn.f32 %f1, %f2;", Kind::Root),
            ("rcp.approx.ftz.f32 %f1, %f2;", Kind::Other),
            ("mov.u32 %r1, %tid.x;", Kind::Thread),
            ("mov.u32 %r1, %ctaid.x;", Kind::Special),
            ("mov.u32 %r1, %r2;", Kind::Other),
            ("@%p1 ld.param.u64 %rd1, [f_param_0];", Kind::Constant),
            ("ld.param", Kind::Constant),
            ("cp.async.wait_group 1;", Kind::Constant),
            ("cp.async.commit_group;", Kind::Other),
            ("ld.global.u32 %r1, [%rd1];", Kind::Other),
            ("", Kind::Other),
        ] {
            assert_eq!(Kind::of(text), kind, "{text}");
        }
    }

    #[test]
    fn what_no_pipeline_counts_is_control() {
        let pipes = Pipes { alu: 1.0, fma: 2.0, lsu: 3.0, cbu: 1.0, uniform: 1.0, ..Pipes::default() };
        let found = Classes::of_silicon(&pipes, 10.0);
        assert_eq!((found.arithmetic, found.memory, found.control), (4.0, 3.0, 3.0));
    }

    #[test]
    fn operations_are_of_the_class_of_their_unit() {
        let mut all = Classes::default();
        all.add(UnitClass::Sfu, 70.0, 10.0, "div.rn.f32 %f1, %f2, %f3;");
        all.add(UnitClass::Imul, 3.0, 3.0, "mul.lo.s32 %r1, %r2, %r3;");
        all.add(UnitClass::Imul, 36.0, 2.0, "div.s32 %r1, %r2, %r3;");
        all.add(UnitClass::Control, 5.0, 5.0, "bra $L;");
        all.add(UnitClass::Control, 2.0, 2.0, "bar.sync 0;");
        all.add(UnitClass::LoadStore, 4.0, 4.0, "ld.global.u32 %r1, [%rd1];");
        let expected = Classes {
            arithmetic: 63.0,
            multipliers: 33.0,
            special: 16.0,
            memory: 4.0,
            control: 37.0,
            ..Classes::default()
        };
        assert_eq!(all, expected);
    }
}
