//! Reconvergence policies as the command runs them: over all workloads, and on programs whose end
//! depends on fairness.

mod common;

use std::process::Output;

use common::{json, warpsim};
use serde_json::Value;
use sim_core::reconvergence::registry::POLICIES;

fn rows(output: &Output) -> Vec<Value> {
    json(output).as_array().expect("rows").clone()
}

/// The chip that has the instructions of a workload: the oldest one for which it has a program.
fn chip_of(workload: &serde_json::Value) -> &'static str {
    let variants = workload["variants"].as_array().expect("a list");
    let newest =
        |variant: &serde_json::Value| ["sm_89", "sm_90"].iter().any(|sm| variant.to_string().contains(sm));
    let newest = variants.iter().all(newest);
    match variants.iter().any(|variant| variant.to_string().contains("sm_20")) {
        true => "gtx480",
        false if newest => "h100",
        false => "rtx3080",
    }
}

#[test]
fn every_policy_passes_every_workload_with_every_check_on() {
    let listed = rows(&warpsim(&["workloads", "--json"]));
    let names = |chip: &str| -> Vec<&str> {
        let ending = listed.iter().filter(|w| w["termination"] == "always");
        ending.filter(|w| chip_of(w) == chip).filter_map(|w| w["name"].as_str()).collect()
    };
    let (names, newer, newest) = (names("gtx480"), names("rtx3080"), names("h100"));
    assert!(names.len() >= 47 && newer.len() >= 5 && newest.len() >= 4, "{names:?} {newer:?} {newest:?}");
    let all = warpsim(&["study", "policies", "--workloads", &names.join(","), "--check", "full", "--json"]);
    let policies = rows(&all).iter().map(|row| row["policy"].clone()).fold(Vec::new(), |mut seen, policy| {
        if !seen.contains(&policy) {
            seen.push(policy);
        }
        seen
    });
    assert_eq!(policies.len(), POLICIES.len());
    // Among them `.sync` collectives in divergent code, where each policy groups threads as it likes.
    let newer = warpsim(&[
        "study",
        "policies",
        "--workloads",
        &newer.join(","),
        "--variant",
        "sm_90",
        "--chip",
        "rtx3080",
        "--check",
        "full",
        "--json",
    ]);
    let newest = newest.join(",");
    let newest = warpsim(&[
        "study",
        "policies",
        "--workloads",
        &newest,
        "--chip",
        "h100",
        "--check",
        "full",
        "--json",
    ]);
    for row in rows(&all).iter().chain(&rows(&newer)).chain(&rows(&newest)) {
        assert_eq!(row["result"], "pass", "{row}");
    }
    assert_eq!(rows(&all).len(), POLICIES.len() * names.len());
}

/// Of these programs one side of a branch waits for the other, in another warp.
#[test]
fn warps_with_parts_of_their_own_pass_where_no_path_waits_for_the_block() {
    for workload in ["hgemm_tma", "flash_tma"] {
        let words =
            ["study", "policies", "--workloads", workload, "--chip", "h100", "--check", "full", "--json"];
        let rows = rows(&warpsim(&words));
        assert_eq!(rows.len(), POLICIES.len(), "{workload}");
        for row in rows {
            let ends =
                row["policy"].as_str().is_some_and(|policy| !policy.starts_with("thread_block_compaction"));
            assert_eq!(row["result"] == "pass", ends, "{row}");
        }
    }
}

#[test]
fn every_policy_gets_on_under_every_warp_scheduler() {
    for policy in POLICIES.iter().map(|policy| policy.name) {
        for scheduler in ["lrr", "two_level:4", "two_level:1"] {
            for workload in ["quicksort", "divergent_barrier", "if_else"] {
                let words =
                    ["run", workload, "--chip", "gtx480", "--policy", policy, "--scheduler", scheduler];
                let output = warpsim(&[&words[..], &["--check", "full", "--max-cycles", "2000000"]].concat());
                let errors = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(0), "{workload} {policy} {scheduler}: {errors}");
            }
        }
    }
}

