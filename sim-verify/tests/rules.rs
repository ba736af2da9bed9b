//! The rules of the memory-model paper (MM), one by one: what a test of the suite says, and that it says otherwise of a
//! model without the rule.

#![allow(missing_docs, reason = "tests")]

use std::path::Path;

use sim_verify::cat::Model;
use sim_verify::litmus::Test;
use sim_verify::models::MODELS;
use sim_verify::verdict::{Answer, Bounds, Verdict, decide};

fn verdict(model: &str, file: &str) -> Verdict {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/litmus").join(format!("{file}.litmus"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let test = Test::parse(file, &text).unwrap_or_else(|error| panic!("{}", error.render()));
    let model = Model::parse("model.cat", model).unwrap_or_else(|error| panic!("{}", error.render()));
    decide(&test, &model, Bounds::default())
}

fn model(name: &str) -> &'static str {
    MODELS.iter().find(|(known, _)| *known == name).expect("a model").1
}

fn is(file: &str, allowed: bool) {
    for name in ["ptx-6.0", "ptx-7.5"] {
        let expected = if allowed { Answer::Allowed } else { Answer::Forbidden };
        assert_eq!(verdict(model(name), file).answer, expected, "{file} under {name}");
    }
}

/// The test is decided as given by 6.0, and otherwise where `from` is replaced.
fn decides(file: &str, allowed: bool, from: &str, to: &str) {
    is(file, allowed);
    let text = model("ptx-6.0");
    assert_eq!(text.matches(from).count(), 1, "`{from}` stands once");
    let otherwise = if allowed { Answer::Forbidden } else { Answer::Allowed };
    assert_eq!(verdict(&text.replace(from, to), file).answer, otherwise, "{file} without `{from}`");
}

#[test]
fn mm_strong_relaxed_operations_are_strong_and_weak_ones_are_not() {
    decides("mp/mp-fences", false, "R & (RLX | ACQ)", "R & ACQ");
    is("mp/mp-fences-weak-load", true);
    is("mp/mp-fences-weak-store", true);
}

#[test]
fn mm_morallystrong_scopes_include_each_other() {
    decides("mp/mp-release-too-narrow", true, "[strong]; sr; [strong]", "[strong]; (_ * _); [strong]");
    is("mp/mp-acquire-too-narrow", true);
    is("mp/mp-cluster", false);
    is("mp/mp-cluster-too-narrow", true);
}

#[test]
fn mm_patternrel_a_release_pattern_goes_on_with_stores_of_its_location() {
    decides(
        "mp/mp-release-then-relaxed",
        false,
        "[W & REL]; po-loc?; [strong-write]",
        "[W & REL]; [strong-write]",
    );
    is("mp/mp-release-then-other-fence", true);
}

#[test]
fn mm_patternacq_an_acquire_pattern_begins_with_loads_of_its_location() {
    decides(
        "mp/mp-relaxed-then-acquire-newer",
        false,
        "[acquiring-read]; po-loc?; [R & ACQ]",
        "[acquiring-read]; [R & ACQ]",
    );
    decides("mp/mp-red-acquire", true, "strong-read \\ RED", "strong-read");
}

#[test]
fn mm_obs_observation_passes_through_atomics() {
    decides("isa2/isa2-rmw-chain", false, " | (observation; rmw; observation)", "");
    is("isa2/isa2-store-chain", true);
}

#[test]
fn mm_sw_its_ends_are_morally_strong() {
    decides(
        "mp/mp-fences-too-narrow",
        true,
        "morally-strong & (release-pattern; observation; acquire-pattern)",
        "release-pattern; observation; acquire-pattern",
    );
    decides("mp/mp-release-acquire", false, "release-acquire | barrier-sync | sc", "barrier-sync | sc");
}

#[test]
fn mm_syncbarrier_barriers_of_a_cta_synchronize() {
    decides("barriers/barrier-mp", false, "release-acquire | barrier-sync | sc", "release-acquire | sc");
    is("barriers/barrier-other-cta", true);
    is("barriers/barrier-arrive", false);
    is("barriers/barrier-arrive-back", true);
}

#[test]
fn mm_causebase_is_transitive() {
    decides("isa2/isa2-release-acquire", false, "(po?; synchronizes; po?)+", "(po?; synchronizes; po?)");
}

