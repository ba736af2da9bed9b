//! Any text as a litmus test: it is read and decided, or ends with an error that has words.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use sim_verify::cat::Model;
use sim_verify::litmus::Test;
use sim_verify::models::MODELS;
use sim_verify::verdict::{Bounds, decide};

static MODEL: OnceLock<Model> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match Test::parse("fuzz.litmus", &text) {
        Ok(test) => {
            let model = MODEL.get_or_init(|| {
                let (name, text) = MODELS[1];
                Model::parse(name, text).unwrap_or_else(|error| panic!("{}", error.render()))
            });
            let verdict = decide(&test, model, Bounds { unroll: 1, candidates: 2000 });
            assert!(verdict.consistent <= verdict.candidates.max(1) * 1000);
        }
        Err(error) => assert!(!error.render().is_empty()),
    }
});
