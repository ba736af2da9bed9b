use super::*;
use crate::relation::Relation;
use crate::vocabulary::{READS_FROM, RELATIONS, SETS};

/// A model that is refused: code, line and column of the error, and a word of its message.
const REFUSED: [(&str, &str, (u32, u32), &str); 22] = [
    ("let a = rfx", "name", (1, 9), "`rfx` is not defined"),
    ("let a = W\nacyclic a as A", "type", (2, 9), "a set; expected a relation"),
    ("let a = [rf]", "type", (1, 10), "a relation; expected a set"),
    ("let a = rf * rf", "type", (1, 9), "a relation; expected a set"),
    ("let a = W | rf", "type", (1, 9), "a set; expected a relation"),
    ("let a = W+", "type", (1, 9), "a set; expected a relation"),
    ("let rec a = rf \\ a", "recursion", (1, 18), "negated"),
    ("let rec a = ~a | rf", "recursion", (1, 14), "negated"),
    ("acyclic rf", "syntax", (1, 11), "expected `as`"),
    ("let = rf", "syntax", (1, 5), "expected a name"),
    ("let a rf", "syntax", (1, 7), "expected `=`"),
    ("let a = (rf", "syntax", (1, 12), "expected `)`"),
    ("let a = rf |", "syntax", (1, 13), "expected an expression"),
    ("let a = let", "syntax", (1, 9), "found the keyword `let`"),
    ("let a = rf\ninclude \"cos.cat\"", "syntax", (2, 1), "not in the subset"),
    ("let a = rf\nfoo a", "syntax", (2, 1), "does not begin a statement"),
    ("let a = rf # b", "syntax", (1, 12), "expected a statement"),
    ("with co from linear-orders(rf, 0)", "syntax", (1, 14), "partial-orders"),
    ("with co from partial-orders(rf)", "syntax", (1, 31), "expected `,`"),
    ("flag empty rf as A", "syntax", (1, 6), "expected `~`"),
    ("\"a title\nlet a = rf", "string", (1, 1), "unterminated title"),
    ("let a = rf (* no end", "comment", (1, 12), "comment"),
];

#[test]
fn models_that_are_wrong_say_where_and_why() {
    for (text, code, place, message) in REFUSED {
        let error = Model::parse("m.cat", text).expect_err(text);
        let shown = error.render();
        assert_eq!(error.code, code, "{text}: {shown}");
        let (line, column) = place;
        assert!(shown.contains(&format!("m.cat:{line}:{column}")), "{text}: {line}:{column}: {shown}");
        assert!(shown.contains(message) && shown.contains('^'), "{text}: {message}: {shown}");
    }
    let near = Model::parse("m.cat", "let observe = rf\nacyclic obsrve as A").expect_err("a slip");
    assert_eq!(near.help.as_deref(), Some("did you mean `observe`?"));
    let deep = format!("let a = {}rf", "(".repeat(100_000));
    assert_eq!(Model::parse("m.cat", &deep).expect_err("deep").code, "depth");
}

/// A frame of three events with these relations.
fn frame(model: &Model, rf: &[(usize, usize)], po: &[(usize, usize)]) -> Frame {
    let n = 3;
    let mut relations = vec![Relation::empty(n); RELATIONS.len()];
    relations[READS_FROM] = Relation::of(n, rf.iter().copied());
    relations[crate::vocabulary::relation("po")] = Relation::of(n, po.iter().copied());
    let mut sets = vec![0; SETS.len()];
    sets[crate::vocabulary::set("W")] = 0b001;
    sets[crate::vocabulary::set("R")] = 0b110;
    model.frame(n, &sets, &relations)
}