#[test]
fn mm_cause_begins_with_observation() {
    decides("wrc/wrc-release-acquire", false, " | (observation; (base-causality | po-loc))", "");
}

#[test]
fn mm_coherence_causality_order_of_stores_is_coherence_order() {
    let pairs = "writes & (morally-strong | causality)";
    decides("coherence/coherence-final-allowed", true, pairs, "writes & morally-strong");
    is("s/s-release-acquire-weak", false);
    is("coherence/coherence-final", false);
}

/// Fence-SC order along causality order always is a choice, so the axiom changes no outcome: it changes how many
/// executions are consistent.
#[test]
fn mm_fencesc_orders_against_causality_are_no_executions() {
    let file = "fences/fence-sc-same-thread-order";
    let text = model("ptx-6.0");
    let without = text.replace("irreflexive sc; causality as FenceSC", "");
    assert_eq!(verdict(text, file).consistent, 1);
    assert_eq!(verdict(&without, file).consistent, 2);
    decides("sb/sb-fence-sc", false, "release-acquire | barrier-sync | sc", "release-acquire | barrier-sync");
}

#[test]
fn mm_atomicity_nothing_comes_between_the_parts_of_an_atomic() {
    decides(
        "atomics/add-same-value",
        false,
        "empty ((morally-strong & fr); (morally-strong & co)) & rmw as Atomicity",
        "",
    );
    is("atomics/add-add-too-narrow", true);
}

#[test]
fn mm_nothinair_values_do_not_justify_themselves() {
    decides("lb/lb-data", false, "acyclic rf | addr | data | ctrl as No-Thin-Air", "");
    is("lb/lb-relaxed", true);
}

#[test]
fn mm_scperlocation_program_order_of_a_location() {
    decides(
        "coherence/cowr",
        false,
        "acyclic (morally-strong & (rf | co | fr)) | po-loc as SC-per-Location",
        "",
    );
}

#[test]
fn mm_causality_communication_does_not_contradict_it() {
    decides("mp/mp-release-acquire", false, "irreflexive (rf | fr); causality as Causality", "");
}

#[test]
fn mm_race_conflicts_that_nothing_orders() {
    for (file, races) in
        [("races/race-weak", true), ("races/race-relaxed", false), ("races/race-synchronized", false)]
    {
        for name in ["ptx-6.0", "ptx-7.5"] {
            assert_eq!(verdict(model(name), file).race.is_some(), races, "{file} under {name}");
        }
    }
    let narrow = verdict(model("ptx-6.0"), "races/race-too-narrow");
    let race = narrow.race.expect("a race");
    assert_eq!(race.races.len(), 1, "one store and one load");
}

#[test]
fn mm_fig5_message_passing() {
    is("paper/fig5", false);
    is("mp/mp-relaxed", true);
}

#[test]
fn mm_fig6_store_buffering_needs_fences_that_are_morally_strong() {
    is("paper/fig6", false);
    is("paper/fig6-not-morally-strong", true);
    is("sb/sb-fence-acq-rel", true);
}

#[test]
fn mm_fig8_out_of_thin_air() {
    is("paper/fig8", false);
}

#[test]
fn mm_fig9_coherence() {
    ["paper/fig9a", "paper/fig9b", "paper/fig9c", "paper/fig9d"].iter().for_each(|file| is(file, false));
}

/// What the axiom says of an outcome that is forbidden, in steps between events of the source.
#[test]
fn what_forbids_an_outcome_is_explained_in_events() {
    let shown = verdict(model("ptx-7.5"), "mp/mp-release-acquire").rejected.expect("an execution to show");
    let (axiom, edges) = shown.violates.expect("an axiom");
    assert_eq!(axiom, "Causality");
    assert_eq!(edges.first().map(|e| e.from), edges.last().map(|e| e.to), "a cycle");
    assert!(edges.windows(2).all(|pair| pair[0].to == pair[1].from), "its steps meet");
    let names: Vec<&str> = edges.iter().map(|edge| edge.name.as_str()).collect();
    assert!(names.contains(&"fr") && names.contains(&"causality"), "{names:?}");
}
