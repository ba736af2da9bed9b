//! What a PTX operation costs on a compute capability: unit, latency, initiation interval,
//! machine operations. PTX is not machine code; `configs/isa` says what stands between.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_memory::vocabulary::ScalarType;

use crate::diagnostic::{Diagnostic, Source};
use crate::form::{Accuracy, Form, Half};
use crate::isa::{Kind, Root, TABLE, UnitClass, entry, entry_of};
use crate::yaml::read_checked;

/// The cost of an operation, in cycles of the core clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Unit that executes it.
    pub unit: UnitClass,
    /// Cycles from issue to the first issue that can read the result.
    pub latency: u32,
    /// Cycles until the unit takes the next warp.
    pub initiation: u32,
    /// Machine operations it stands for.
    pub machine_operations: u32,
}

/// A row of the table; the first that matches counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// Roots; none: any.
    #[serde(default)]
    roots: Vec<String>,
    /// Classes of the operation's type; none: any.
    #[serde(default)]
    types: Vec<TypeClass>,
    /// Variants; none: any.
    #[serde(default)]
    variant: Option<Variant>,
    unit: UnitClass,
    latency: u32,
    initiation: u32,
    #[serde(default = "one")]
    machine_operations: u32,
}

fn one() -> u32 {
    1
}

/// Classes of types that cost alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TypeClass {
    /// Integers and bits up to 32 bits, predicates.
    Int,
    /// Integers and bits of 64 bits.
    Long,
    /// f32 and smaller.
    Float,
    /// f64.
    Double,
}

/// Variants of an instruction that cost differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Variant {
    /// `.approx`.
    Approx,
    /// `.hi`.
    Hi,
    /// `.wide`.
    Wide,
    /// Of `cvt`: two values of `.f32` become `.f16x2` or `.bf16x2`.
    Packed,
    /// Of `cvt`: from an integer to an integer.
    Integers,
    /// Of `cvt`: from an integer to a floating-point number of at most 32 bits.
    FromInteger,
    /// Of `cvt`: between `.f32` and `.f16` or `.bf16`.
    Halves,
    /// Of `cvt`: from `.f16` to `.f32`.
    FromHalf,
    /// Of `cvt`: two values of `.e4m3` or `.e5m2`, on either side.
    Bytes,
    /// Of `cvt`: to `.tf32`.
    Tf32,
    /// Of `cvt`: to `.tf32`, where nothing but products of matrices reads it, which leave the low bits out.
    Tf32OfProduct,
    /// `.ftz`.
    Ftz,
    /// Of `mad`: an addition of what is shifted (LEA).
    Shifted,
    /// Of `mad`: a 64-bit addition of what is extended from 32 bits (LEA.HI.X.SX32).
    Extended,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    #[allow(dead_code, reason = "read by people")]
    description: String,
    rules: Vec<Rule>,
}

/// A cost table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IsaCosts {
    rules: Vec<Rule>,
}

fn class_of(ty: ScalarType) -> TypeClass {
    match ty {
        ScalarType::F64 => TypeClass::Double,
        ty if ty.is_float() => TypeClass::Float,
        ty if ty.bits() == 64 => TypeClass::Long,
        _ => TypeClass::Int,
    }
}

