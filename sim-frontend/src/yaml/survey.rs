//! A file held against the schema of its type: every key that is missing, unknown, of the wrong kind or
//! out of its bounds, where typed reading stops at the first.

use schemars::JsonSchema;
use serde_json::{Map, Value};

use super::{key_span, span, value_of};
use crate::diagnostic::{Diagnostic, Source};

/// Everything that does not fit; with `kinds`, values of a wrong kind too, which typed reading may
/// otherwise know how to take.
pub(super) fn survey<T: JsonSchema>(source: &Source, value: &Value, kinds: bool) -> Vec<Diagnostic> {
    let schema = schemars::schema_for!(T).to_value();
    let mut survey = Survey { root: &schema, source, kinds, path: Vec::new(), found: Vec::new() };
    survey.value(&schema, value);
    survey.found
}

struct Survey<'s> {
    root: &'s Value,
    source: &'s Source,
    kinds: bool,
    path: Vec<String>,
    found: Vec<Diagnostic>,
}

impl<'s> Survey<'s> {
    fn wrong(&mut self, message: String) -> &mut Diagnostic {
        // The key itself, or the nearest one above it that has a place.
        let lengths = (1..=self.path.len()).rev();
        let place = lengths
            .map(|length| self.path[..length].iter().map(String::as_str).collect::<Vec<_>>())
            .find_map(|path| key_span(self.source, &path));
        let error = Diagnostic::error("yaml", message).in_source(self.source);
        self.found.push(error.at(place.unwrap_or(span(0, 1)), "this value"));
        let last = self.found.len() - 1;
        &mut self.found[last]
    }

    fn here(&self) -> String {
        self.path.join(".")
    }

    fn value(&mut self, schema: &'s Value, value: &Value) {
        let Some(schema) = self.resolve(schema) else { return };
        if value.is_null() && nullable(schema) {
            return;
        }
        if let Some(properties) = schema["properties"].as_object() {
            self.keys(schema, properties, value);
        } else if schema["additionalProperties"].is_object() {
            for (key, inner) in value.as_object().into_iter().flatten() {
                self.path.push(key.clone());
                self.value(&schema["additionalProperties"], inner);
                self.path.pop();
            }
        } else if schema["items"].is_object() {
            for inner in value.as_array().into_iter().flatten() {
                self.value(&schema["items"], inner);
            }
        } else if is(schema, "integer") || is(schema, "number") {
            self.number(schema, value);
        }
    }

    /// What a schema stands for: references are followed, and what may be left out is itself. None where
    /// it is one of several kinds.
    fn resolve(&self, mut schema: &'s Value) -> Option<&'s Value> {
        loop {
            let choices = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
            if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
                schema = &self.root["$defs"][name];
            } else if let Some(choices) = choices {
                let mut real = choices.iter().filter(|choice| choice["type"] != "null");
                schema = real.next().filter(|_| choices.len() == 2)?;
                if real.next().is_some() {
                    return None;
                }
            } else {
                return Some(schema);
            }
        }
    }

    fn keys(&mut self, schema: &'s Value, properties: &'s Map<String, Value>, value: &Value) {
        let Some(object) = value.as_object() else {
            if self.kinds && !value.is_null() {
                let message = format!("`{}` is a group of keys, not a value", self.here());
                self.wrong(message);
            }
            return;
        };
        for (key, inner) in object {
            self.path.push(key.clone());
            match properties.get(key) {
                Some(schema) => self.value(schema, inner),
                None if schema["additionalProperties"] == false => {
                    let message = format!("there is no key `{}`", self.here());
                    let error = self.wrong(message);
                    *error = error.clone().did_you_mean(key, properties.keys().map(String::as_str));
                }
                None => {}
            }
            self.path.pop();
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let missing: Vec<String> =
            required.filter(|key| !object.contains_key(*key)).map(|key| format!("`{key}`")).collect();
        if !missing.is_empty() {
            let keys = if missing.len() == 1 { "key" } else { "keys" };
            let within = if self.path.is_empty() { String::new() } else { format!(" in `{}`", self.here()) };
            let message = format!("missing {keys}{within}: {}", missing.join(", "));
            self.wrong(message);
        }
    }

    fn number(&mut self, schema: &Value, value: &Value) {
        let whole = is(schema, "integer");
        let (Some(least), Some(most)) = (schema["minimum"].as_number(), schema["maximum"].as_number()) else {
            return;
        };
        let number = match value {
            Value::Number(number) => number,
            // What is no number as JSON has them (`.nan`, `.inf`) is none here.
            Value::Null => return self.outside(&least.to_string(), &most.to_string(), value),
            _ if self.kinds => return self.outside(&least.to_string(), &most.to_string(), value),
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
            self.outside(&least.to_string(), &most.to_string(), value);
        }
    }

    fn outside(&mut self, least: &str, most: &str, value: &Value) {
        let not = match value {
            Value::Null => String::new(),
            value => format!(", not {value}"),
        };
        let range =
            if least == most { format!("be {least}") } else { format!("be between {least} and {most}") };
        let own = self.path.clone();
        let path: Vec<&str> = own.iter().map(String::as_str).collect();
        // Where it is no number, the value is what is wrong.
        let place = value_of(self.source, &path).filter(|_| value.is_string()).map(|(_, at)| at);
        let error = self.wrong(format!("{}: must {range}{not}", path.join(".")));
        if let Some(place) = place {
            error.labels = vec![(place, String::new())];
        }
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