#[test]
fn sc_stackless_policies_end_the_programs_that_their_fairness_lets_them_end() {
    let output = warpsim(&["study", "liveness", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = rows(&output);
    let programs = ["program_2", "program_2_reversed", "program_3", "program_4", "spin_lock"];
    let verdicts = |policy: &str| {
        programs.map(|program| {
            let found = rows.iter().find(|row| row["policy"] == policy && row["workload"] == program);
            found.and_then(|row| row["verdict"].as_str()).unwrap_or("missing").to_string()
        })
    };
    // None of these is given up at a limit: that they never end is proved.
    let (e, r) = ("terminates", "livelock");
    let claimed: [(&[&str], [&str; 5]); 4] = [
        // SC §5.1: a warp with a stack runs one path to its end, and reconverges at the post-dominator.
        (&["crs_stack", "pdom_stack", "thread_frontiers", "thread_block_compaction"], [e, r, r, e, r]),
        // The order of the text instead of that of the branch.
        (&["min_pc", "min_sp_pc"], [r, e, r, e, r]),
        // Both sides run, but threads wait at the post-dominator.
        (
            &["dual_path", "multi_path", "warp_subdivision", "convergence_barriers:yield_after=never"],
            [e, e, r, e, r],
        ),
        (&["dynamic_warp_formation:scheduler=DTime", "convergence_barriers", "mimd"], [e; 5]),
    ];
    for (policies, expected) in claimed {
        for policy in policies {
            assert_eq!(verdicts(policy), expected, "{policy}");
        }
    }
    for name in POLICIES.iter().map(|policy| policy.name) {
        let mut all = claimed.iter().flat_map(|(policies, _)| *policies);
        assert!(
            all.any(|policy| policy.split(':').next() == Some(name)),
            "say above which of these programs {name} ends; here it says {:?}",
            verdicts(name)
        );
    }
}

#[test]
fn the_study_of_policies_says_what_it_compares() {
    let words = ["study", "policies", "--workloads", "if_else,trip_count,loop_of_two_entries", "--json"];
    let rows = rows(&warpsim(&words));
    let of = |workload: &str, policy: &str, key: &str| {
        let found = rows.iter().find(|row| row["workload"] == workload && row["policy"] == policy);
        found.and_then(|row| row[key].as_f64()).unwrap_or_else(|| panic!("{workload} {policy} {key}"))
    };
    for workload in ["if_else", "trip_count"] {
        assert_eq!(of(workload, "pdom_stack", "speedup"), 1.0);
        // Structured: frontiers and the stack meet at the same places (Diamos et al.).
        let issued = |policy| of(workload, policy, "warp_instructions");
        assert_eq!(issued("thread_frontiers"), issued("pdom_stack"), "{workload}");
        assert_eq!(of(workload, "mimd", "simd_efficiency"), 1.0 / 32.0);
        assert!(of(workload, "mimd", "warp_instructions") > 10.0 * issued("pdom_stack"));
    }
    // Unstructured: frontiers meet before the post-dominator.
    let issued = |policy| of("loop_of_two_entries", policy, "warp_instructions");
    assert!(issued("thread_frontiers") < issued("pdom_stack"), "{rows:?}");
    // Half the lanes on either side: what is between the branch and the join runs half full.
    let efficiency = of("if_else", "pdom_stack", "simd_efficiency");
    assert!((0.5..0.9).contains(&efficiency), "{efficiency}");
    // Both policies and workloads that do not exist are named.
    for wrong in [["--policy", "pdom"], ["--workloads", "if_els"]] {
        let output = warpsim(&[&["study", "policies"], &wrong[..]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(wrong[1]), "{output:?}");
    }
}

#[test]
fn csv_holds_the_rows() {
    let file = std::env::temp_dir().join(format!("warpsim-policies-{}.csv", std::process::id()));
    let path = file.to_str().expect("text");
    let words = ["study", "policies", "--workloads", "if_else", "--policy", "min_pc", "--csv", path];
    assert!(warpsim(&words).status.success());
    let text = std::fs::read_to_string(&file).expect("written");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "the base is run, and not listed where it was not asked for");
    assert!(lines[0].starts_with("workload,chip,policy,result,cycles,time_us,speedup"), "{}", lines[0]);
    assert!(lines[1].starts_with("if_else,gtx480,min_pc,pass,"), "{}", lines[1]);
    std::fs::remove_file(&file).expect("removed");
}

#[test]
fn inspect_says_which_loops_unfair_scheduling_may_affect() {
    let table = |file: &str| {
        let output = warpsim(&["inspect", "--liveness", file]);
        assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for variant in ["sm_20", "sm_52", "sm_90"] {
        // Each of these has loops, and none of them is called independent.
        let liveness = table(&format!("workloads/liveness/liveness.{variant}.ptx"));
        let rows = |text: &str, word: &str| text.matches(word).count();
        assert!(rows(&liveness, "may be affected") >= 5, "{liveness}");
        assert_eq!(rows(&liveness, "terminates if each thread"), 0, "{liveness}");
        // The shapes of divergence compute with numbers of their own.
        let divergence = table(&format!("workloads/divergence/divergence.{variant}.ptx"));
        assert!(rows(&divergence, "terminates if each thread") >= 4, "{divergence}");
        assert_eq!(rows(&divergence, "may be affected"), 0, "{divergence}");
    }
    let missing = warpsim(&["inspect", "--liveness", "nothing.ptx"]);
    assert_eq!(missing.status.code(), Some(2));
    assert_eq!(warpsim(&["inspect"]).status.code(), Some(2));
}