impl IsaCosts {
    /// Reads and checks a cost table: every root named exists, the last row matches everything, and what
    /// accesses memory goes to the load-store unit.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn load(source: &Source) -> Result<Self, Vec<Diagnostic>> {
        let file: File = read_checked(source)?;
        let mut errors = Vec::new();
        let mut wrong = |message: String| errors.push(Diagnostic::error("isa", message).in_source(source));
        if file.schema != 1 {
            wrong("this version of warpsim reads only schema 1".into());
        }
        for rule in &file.rules {
            for root in rule.roots.iter().filter(|root| entry(root).is_none()) {
                wrong(format!("unknown instruction `{root}`"));
            }
            if rule.latency == 0 || rule.initiation == 0 || rule.latency > 60_000 || rule.initiation > 60_000
            {
                wrong("latency and initiation must be between 1 and 60000".into());
            }
        }
        let last = file.rules.last();
        if !last.is_some_and(|r| r.roots.is_empty() && r.types.is_empty() && r.variant.is_none()) {
            wrong("the last rule must match everything".into());
        }
        let costs = Self { rules: file.rules };
        if errors.is_empty() {
            let elsewhere = costs.memory_elsewhere();
            if !elsewhere.is_empty() {
                let message = format!(
                    "instructions that access memory need a rule with `unit: load_store`, where accesses wait for room in its queue; without one: {}",
                    elsewhere.join(", ")
                );
                errors.push(Diagnostic::error("isa", message).in_source(source));
            }
        }
        if errors.is_empty() { Ok(costs) } else { Err(errors) }
    }

    /// Executed instructions of the load-store unit that some rule sends to another.
    fn memory_elsewhere(&self) -> Vec<&'static str> {
        let types = [ScalarType::U32, ScalarType::U64, ScalarType::F32, ScalarType::F64];
        let elsewhere =
            |root| types.iter().any(|ty| self.cost(&Form::plain(root, *ty)).unit != UnitClass::LoadStore);
        let memory = TABLE.iter().filter(|entry| {
            entry.unit == UnitClass::LoadStore && entry.executed() && entry.kind != Kind::Rewritten
        });
        memory.filter(|entry| elsewhere(entry.root)).map(|entry| entry.name).collect()
    }

    /// The cost of a form.
    pub fn cost(&self, form: &Form) -> Cost {
        let name = entry_of(form.root).name;
        // Conversions cost what their wider side costs.
        let class = match form.root {
            Root::Cvt if class_of(form.dst) == TypeClass::Double => TypeClass::Double,
            _ => class_of(form.ty),
        };
        let variant = |v: Variant| match v {
            Variant::Approx => form.mods.accuracy == Some(Accuracy::Approx),
            Variant::Hi => form.mods.half == Some(Half::Hi),
            Variant::Wide => form.mods.half == Some(Half::Wide),
            Variant::Packed => {
                form.ty == ScalarType::F32 && matches!(form.dst, ScalarType::F16x2 | ScalarType::Bf16x2)
            }
            Variant::Integers => !form.ty.is_float() && !form.dst.is_float(),
            Variant::FromInteger => !form.ty.is_float() && form.dst.is_float() && form.dst.bits() <= 32,
            Variant::Halves => {
                let half = |ty: ScalarType| matches!(ty, ScalarType::F16 | ScalarType::Bf16);
                let single = |ty: ScalarType| ty == ScalarType::F32;
                half(form.ty) && single(form.dst) || single(form.ty) && half(form.dst)
            }
            Variant::FromHalf => form.ty == ScalarType::F16 && form.dst == ScalarType::F32,
            Variant::Bytes => {
                [form.ty, form.dst].iter().any(|ty| matches!(ty, ScalarType::E4m3x2 | ScalarType::E5m2x2))
            }
            Variant::Tf32 => form.dst == ScalarType::Tf32,
            Variant::Tf32OfProduct => form.dst == ScalarType::Tf32 && form.mods.unmasked,
            Variant::Ftz => form.mods.ftz,
            Variant::Shifted => form.mods.shifted && form.mods.half != Some(Half::Wide),
            Variant::Extended => form.mods.shifted && form.mods.half == Some(Half::Wide),
        };
        let found = self.rules.iter().find(|rule| {
            (rule.roots.is_empty() || rule.roots.iter().any(|root| root == name))
                && (rule.types.is_empty() || rule.types.contains(&class))
                && rule.variant.is_none_or(variant)
        });
        match found {
            Some(rule) => Cost {
                unit: rule.unit,
                latency: rule.latency,
                initiation: rule.initiation,
                machine_operations: rule.machine_operations,
            },
            // `load` made sure that the last rule matches.
            None => Cost { unit: UnitClass::Alu, latency: 1, initiation: 1, machine_operations: 1 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::resolve;

    fn cost(costs: &IsaCosts, text: &str) -> Cost {
        let mut words = text.split('.');
        let row = words.next().and_then(entry).expect("a root");
        costs.cost(&resolve(row, &words.collect::<Vec<_>>(), false).expect("a form").form)
    }

    #[test]
    fn fermi_costs() {
        let source = Source::new("2.0.yaml", include_str!("../../configs/isa/2.0.yaml"));
        let costs = IsaCosts::load(&source).unwrap_or_else(|e| panic!("{}", e[0].render()));
        // 18 cycles of the hot clock are 9 of the core clock.
        assert_eq!(cost(&costs, "fma.rn.f32").latency, 9);
        assert_eq!(cost(&costs, "add.s32").unit, UnitClass::Alu);
        assert_eq!(cost(&costs, "sin.approx.f32").unit, UnitClass::Sfu);
        assert_eq!(cost(&costs, "add.f64").unit, UnitClass::Fp64);
        assert!(
            cost(&costs, "div.rn.f32").machine_operations > cost(&costs, "div.approx.f32").machine_operations
        );
        assert_eq!(cost(&costs, "ld.global.f32").unit, UnitClass::LoadStore);
        assert_eq!(cost(&costs, "bra").unit, UnitClass::Control);
    }

    #[test]
    fn packed_halves_are_made_by_the_alu_from_ampere_on() {
        for (name, text, unit) in [
            ("7.5", include_str!("../../configs/isa/7.5.yaml"), UnitClass::Convert),
            ("8.0", include_str!("../../configs/isa/8.0.yaml"), UnitClass::Alu),
            ("9.0", include_str!("../../configs/isa/9.0.yaml"), UnitClass::Alu),
        ] {
            let costs =
                IsaCosts::load(&Source::new(name, text)).unwrap_or_else(|e| panic!("{}", e[0].render()));
            assert_eq!(cost(&costs, "cvt.rn.f16x2.f32").unit, unit, "{name}");
            assert_eq!(cost(&costs, "cvt.rn.bf16x2.f32").unit, unit, "{name}");
            assert_eq!(cost(&costs, "cvt.rn.f16.f32").unit, unit, "{name}");
            // HADD2.F32; of an H100 it was measured beside F2FP.
            let unit = if name == "9.0" { UnitClass::Alu } else { UnitClass::Fma };
            assert_eq!(cost(&costs, "cvt.f32.f16").unit, unit, "{name}");
            // Measured on an H100.
            let unit = if name == "9.0" { UnitClass::Alu } else { UnitClass::Convert };
            for other in ["cvt.rn.f16x2.e4m3x2", "cvt.rn.f32.s32"] {
                assert_eq!(cost(&costs, other).unit, unit, "{name}: {other}");
            }
            if name != "7.5" {
                let rounded = cost(&costs, "cvt.rna.tf32.f32");
                assert_eq!((rounded.unit, rounded.machine_operations), (UnitClass::Alu, 3), "{name}");
            }
            assert_eq!(cost(&costs, "cvt.u64.u32").unit, UnitClass::Alu, "{name}");
            assert_eq!(cost(&costs, "cvt.rzi.s32.f32").unit, UnitClass::Convert, "{name}");
        }
    }

    #[test]
    fn what_flushes_subnormal_numbers_is_one_operation_on_hopper() {
        let source = Source::new("9.0.yaml", include_str!("../../configs/isa/9.0.yaml"));
        let costs = IsaCosts::load(&source).unwrap_or_else(|e| panic!("{}", e[0].render()));
        for text in ["ex2.approx", "lg2.approx", "rsqrt.approx"] {
            let [flushing, other] =
                [format!("{text}.ftz.f32"), format!("{text}.f32")].map(|t| cost(&costs, &t));
            assert_eq!((flushing.latency, flushing.machine_operations), (18, 1), "{text}");
            assert!(other.latency > 18 && other.machine_operations == 4, "{text}");
        }
    }

    #[test]
    fn a_table_must_cover_everything() {
        let text =
            "schema: 1\ndescription: x\nrules:\n- {roots: [ad], unit: alu, latency: 1, initiation: 1}\n";
        let errors = IsaCosts::load(&Source::new("x", text)).expect_err("refused");
        assert_eq!(errors.len(), 2);
    }

    #[test]
    fn what_accesses_memory_goes_to_the_load_store_unit() {
        let text = include_str!("../../configs/isa/2.0.yaml").replace("[ld, ldu, st,", "[ld, st,");
        let errors = IsaCosts::load(&Source::new("x", &text)).expect_err("loads of `ldu` go to the alu");
        let said = errors.iter().map(ToString::to_string).collect::<String>();
        assert!(errors.len() == 1 && said.contains("without one: ldu"), "{said}");
    }

    #[test]
    fn all_wrong_keys_are_named_at_once() {
        let text =
            "schema: 1\nrules:\n- {root: [add], unit: alu, latency: 1, initiation: 1}\n- {unit: alu}\n";
        let errors = IsaCosts::load(&Source::new("x", text)).expect_err("refused");
        let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "x:1:1: error: missing key: `description`",
                "x:3:4: error: there is no key `rules[0].root`",
                "x:4:3: error: missing keys in `rules[1]`: `latency`, `initiation`",
            ]
        );
    }
}
