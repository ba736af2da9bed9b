//! Any text as a model in the cat language, or as a mapping table: it is read, or ends with an error that has words.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sim_verify::cat::Model;
use sim_verify::litmus::Test;
use sim_verify::mapping::table::Table;
use sim_verify::verdict::{Bounds, decide};

const TEST: &str = "PTX mp
{ x=0; y=0; }
 P0@cta 0,gpu 0      | P1@cta 1,gpu 0       ;
 st.weak x, 1        | ld.acquire.gpu r1, y ;
 st.release.gpu y, 1 | ld.weak r2, x        ;
exists (P1:r1 == 1 /\\ P1:r2 == 0)";

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match Model::parse("fuzz.cat", &text) {
        Ok(model) => {
            if let Ok(test) = Test::parse("mp.litmus", TEST) {
                let _ = decide(&test, &model, Bounds { unroll: 1, candidates: 2000 });
            }
        }
        Err(error) => assert!(!error.render().is_empty()),
    }
    if let Err(error) = Table::parse("fuzz.map", &text) {
        assert!(!error.render().is_empty());
    }
});