/// The value of an expression over `rf` = {(0, 1)}, `po` = {(1, 2)}, W = {0}, R = {1, 2}.
fn value(expression: &str) -> Vec<(usize, usize)> {
    let model = Model::parse("m.cat", &format!("let result = {expression}")).expect(expression);
    let rf = Relation::of(3, [(0, 1)]);
    let mut frame = frame(&model, &[(0, 1)], &[(1, 2)]);
    let mut out = None;
    let _ = model.run(&mut frame, &rf, &mut |frame, _| {
        out = model.value(frame, "result");
        std::ops::ControlFlow::Continue(())
    });
    out.expect("it is defined").pairs().collect()
}

#[test]
fn operators_mean_what_herd_says() {
    for (expression, pairs) in [
        ("rf", &[(0, 1)][..]),
        ("rf | po", &[(0, 1), (1, 2)]),
        ("rf ; po", &[(0, 2)]),
        ("po ; rf", &[]),
        ("(rf | po)+", &[(0, 1), (0, 2), (1, 2)]),
        ("(rf | po)+ \\ rf", &[(0, 2), (1, 2)]),
        ("(rf | po) & (W * R)", &[(0, 1)]),
        ("[W] ; (rf | po)", &[(0, 1)]),
        ("(rf | po) ; [R]", &[(0, 1), (1, 2)]),
        ("rf^-1", &[(1, 0)]),
        ("rf?", &[(0, 0), (0, 1), (1, 1), (2, 2)]),
        ("rf*", &[(0, 0), (0, 1), (1, 1), (2, 2)]),
        ("id", &[(0, 0), (1, 1), (2, 2)]),
        ("[_] & [W]", &[(0, 0)]),
        ("[~W]", &[(1, 1), (2, 2)]),
        ("[R \\ W]", &[(1, 1), (2, 2)]),
        ("0", &[]),
        ("~0 \\ ~(W * W)", &[(0, 0)]),
        // `;` binds looser than `&`, and `|` looser than `;`.
        ("rf | po ; po", &[(0, 1)]),
        ("rf & po ; po", &[]),
        ("rf ; po & po", &[(0, 2)]),
        // A star behind an operand is a product if one follows.
        ("W * R", &[(0, 1), (0, 2)]),
        ("rf (* a comment *) | po // another", &[(0, 1), (1, 2)]),
    ] {
        assert_eq!(value(expression), pairs, "{expression}");
    }
}

#[test]
fn recursion_is_the_least_solution() {
    let text = "let rec reach = rf | po | (reach ; reach)\nacyclic reach as A\nempty reach \\ (rf | po)+ as B\n\
                empty (rf | po)+ \\ reach as C";
    let model = Model::parse("m.cat", text).expect("it parses");
    let mut frame = frame(&model, &[(0, 1)], &[(1, 2)]);
    assert!(model.consistent(&mut frame, &Relation::of(3, [(0, 1)])));
    assert!(!model.consistent(&mut frame, &Relation::of(3, [(2, 1)])), "a cycle of rf and po");
}

#[test]
fn orders_take_every_direction_once() {
    // Three events related pairwise: six total orders; two of them contain 0 before 1 before 2 or its like.
    let model = Model::parse("m.cat", "with o from partial-orders(~0 \\ id, 0)").expect("it parses");
    let mut seen = std::collections::BTreeSet::new();
    let mut frame = frame(&model, &[], &[]);
    let _ = model.run(&mut frame, &Relation::empty(3), &mut |frame, leaf| {
        assert!(matches!(leaf, Leaf::Consistent));
        let order = model.value(frame, "o").expect("it is defined");
        assert!(seen.insert(order.pairs().collect::<Vec<_>>()), "an order twice");
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(seen.len(), 6);
    let based = Model::parse("m.cat", "with o from partial-orders(~0 \\ id, po)").expect("it parses");
    let mut count = 0;
    let mut frame = self::frame(&based, &[], &[(1, 2)]);
    let _ = based.run(&mut frame, &Relation::empty(3), &mut |_, _| {
        count += 1;
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(count, 3, "those with 1 before 2");
}
