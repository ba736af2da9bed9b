//! Values of an axis of a sweep.

use schemars::JsonSchema;
use serde::Deserialize;
use sim_frontend::workload::Number;

/// A value of an axis, as it is written.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    /// A number.
    Number(Number),
    /// Anything else.
    Text(String),
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text}"),
        }
    }
}

/// The values of an axis.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Values {
    /// A list of values.
    List(Vec<Scalar>),
    /// Values with a constant step between them.
    Range {
        /// Its numbers.
        range: Range,
    },
    /// Values with a constant factor between them.
    Log {
        /// Its numbers.
        log: Log,
    },
    /// One value.
    One(Scalar),
}

/// `from`, `from + step`, … up to `to`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Range {
    from: Number,
    to: Number,
    step: Number,
}

/// `from`, `from × factor`, … up to `to`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Log {
    from: Number,
    to: Number,
    #[serde(default = "two")]
    factor: Number,
}

fn two() -> Number {
    Number::Int(2)
}

/// Most values of an axis, and most points of a sweep.
pub(super) const MOST: usize = 1_000_000;

impl Values {
    /// The values.
    ///
    /// # Errors
    /// What is no range, in words, or too many.
    pub fn list(&self) -> Result<Vec<Scalar>, String> {
        match self {
            Self::List(list) => Ok(list.clone()),
            Self::One(one) => Ok(vec![one.clone()]),
            Self::Range { range: Range { from, to, step } } => {
                // Comparisons with NaN are false.
                if step.partial_cmp(&Number::ZERO) != Some(std::cmp::Ordering::Greater) {
                    return Err("`step` must be positive".into());
                }
                match (from.integer(), to.integer(), step.integer()) {
                    (Some(from), Some(to), Some(step)) => {
                        collect(|i| from.checked_add(step.checked_mul(i as i128)?).filter(|v| *v <= to))
                    }
                    _ => {
                        let (from, to, step) = (from.as_f64(), to.as_f64(), step.as_f64());
                        collect(|i| Some(from + step * i as f64).filter(|v| near(*v, to)))
                    }
                }
            }
            Self::Log { log: Log { from, to, factor } } => {
                if !(*factor > Number::Int(1) && *from > Number::ZERO) {
                    return Err("`from` must be positive and `factor` above 1".into());
                }
                match (from.integer(), to.integer(), factor.integer()) {
                    (Some(from), Some(to), Some(factor)) => collect(|i| {
                        let scale = factor.checked_pow(u32::try_from(i).ok()?)?;
                        from.checked_mul(scale).filter(|v| *v <= to)
                    }),
                    _ => {
                        let (to, factor) = (to.as_f64(), factor.as_f64());
                        let mut next = from.as_f64();
                        collect(|_| {
                            let value = next;
                            next *= factor;
                            near(value, to).then_some(value)
                        })
                    }
                }
            }
        }
    }
}

/// Up to the end of a range: what rounding leaves of the last value is no reason to lose it.
fn near(value: f64, to: f64) -> bool {
    value <= to * (1.0 + 1e-12)
}

/// Values until there is none.
fn collect<N: Into<Number>>(mut value: impl FnMut(usize) -> Option<N>) -> Result<Vec<Scalar>, String> {
    let mut out = Vec::new();
    while let Some(value) = value(out.len()) {
        if out.len() >= MOST {
            return Err(format!("more than {MOST} values"));
        }
        out.push(Scalar::Number(value.into()));
    }
    Ok(out)
}
