//! The suite of litmus tests against the models, and the models against the suite: each expectation is met, and a model
//! with anything left out or weakened misses one.

#![allow(missing_docs, reason = "tests")]

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use sim_frontend::diagnostic::Source;
use sim_verify::cat::ast::{Ast, Expr, ExprKind, ItemKind, Operator, Postfix, Property};
use sim_verify::cat::{Model, parse};
use sim_verify::expect::expectations;
use sim_verify::litmus::Test;
use sim_verify::models::MODELS;
use sim_verify::verdict::{Bounds, decide};

const PTX: [&str; 2] = ["ptx-6.0", "ptx-7.5"];

fn collect(folder: &Path, out: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            collect(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "litmus") {
            out.push(path);
        }
    }
}

fn suite() -> Vec<Test> {
    let mut paths = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/litmus"), &mut paths);
    paths.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("readable");
        Test::parse(&path.display().to_string(), &text).unwrap_or_else(|error| panic!("{}", error.render()))
    };
    paths.iter().map(read).collect()
}

fn text(name: &str) -> &'static str {
    MODELS.iter().find(|(known, _)| *known == name).expect("a model").1
}

/// The expectations that a model does not meet.
fn missed(test: &Test, name: &str, model: &Model) -> Vec<String> {
    let verdict = decide(test, model, Bounds::default());
    let found = expectations(test, name, &verdict);
    found.iter().filter(|e| !e.is_met()).map(|e| format!("{}: {e:?}", test.source.name)).collect()
}

#[test]
fn every_test_of_the_suite_is_as_it_expects() {
    let suite = suite();
    assert!(suite.len() > 300, "{} tests", suite.len());
    for test in &suite {
        assert!(test.facts.contains_key("Reason"), "{} has no reason", test.source.name);
        let verdicts = test.facts.keys().filter(|key| key.starts_with("Verdict")).count();
        assert!(verdicts > 0, "{} expects no verdict", test.source.name);
    }
    for name in PTX {
        let model = Model::parse(name, text(name)).expect("it parses");
        let wrong: Vec<String> = suite.par_iter().flat_map(|test| missed(test, name, &model)).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    }
}

/// A model with one change: the line of the change, what it is, and the tree.
type Mutant = (u32, String, Ast);

/// What an expression becomes by one change: an operand or an operator left out.
fn weakened(expr: &Expr) -> Vec<Expr> {
    let mut out = Vec::new();
    let with = |kind: ExprKind| Expr { kind, span: expr.span };
    match &expr.kind {
        ExprKind::Name(_) | ExprKind::Everything | ExprKind::Nothing => {}
        ExprKind::On(inner) => {
            out.extend(weakened(inner).into_iter().map(|e| with(ExprKind::On(Box::new(e)))))
        }
        ExprKind::Not(inner) => {
            out.extend(weakened(inner).into_iter().map(|e| with(ExprKind::Not(Box::new(e)))))
        }
        ExprKind::Postfix(operator, inner) => {
            // An inverse is no weakening: without it the relation is another.
            if *operator != Postfix::Inverse {
                out.push((**inner).clone());
            }
            out.extend(weakened(inner).into_iter().map(|e| with(ExprKind::Postfix(*operator, Box::new(e)))));
        }
        ExprKind::Binary(operator, a, b) => {
            match operator {
                Operator::Product => {}
                Operator::Difference => out.push((**a).clone()),
                _ => out.extend([(**a).clone(), (**b).clone()]),
            }
            let binary = |a: Expr, b: Expr| with(ExprKind::Binary(*operator, Box::new(a), Box::new(b)));
            out.extend(weakened(a).into_iter().map(|a| binary(a, (**b).clone())));
            out.extend(weakened(b).into_iter().map(|b| binary((**a).clone(), b)));
        }
    }
    out
}

/// The text of an expression, from its operators and names.
fn shown(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Name(name) => name.clone(),
        ExprKind::Everything => "_".to_string(),
        ExprKind::Nothing => "0".to_string(),
        ExprKind::On(inner) => format!("[{}]", shown(inner)),
        ExprKind::Not(inner) => format!("~{}", shown(inner)),
        ExprKind::Postfix(operator, inner) => {
            let symbol = match operator {
                Postfix::Plus => "+",
                Postfix::Star => "*",
                Postfix::Optional => "?",
                Postfix::Inverse => "^-1",
            };
            format!("{}{symbol}", shown(inner))
        }
        ExprKind::Binary(operator, a, b) => {
            let symbol = match operator {
                Operator::Union => "|",
                Operator::Sequence => ";",
                Operator::Difference => "\\",
                Operator::Intersection => "&",
                Operator::Product => "*",
            };
            format!("({} {symbol} {})", shown(a), shown(b))
        }
    }
}

