//! A file held against the schema of its type: every key that is missing, unknown, of the wrong kind or
//! out of its bounds, where typed reading stops at the first.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use schemars::JsonSchema;
use serde_json::{Map, Value};

use super::node::{Kind, Node, span};
use crate::diagnostic::{Diagnostic, Source, Span};

/// Version of the formats of all YAML files.
const SCHEMA: u64 = 1;

/// What does not fit.
pub(super) struct Finding {
    pub error: Diagnostic,
    /// The key and its value, where they are what is wrong.
    pub extent: Option<Span>,
}

/// Everything that does not fit; with `kinds`, values of a wrong kind too, which typed reading may
/// otherwise know how to take.
pub(super) fn survey<T: JsonSchema>(source: &Source, root: &Node, kinds: bool) -> Vec<Finding> {
    let schema = schema_of::<T>();
    let mut survey = Survey {
        root: &schema,
        source,
        kinds,
        path: String::new(),
        place: span(0, 1),
        extent: Some(span(0, 1).to(root.extent())),
        found: Vec::new(),
    };
    // Of a file of another format nothing else is worth saying.
    match survey.format(root) {
        Some(error) => survey.wrong(error, Some(root.extent())),
        None => survey.value(&schema, root),
    }
    survey.found
}

/// The schema of a type, which is made once: a sweep reads many chips.
fn schema_of<T: JsonSchema>() -> Arc<Value> {
    static KNOWN: LazyLock<Mutex<HashMap<String, Arc<Value>>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || Arc::new(schemars::schema_for!(T).to_value());
    Arc::clone(known.entry(T::schema_id().into_owned()).or_insert_with(make))
}

struct Survey<'s> {
    root: &'s Value,
    source: &'s Source,
    kinds: bool,
    /// Where the survey is: `limits.MaxGridSize`, `launches[2].fill`.
    path: String,
    /// Its key, or the value where a list holds it.
    place: Span,
    extent: Option<Span>,
    found: Vec<Finding>,
}

impl<'s> Survey<'s> {
    fn wrong(&mut self, error: Diagnostic, extent: Option<Span>) {
        self.found.push(Finding { error: error.in_source(self.source), extent });
    }

    /// The file is of a later format than this version knows, which its first key says.
    fn format(&self, root: &Node) -> Option<Diagnostic> {
        let Kind::Map(entries) = &root.kind else { return None };
        let (_, _, value) = entries.iter().find(|(key, ..)| key == "schema")?;
        let Kind::Scalar(Value::Number(number)) = &value.kind else { return None };
        let known = self.root.pointer("/properties/schema").is_some();
        (known && number.as_u64().is_some_and(|number| number > SCHEMA)).then(|| {
            let message =
                format!("schema: must be {SCHEMA}, not {number}, the only version that this warpsim reads");
            Diagnostic::error("yaml", message)
                .at(value.at, "")
                .help("the file is for a newer version of warpsim")
        })
    }

    fn error(&self, message: String) -> Diagnostic {
        Diagnostic::error("yaml", message).at(self.place, "")
    }

    /// Goes to a value within this one.
    fn within(&mut self, step: &str, place: Span, value: &Node, look: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        let outside = (self.place, self.extent);
        if !step.starts_with('[') && !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(step);
        (self.place, self.extent) = (place, Some(place.to(value.extent())));
        look(self);
        (self.place, self.extent) = outside;
        self.path.truncate(length);
    }

    fn value(&mut self, schema: &'s Value, value: &Node) {
        let Some(schema) = self.resolve(schema, value) else { return };
        if value.is_null() && nullable(schema) {
            return;
        }
        if let Some(properties) = schema["properties"].as_object() {
            self.keys(schema, properties, value);
        } else if schema["additionalProperties"].is_object() {
            let Kind::Map(entries) = &value.kind else { return };
            for (key, place, inner) in entries {
                self.within(key, *place, inner, |survey| {
                    survey.value(&schema["additionalProperties"], inner);
                });
            }
        } else if schema["items"].is_object() {
            let Kind::List(items) = &value.kind else { return };
            for (i, inner) in items.iter().enumerate() {
                self.within(&format!("[{i}]"), inner.at, inner, |survey| {
                    survey.value(&schema["items"], inner);
                });
            }
        } else if is(schema, "integer") || is(schema, "number") {
            self.number(schema, value);
        }
    }

