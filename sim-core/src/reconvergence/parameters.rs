//! Typed parameters of policies. Each policy declares a struct of them beside its code with
//! [`parameters!`]; the command line, the listing and reports see them through [`Parameters`].

use std::num::NonZeroU32;

use sim_frontend::diagnostic::Diagnostic;

/// A parameter of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, as in `--policy NAME:key=value`.
    pub name: &'static str,
    /// What it means, with its unit.
    pub doc: &'static str,
    /// Value where none is given.
    pub default: u32,
    /// The least and the greatest value it takes.
    pub range: (u32, u32),
    /// Words for the values 0, 1, … where they have such.
    pub words: &'static [&'static str],
}

impl Parameter {
    /// A value as it is written.
    pub fn spell(&self, value: u32) -> String {
        self.words.get(value as usize).map_or_else(|| value.to_string(), |word| (*word).to_string())
    }

    /// A value from its word or number.
    ///
    /// # Errors
    /// It is none, or lies outside the range.
    pub fn parse(&self, text: &str) -> Result<u32, Diagnostic> {
        let (least, most) = self.range;
        let word = self.words.iter().position(|word| *word == text).map(|index| index as u32);
        let number = text.parse().ok().filter(|value| (least..=most).contains(value));
        word.or(number).ok_or_else(|| {
            let words = self.words.join(", ");
            let or = if words.is_empty() { "" } else { " or one of " };
            Diagnostic::error(
                "policy",
                format!("`{}` must be an integer from {least} to {most}{or}{words}, not `{text}`", self.name),
            )
        })
    }
}

/// The type of a parameter's field.
pub trait Value: Copy {
    /// Words for the values 0, 1, … where they have such.
    const WORDS: &'static [&'static str] = &[];
    /// From a number within the parameter's range.
    fn of(number: u32) -> Self;
    /// The number that stands for the value.
    fn number(self) -> u32;
}

impl Value for u32 {
    fn of(number: u32) -> Self {
        number
    }

    fn number(self) -> u32 {
        self
    }
}

impl Value for bool {
    fn of(number: u32) -> Self {
        number != 0
    }

    fn number(self) -> u32 {
        self.into()
    }
}

/// A number of events; 0 is written `never`.
impl Value for Option<NonZeroU32> {
    const WORDS: &'static [&'static str] = &["never"];

    fn of(number: u32) -> Self {
        NonZeroU32::new(number)
    }

    fn number(self) -> u32 {
        self.map_or(0, NonZeroU32::get)
    }
}

/// A policy's parameters, by their places in its table.
pub trait Parameters {
    /// The descriptions of the parameters.
    fn table(&self) -> &'static [Parameter];
    /// Sets the one at a place of the table to a value within its range.
    fn set(&mut self, index: usize, number: u32);
    /// All values, in the order of the table.
    fn numbers(&self) -> Vec<u32>;
}

/// Declares a struct of parameters: `name: type = default, least..=greatest, "meaning";`.
macro_rules! parameters {
    (
        $(#[$meta:meta])*
        pub struct $struct:ident {
            $($name:ident: $type:ty = $default:literal, $least:literal..=$most:literal, $doc:literal;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $struct {
            $(#[doc = $doc] pub $name: $type,)*
        }

        impl $struct {
            /// Their descriptions, in the order of the fields.
            pub const TABLE: &'static [$crate::reconvergence::parameters::Parameter] = &[
                $($crate::reconvergence::parameters::Parameter {
                    name: stringify!($name),
                    doc: $doc,
                    default: $default,
                    range: ($least, $most),
                    words: <$type as $crate::reconvergence::parameters::Value>::WORDS,
                },)*
            ];
        }

        impl Default for $struct {
            fn default() -> Self {
                Self { $($name: <$type as $crate::reconvergence::parameters::Value>::of($default),)* }
            }
        }

        impl $crate::reconvergence::parameters::Parameters for $struct {
            fn table(&self) -> &'static [$crate::reconvergence::parameters::Parameter] {
                Self::TABLE
            }

            fn set(&mut self, index: usize, number: u32) {
                let fields: &mut [&mut dyn FnMut(u32)] =
                    &mut [$(&mut |number| self.$name = $crate::reconvergence::parameters::Value::of(number),)*];
                fields[index](number);
            }

            fn numbers(&self) -> Vec<u32> {
                vec![$($crate::reconvergence::parameters::Value::number(self.$name),)*]
            }
        }
    };
}
pub(super) use parameters;