fn mutants(source: &Source) -> Vec<Mutant> {
    let ast = parse(source).expect("it parses");
    let mut out = Vec::new();
    for (i, item) in ast.statements.iter().enumerate() {
        let line = source.line(item.span.start);
        let mut change = |what: String, kind: Option<ItemKind>| {
            let mut mutant = ast.clone();
            match kind {
                Some(kind) => mutant.statements[i].kind = kind,
                None => drop(mutant.statements.remove(i)),
            }
            out.push((line, what, mutant));
        };
        match &item.kind {
            ItemKind::Let(name, expr) => {
                for changed in weakened(expr) {
                    let what = format!("let {} = {}", name.0, shown(&changed));
                    change(what, Some(ItemKind::Let(name.clone(), changed)));
                }
            }
            ItemKind::Rec(list) => {
                assert_eq!(list.len(), 1, "one recursive relation");
                let (name, expr) = &list[0];
                for changed in weakened(expr) {
                    let what = format!("let rec {} = {}", name.0, shown(&changed));
                    change(what, Some(ItemKind::Rec(vec![(name.clone(), changed)])));
                }
            }
            ItemKind::With { name, pairs, base } => {
                for changed in weakened(pairs) {
                    let what = format!("with {}: pairs {}", name.0, shown(&changed));
                    let kind = ItemKind::With { name: name.clone(), pairs: changed, base: base.clone() };
                    change(what, Some(kind));
                }
                for changed in weakened(base) {
                    let what = format!("with {}: base {}", name.0, shown(&changed));
                    let kind = ItemKind::With { name: name.clone(), pairs: pairs.clone(), base: changed };
                    change(what, Some(kind));
                }
            }
            ItemKind::Check { property, expr, name } => {
                if *property != Property::FlagNotEmpty {
                    change(format!("no {name}"), None);
                }
                for changed in weakened(expr) {
                    let what = format!("{name}: {}", shown(&changed));
                    let kind = ItemKind::Check { property: *property, expr: changed, name: name.clone() };
                    change(what, Some(kind));
                }
            }
        }
    }
    out
}

