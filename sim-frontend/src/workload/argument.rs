//! Arguments of launches as workload files write them.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::expr::Expr;
use super::key_span::KeySpan;

/// An argument with its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Argument {
    /// What it is.
    pub kind: ArgumentKind,
    /// Where the file has it.
    #[serde(skip)]
    pub place: KeySpan,
}

impl From<ArgumentKind> for Argument {
    fn from(kind: ArgumentKind) -> Self {
        Self { kind, place: KeySpan::default() }
    }
}

/// An argument.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum ArgumentKind {
    /// The address of a buffer, or of one of its elements.
    Pointer {
        /// The buffer.
        buffer: String,
        /// Elements from its beginning.
        offset: Option<Expr>,
    },
    /// One value, or several in a row.
    Scalar {
        /// The type by its name.
        ty: String,
        /// The values.
        values: Vec<Expr>,
    },
    /// Bytes in hexadecimal digits.
    Bytes(String),
    /// Fields in order, each at the next multiple of its alignment, as in C.
    Struct(Vec<ArgumentKind>),
}

impl ArgumentKind {
    /// `buffer`, or `buffer + offset`.
    pub fn pointer(text: &str) -> Self {
        match text.split_once('+') {
            Some((buffer, offset)) => {
                let offset = Some(Expr::Text(offset.trim().to_string()));
                Self::Pointer { buffer: buffer.trim().to_string(), offset }
            }
            None => Self::Pointer { buffer: text.trim().to_string(), offset: None },
        }
    }
}

/// One expression or a list of them.
struct Values(Vec<Expr>);

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;

        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Values;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, an expression or a list of them")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Values, E> {
                Ok(Values(vec![Expr::Number(value.into())]))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Values, E> {
                Ok(Values(vec![Expr::Number(value.into())]))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Values, E> {
                Ok(Values(vec![Expr::Number(value.into())]))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Values, E> {
                Ok(Values(vec![Expr::Text(text.to_string())]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Values, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = list.next_element()? {
                    values.push(value);
                }
                Ok(Values(values))
            }
        }

        deserializer.deserialize_any(OneOrMore)
    }
}

impl<'de> Deserialize<'de> for ArgumentKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = ArgumentKind;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a buffer, `buffer + offset`, `{TYPE: value}`, `{struct: [fields]}` or `{bytes: digits}`",
                )
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ArgumentKind, E> {
                Ok(ArgumentKind::pointer(text))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ArgumentKind, A::Error> {
                let Some(key) = map.next_key::<String>()? else {
                    return Err(A::Error::custom("an argument needs a type and a value: `{u32: n}`"));
                };
                let kind = match key.as_str() {
                    "struct" => ArgumentKind::Struct(map.next_value()?),
                    "bytes" => ArgumentKind::Bytes(map.next_value()?),
                    _ => {
                        let Values(values) = map.next_value()?;
                        ArgumentKind::Scalar { ty: key, values }
                    }
                };
                match map.next_key::<String>()? {
                    None => Ok(kind),
                    Some(more) => Err(A::Error::custom(format!(
                        "an argument has one type, not `{more}` too: fields of a struct are a list, \
                         `{{struct: [{{u32: 1}}, {{f32: 2}}]}}`"
                    ))),
                }
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for ArgumentKind {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Argument".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let expr = generator.subschema_for::<Expr>();
        let argument = generator.subschema_for::<Self>();
        json_schema!({
            "description": "An argument.",
            "anyOf": [
                {
                    "description": "The address of a buffer: its name, or `name + EXPR`, EXPR elements further.",
                    "type": "string"
                },
                {
                    "description": "Fields in order, each at the next multiple of its alignment, as in C.",
                    "type": "object",
                    "properties": {"struct": {"type": "array", "items": argument}},
                    "required": ["struct"],
                    "additionalProperties": false
                },
                {
                    "description": "Bytes in hexadecimal digits.",
                    "type": "object",
                    "properties": {"bytes": {"type": "string"}},
                    "required": ["bytes"],
                    "additionalProperties": false
                },
                {
                    "description": "One pair: a type and a value, or a list of values as an array has them.",
                    "type": "object",
                    "minProperties": 1,
                    "maxProperties": 1,
                    "additionalProperties": {"anyOf": [expr, {"type": "array", "items": expr}]}
                }
            ]
        })
    }
}