    /// What a schema stands for: references are followed, and what may be left out is itself. Of several
    /// kinds it is the only one that a value of this shape may be, or none.
    fn resolve(&self, mut schema: &'s Value, value: &Node) -> Option<&'s Value> {
        loop {
            let choices = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
            if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
                schema = &self.root["$defs"][name];
            } else if let Some(choices) = choices {
                let mut real = choices.iter().filter(|choice| choice["type"] != "null");
                let only = real.next().filter(|_| real.next().is_none());
                schema = match only {
                    Some(only) => only,
                    None => self.choose(choices, value)?,
                };
            } else {
                return Some(schema);
            }
        }
    }

    fn choose(&self, choices: &'s [Value], value: &Node) -> Option<&'s Value> {
        let mut fitting = choices.iter().filter_map(|choice| {
            let choice = self.resolve(choice, value)?;
            let fits = match &value.kind {
                Kind::Map(entries) => {
                    let properties = choice["properties"].as_object();
                    properties.is_some_and(|known| entries.iter().any(|(key, ..)| known.contains_key(key)))
                }
                Kind::List(_) => is(choice, "array"),
                Kind::Scalar(_) => false,
            };
            fits.then_some(choice)
        });
        fitting.next().filter(|_| fitting.next().is_none())
    }

    fn keys(&mut self, schema: &'s Value, properties: &'s Map<String, Value>, value: &Node) {
        let Kind::Map(entries) = &value.kind else {
            if self.kinds && !value.is_null() {
                let message = match self.path.as_str() {
                    "" => "the file must be a mapping, `key: value` line by line".to_string(),
                    path => format!("`{path}` must be a mapping, not a value"),
                };
                let error = self.error(message);
                self.wrong(error, self.extent);
            }
            return;
        };
        for (key, place, inner) in entries {
            self.within(key, *place, inner, |survey| match properties.get(key) {
                Some(schema) => survey.value(schema, inner),
                None if schema["additionalProperties"] == false => {
                    let error = survey.error(format!("there is no key `{}`", survey.path));
                    let error = error.did_you_mean(key, properties.keys().map(String::as_str));
                    survey.wrong(error, survey.extent);
                }
                None => {}
            });
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let given = |key: &str| entries.iter().any(|(other, ..)| other == key);
        let missing: Vec<String> = required.filter(|key| !given(key)).map(|key| format!("`{key}`")).collect();
        if !missing.is_empty() {
            let keys = if missing.len() == 1 { "key" } else { "keys" };
            let within = if self.path.is_empty() { String::new() } else { format!(" in `{}`", self.path) };
            let error = self.error(format!("missing {keys}{within}: {}", missing.join(", ")));
            self.wrong(error, None);
        }
    }

    fn number(&mut self, schema: &Value, value: &Node) {
        let whole = is(schema, "integer");
        let (Some(least), Some(most)) = (schema["minimum"].as_number(), schema["maximum"].as_number()) else {
            return;
        };
        let (least_text, most_text) = (least.to_string(), most.to_string());
        let number = match &value.kind {
            Kind::Scalar(Value::Number(number)) => number,
            // What is no number as JSON has them (`.nan`, `.inf`) is none here.
            Kind::Scalar(Value::Null) => return self.outside(&least_text, &most_text, value),
            _ if self.kinds => return self.outside(&least_text, &most_text, value),
            _ => return,
        };
        let inside = match (whole, number.as_i128(), least.as_i128(), most.as_i128()) {
            (true, Some(number), Some(least), Some(most)) => (least..=most).contains(&number),
            (true, ..) => false,
            (false, ..) => {
                let of = |number: &serde_json::Number| number.as_f64().unwrap_or(f64::NAN);
                (of(least)..=of(most)).contains(&of(number))
            }
        };
        if !inside {
            self.outside(&least_text, &most_text, value);
        }
    }

    fn outside(&mut self, least: &str, most: &str, value: &Node) {
        let not = match &value.kind {
            Kind::Scalar(Value::Null) => String::new(),
            Kind::Scalar(value) => format!(", not {value}"),
            Kind::List(_) => ", not a list".to_string(),
            Kind::Map(_) => ", not a mapping".to_string(),
        };
        let range =
            if least == most { format!("be {least}") } else { format!("be between {least} and {most}") };
        let mut error = self.error(format!("{}: must {range}{not}", self.path));
        // Where it is no number, the value is what is wrong.
        if matches!(value.kind, Kind::Scalar(Value::String(_))) {
            error.labels = vec![(value.at, String::new())];
        }
        self.wrong(error, self.extent);
    }
}

fn is(schema: &Value, kind: &str) -> bool {
    match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(|one| one == kind),
        one => one == kind,
    }
}

/// `null` stands for what is left out.
fn nullable(schema: &Value) -> bool {
    is(schema, "null") || (!is(schema, "integer") && !is(schema, "number"))
}