/// Changes that make the same model: `docs/memory-model.md` says of each why.
const EQUIVALENT: [(&str, &str); 36] = [
    ("ptx-6.0", "let strong-read = (RLX | ACQ)"),
    ("ptx-6.0", "let strong-write = W"),
    ("ptx-6.0", "let strong-write = (RLX | REL)"),
    ("ptx-6.0", "let inclusive = ([strong] ; sr)"),
    ("ptx-6.0", "let inclusive = (sr ; [strong])"),
    ("ptx-6.0", "let morally-strong = (((po | po^-1) | inclusive) & overlapping)"),
    ("ptx-6.0", "let morally-strong = (((po | po^-1) | inclusive) \\ id)"),
    (
        "ptx-6.0",
        "let release-pattern = (([(W & REL)] ; po-loc?) | (([(F & (REL | ACQ_REL))] ; po) ; [strong-write]))",
    ),
    (
        "ptx-6.0",
        "let release-pattern = ((([REL] ; po-loc?) ; [strong-write]) | (([(F & (REL | ACQ_REL))] ; po) ; [strong-write]))",
    ),
    (
        "ptx-6.0",
        "let release-pattern = ((([(W & REL)] ; po-loc?) ; [strong-write]) | ([(F & (REL | ACQ_REL))] ; po))",
    ),
    (
        "ptx-6.0",
        "let acquire-pattern = ((([acquiring-read] ; po-loc?) ; [ACQ]) | (([acquiring-read] ; po) ; [(F & (ACQ | ACQ_REL))]))",
    ),
    ("ptx-6.0", "let fence-sc = SC"),
    ("ptx-6.0", "let barrier-sync = syncbar"),
    ("ptx-6.0", "Atomicity: ((fr ; (morally-strong & co)) & rmw)"),
    ("ptx-6.0", "Atomicity: (((morally-strong & fr) ; co) & rmw)"),
    ("ptx-6.0", "SC-per-Location: ((morally-strong & (co | fr)) | po-loc)"),
    ("ptx-7.5", "let strong-write = W"),
    ("ptx-7.5", "let strong-write = (RLX | REL)"),
    ("ptx-7.5", "let inclusive = ([strong] ; sr)"),
    ("ptx-7.5", "let inclusive = (sr ; [strong])"),
    ("ptx-7.5", "let morally-strong = ((((po | po^-1) | inclusive) & same-proxy) & overlapping)"),
    ("ptx-7.5", "let morally-strong = (((inclusive & same-proxy) & overlapping) \\ id)"),
    ("ptx-7.5", "let morally-strong = ((((po | inclusive) & same-proxy) & overlapping) \\ id)"),
    ("ptx-7.5", "let morally-strong = ((((po^-1 | inclusive) & same-proxy) & overlapping) \\ id)"),
    (
        "ptx-7.5",
        "let release-pattern = (([(W & REL)] ; po-vloc?) | (([(F & (REL | ACQ_REL))] ; po) ; [strong-write]))",
    ),
    (
        "ptx-7.5",
        "let release-pattern = ((([REL] ; po-vloc?) ; [strong-write]) | (([(F & (REL | ACQ_REL))] ; po) ; [strong-write]))",
    ),
    (
        "ptx-7.5",
        "let release-pattern = ((([(W & REL)] ; po-vloc?) ; [strong-write]) | ([(F & (REL | ACQ_REL))] ; po))",
    ),
    (
        "ptx-7.5",
        "let acquire-pattern = ((([acquiring-read] ; po-vloc?) ; [ACQ]) | (([acquiring-read] ; po) ; [(F & (ACQ | ACQ_REL))]))",
    ),
    ("ptx-7.5", "let fence-sc = SC"),
    ("ptx-7.5", "let barrier-sync = syncbar"),
    ("ptx-7.5", "let fenced = ([F] ; (same-proxy & scta))"),
    ("ptx-7.5", "let within-proxy = ([M] ; ((base-causality & same-proxy) & scta))"),
    ("ptx-7.5", "let within-proxy = (((base-causality & same-proxy) & scta) ; [M])"),
    (
        "ptx-7.5",
        "let preserved = ((vloc & (within-proxy | (leaves ; ([GEN] | (base-causality & fenced))))) | (((leaves ; [ALIAS]) ; base-causality) ; ([GEN] | (base-causality & fenced))))",
    ),
    ("ptx-7.5", "Atomicity: ((fr ; (morally-strong & co)) & rmw)"),
    ("ptx-7.5", "Atomicity: (((morally-strong & fr) ; co) & rmw)"),
];

/// Tests with more candidates are left out where many models decide them.
const FEW_CANDIDATES: u64 = 2_000;

#[test]
fn a_model_with_anything_left_out_misses_an_expectation() {
    let mut suite = suite();
    // Tests with few candidates first.
    suite.sort_by_key(|test| test.threads.iter().map(|t| t.code.len()).sum::<usize>());
    let (mut survivors, mut count) = (Vec::new(), 0);
    for name in PTX {
        let source = Source::new(name, text(name));
        let mutants: Vec<(u32, String, Model)> = mutants(&source)
            .into_iter()
            .filter_map(|(line, what, ast)| Some((line, what, Model::new(&ast, &source).ok()?)))
            .collect();
        count += mutants.len();
        let model = Model::parse(name, text(name)).expect("it parses");
        let few = |test: &&Test| decide(test, &model, Bounds::default()).candidates <= FEW_CANDIDATES;
        let suite: Vec<&Test> = suite.iter().filter(few).collect();
        let survived = mutants
            .par_iter()
            .filter(|(_, _, model)| suite.iter().all(|test| missed(test, name, model).is_empty()));
        survivors.extend(survived.map(|(_, what, _)| format!("{name}: {what}")).collect::<Vec<_>>());
    }
    assert!(count > 200, "{count} mutants");
    let known: Vec<String> = EQUIVALENT.iter().map(|(name, what)| format!("{name}: {what}")).collect();
    assert_eq!(survivors, known, "of {count}");
}
