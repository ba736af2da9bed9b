//! A YAML file as a tree whose keys and values know their places.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use serde_yaml::Spanned;

use crate::diagnostic::Span;

/// The bytes of a text from `start` on.
pub(super) fn span(start: usize, length: usize) -> Span {
    Span { start: start as u32, end: (start + length) as u32 }
}

/// A value and its place.
#[derive(Clone)]
pub(super) struct Node {
    pub at: Span,
    pub kind: Kind,
}

/// What a value is.
#[derive(Clone)]
pub(super) enum Kind {
    /// No group: `null` too, and numbers that JSON does not have.
    Scalar(Value),
    List(Vec<Node>),
    /// Keys with their places, in the order of the file.
    Map(Vec<(String, Span, Node)>),
}

impl Node {
    /// From the beginning of the value to the end of what it holds.
    pub fn extent(&self) -> Span {
        let last = match &self.kind {
            Kind::Scalar(_) => None,
            Kind::List(items) => items.last(),
            Kind::Map(entries) => entries.last().map(|(_, _, value)| value),
        };
        last.map_or(self.at, |last| self.at.to(last.extent()))
    }

    pub fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Scalar(Value::Null))
    }
}

impl From<&Value> for Node {
    fn from(value: &Value) -> Self {
        let at = Span::default();
        let kind = match value {
            Value::Array(items) => Kind::List(items.iter().map(Self::from).collect()),
            Value::Object(map) => {
                Kind::Map(map.iter().map(|(key, value)| (key.clone(), at, Self::from(value))).collect())
            }
            scalar => Kind::Scalar(scalar.clone()),
        };
        Self { at, kind }
    }
}

/// The bytes of a value.
pub(crate) fn span_of<T>(spanned: &Spanned<T>) -> Option<Span> {
    let span = spanned.referenced.span();
    let start = u32::try_from(span.byte_offset()?).ok()?;
    let length = u32::try_from(span.byte_len()?).ok()?;
    Some(Span { start, end: start.saturating_add(length.max(1)) })
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Kind>::deserialize(deserializer)?;
        Ok(Self { at: span_of(&spanned).unwrap_or_default(), kind: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Kind;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E: Error>(self) -> Result<Kind, E> {
                Ok(Kind::Scalar(Value::Null))
            }

            fn visit_none<E: Error>(self) -> Result<Kind, E> {
                Ok(Kind::Scalar(Value::Null))
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Kind, D::Error> {
                Kind::deserialize(deserializer)
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Kind, E> {
                Ok(Kind::Scalar(value.into()))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Kind, E> {
                Ok(Kind::Scalar(value.into()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Kind, E> {
                Ok(Kind::Scalar(value.into()))
            }

            // Beyond 64 bits: as near as a number of JSON is.
            fn visit_i128<E: Error>(self, value: i128) -> Result<Kind, E> {
                self.visit_f64(value as f64)
            }

            fn visit_u128<E: Error>(self, value: u128) -> Result<Kind, E> {
                self.visit_f64(value as f64)
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Kind, E> {
                Ok(Kind::Scalar(Number::from_f64(value).map_or(Value::Null, Value::Number)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Kind, E> {
                Ok(Kind::Scalar(text.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Kind, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Kind::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Kind, A::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry::<Spanned<String>, Node>()? {
                    entries.push((key.value.clone(), span_of(&key).unwrap_or_default(), value));
                }
                Ok(Kind::Map(entries))
            }
        }

        deserializer.deserialize_any(Any)
    }
}
