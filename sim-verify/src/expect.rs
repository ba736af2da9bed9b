//! What a test expects of a model, as lines `KEY=VALUE` in front of its program; `KEY.MODEL=VALUE` where models differ.

use crate::litmus::Test;
use crate::litmus::facts::KEYS;
use crate::verdict::{Answer, Verdict};

/// An expectation and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The key, without the model.
    pub key: &'static str,
    /// The value that the test expects.
    pub expected: String,
    /// The value of this verdict.
    pub found: String,
}

impl Expectation {
    /// The verdict is as expected.
    pub fn is_met(&self) -> bool {
        self.expected == self.found
    }
}

/// The expectations of a test of a model.
pub fn expectations(test: &Test, model: &str, verdict: &Verdict) -> Vec<Expectation> {
    let yes = |is: bool| if is { "yes" } else { "no" }.to_string();
    let of_key = |(key, _): &(&'static str, _)| {
        let expected = test.facts.get(&format!("{key}.{model}")).or_else(|| test.facts.get(*key))?;
        let found = match *key {
            "Verdict" => match &verdict.answer {
                Answer::Allowed => "allowed".to_string(),
                Answer::Forbidden => "forbidden".to_string(),
                Answer::Unknown(_) => "unknown".to_string(),
            },
            "Race" => yes(verdict.race.is_some()),
            "Terminates" => yes(verdict.endless.is_none()),
            _ => verdict.consistent.to_string(),
        };
        Some(Expectation { key, expected: expected.clone(), found })
    };
    KEYS.iter().filter_map(of_key).collect()
}
