//! Names and types of a model; what depends on the reads-from relation and on orders, and what does not.

use std::fmt;

use sim_frontend::diagnostic::{Diagnostic, Source, Span};

use super::ast::{Ast, Expr, ExprKind, ItemKind, Operator, Postfix, Property};
use crate::vocabulary::{READS_FROM, RELATIONS, SETS};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A set of events.
    Set,
    /// A relation over events.
    Relation,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Type::Set => "a set",
            Type::Relation => "a relation",
        })
    }
}

/// A set, over slots of sets.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "variants are named as the operators of the language")]
pub enum SetTerm {
    Slot(usize),
    Everything,
    Union(Box<SetTerm>, Box<SetTerm>),
    Intersection(Box<SetTerm>, Box<SetTerm>),
    Difference(Box<SetTerm>, Box<SetTerm>),
    Not(Box<SetTerm>),
}

/// A relation, over slots of sets and relations.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "variants are named as the operators of the language")]
pub enum RelationTerm {
    Slot(usize),
    Nothing,
    On(SetTerm),
    Product(SetTerm, SetTerm),
    Union(Box<RelationTerm>, Box<RelationTerm>),
    Intersection(Box<RelationTerm>, Box<RelationTerm>),
    Difference(Box<RelationTerm>, Box<RelationTerm>),
    Sequence(Box<RelationTerm>, Box<RelationTerm>),
    Not(Box<RelationTerm>),
    Inverse(Box<RelationTerm>),
    Plus(Box<RelationTerm>),
    Star(Box<RelationTerm>),
    Optional(Box<RelationTerm>),
}

#[derive(Clone, Debug)]
pub(super) enum Term {
    Set(SetTerm),
    Relation(RelationTerm),
}

/// A check of a model.
#[derive(Clone, Debug)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// The property that must hold.
    pub property: Property,
    /// The relation it is about.
    pub term: RelationTerm,
}

/// A statement of a model, names resolved to slots.
#[derive(Clone, Debug)]
pub struct Statement {
    pub(super) kind: StatementKind,
    /// Position in the source.
    pub span: Span,
    /// It needs neither the reads-from relation nor an order: computed once for all candidates of a program's
    /// events.
    pub(super) fixed: bool,
}

/// What a statement does, over slots.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "variants are named as the statements of the language")]
pub enum StatementKind {
    LetSet(usize, SetTerm),
    Let(usize, RelationTerm),
    Rec(Vec<(usize, RelationTerm)>),
    With { order: usize, pairs: RelationTerm, base: RelationTerm },
    Check(Check),
}

/// A relation of the model by its name.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub name: String,
    pub kind: Type,
    pub slot: usize,
    /// It depends on neither the reads-from relation nor an order.
    pub fixed: bool,
    /// What defines it; none for relations that come with the execution, orders and recursion.
    pub term: Option<RelationTerm>,
}

/// A model whose names and types are right.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its text.
    pub source: Source,
    /// Its title.
    pub title: String,
    pub(super) statements: Vec<Statement>,
    pub(super) definitions: Vec<Definition>,
    parts: Vec<(usize, RelationTerm)>,
    pub(super) sets: usize,
    pub(super) relations: usize,
}

struct Checker<'s> {
    source: &'s Source,
    definitions: Vec<Definition>,
    sets: usize,
    relations: usize,
    /// Parts of expressions that are computed once, as statements of their own.
    hoisted: Vec<Statement>,
    /// Terms of these, by slot.
    parts: Vec<(usize, RelationTerm)>,
}

impl Model {
    /// A model of a syntax tree.
    ///
    /// # Errors
    /// A name is unknown, or a set stands where a relation is needed.
    pub fn new(ast: &Ast, source: &Source) -> Result<Self, Diagnostic> {
        let definition = |kind: Type| {
            move |(slot, name): (usize, &&str)| Definition {
                name: (*name).to_string(),
                kind,
                slot,
                fixed: kind == Type::Set || slot != READS_FROM,
                term: None,
            }
        };
        let sets = SETS.iter().enumerate().map(definition(Type::Set));
        let relations = RELATIONS.iter().enumerate().map(definition(Type::Relation));
        let mut checker = Checker {
            source,
            definitions: sets.chain(relations).collect(),
            sets: SETS.len(),
            relations: RELATIONS.len(),
            hoisted: Vec::new(),
            parts: Vec::new(),
        };
        let mut statements = Vec::new();
        for item in &ast.statements {
            let (kind, fixed) = checker.statement(&item.kind)?;
            statements.append(&mut checker.hoisted);
            statements.push(Statement { kind, span: item.span, fixed });
        }
        Ok(Self {
            source: source.clone(),
            title: ast.title.clone(),
            statements,
            definitions: checker.definitions,
            parts: checker.parts,
            sets: checker.sets,
            relations: checker.relations,
        })
    }

    /// Names of its checks that reject executions, in their order.
    pub fn axioms(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().filter_map(|statement| match &statement.kind {
            StatementKind::Check(check) if check.property != Property::FlagNotEmpty => {
                Some(check.name.as_str())
            }
            _ => None,
        })
    }

    /// What a statement says.
    pub fn kind(&self, statement: usize) -> &StatementKind {
        &self.statements[statement].kind
    }

    /// A relation of a slot depends on neither the reads-from relation nor an order.
    pub fn is_fixed_slot(&self, slot: usize) -> bool {
        let found = self.definitions.iter().find(|d| d.kind == Type::Relation && d.slot == slot);
        found.is_none_or(|d| d.fixed)
    }

    /// The name and the term of a slot of relations: no name for parts of expressions that are computed apart, no term
    /// for relations of the execution, orders and recursion.
    pub fn of_slot(&self, slot: usize) -> Option<(Option<&str>, Option<&RelationTerm>)> {
        if let Some((_, term)) = self.parts.iter().find(|(s, _)| *s == slot) {
            return Some((None, Some(term)));
        }
        let found = self.definitions.iter().find(|d| d.kind == Type::Relation && d.slot == slot)?;
        Some((Some(&found.name), found.term.as_ref()))
    }

    /// It has a relation of this name.
    pub fn defines(&self, name: &str) -> bool {
        self.definition(name, Type::Relation).is_some()
    }

    /// The last definition of a name.
    pub(super) fn definition(&self, name: &str, kind: Type) -> Option<&Definition> {
        self.definitions.iter().rev().find(|d| d.name == name && d.kind == kind)
    }
}

/// A term, and whether it needs neither the reads-from relation nor an order.
type Checked = (Term, bool);

impl Checker<'_> {
    fn statement(&mut self, kind: &ItemKind) -> Result<(StatementKind, bool), Diagnostic> {
        Ok(match kind {
            ItemKind::Let((name, _), expr) => match self.expr(expr)? {
                (Term::Set(term), fixed) => {
                    let slot = self.define(name, Type::Set, fixed, None);
                    (StatementKind::LetSet(slot, term), fixed)
                }
                (Term::Relation(term), fixed) => {
                    let slot = self.define(name, Type::Relation, fixed, Some(term.clone()));
                    (StatementKind::Let(slot, term), fixed)
                }
            },
            ItemKind::Rec(list) => {
                let slots: Vec<usize> = list
                    .iter()
                    .map(|((name, _), _)| self.define(name, Type::Relation, false, None))
                    .collect();
                let names: Vec<&str> = list.iter().map(|((name, _), _)| name.as_str()).collect();
                let mut terms = Vec::new();
                for (slot, (_, expr)) in slots.into_iter().zip(list) {
                    self.monotone(expr, &names)?;
                    terms.push((slot, self.relation(expr)?.0));
                }
                (StatementKind::Rec(terms), false)
            }
            ItemKind::With { name: (name, _), pairs, base } => {
                let (pairs, base) = (self.relation(pairs)?.0, self.relation(base)?.0);
                let order = self.define(name, Type::Relation, false, None);
                (StatementKind::With { order, pairs, base }, false)
            }
            ItemKind::Check { property, expr, name } => {
                let term = match (self.expr(expr)?.0, property) {
                    (Term::Relation(term), _) => term,
                    (Term::Set(term), Property::Empty | Property::FlagNotEmpty) => RelationTerm::On(term),
                    (Term::Set(_), _) => return Err(self.mismatch(expr, Type::Set, Type::Relation)),
                };
                let check = Check { name: name.clone(), property: *property, term };
                (StatementKind::Check(check), false)
            }
        })
    }

    fn define(&mut self, name: &str, kind: Type, fixed: bool, term: Option<RelationTerm>) -> usize {
        let count = if kind == Type::Set { &mut self.sets } else { &mut self.relations };
        let slot = *count;
        *count += 1;
        self.definitions.push(Definition { name: name.to_string(), kind, slot, fixed, term });
        slot
    }

    /// A recursive name may not occur in a complement or right of a difference: there is no least solution.
    fn monotone(&self, expr: &Expr, names: &[&str]) -> Result<(), Diagnostic> {
        let refuse = |inner: &Expr| match self.mentions(inner, names) {
            Some(span) => Err(Diagnostic::error("recursion", "a recursive name is negated here")
                .at(span, "")
                .help("a definition by `let rec` must grow with the names it defines")
                .in_source(self.source)),
            None => Ok(()),
        };
        match &expr.kind {
            ExprKind::Not(inner) => refuse(inner),
            ExprKind::Binary(Operator::Difference, left, right) => {
                refuse(right)?;
                self.monotone(left, names)
            }
            ExprKind::Binary(_, left, right) => {
                self.monotone(left, names)?;
                self.monotone(right, names)
            }
            ExprKind::On(inner) | ExprKind::Postfix(_, inner) => self.monotone(inner, names),
            ExprKind::Name(_) | ExprKind::Everything | ExprKind::Nothing => Ok(()),
        }
    }

    fn mentions(&self, expr: &Expr, names: &[&str]) -> Option<Span> {
        match &expr.kind {
            ExprKind::Name(name) => names.contains(&name.as_str()).then_some(expr.span),
            ExprKind::Everything | ExprKind::Nothing => None,
            ExprKind::On(inner) | ExprKind::Not(inner) | ExprKind::Postfix(_, inner) => {
                self.mentions(inner, names)
            }
            ExprKind::Binary(_, left, right) => {
                self.mentions(left, names).or_else(|| self.mentions(right, names))
            }
        }
    }

    fn mismatch(&self, expr: &Expr, found: Type, wanted: Type) -> Diagnostic {
        let error = Diagnostic::error("type", format!("this is {found}; expected {wanted}"))
            .at(expr.span, "")
            .in_source(self.source);
        match wanted {
            Type::Relation => error.help("`[S]` is the identity on a set, `S * T` the product of two"),
            Type::Set => error,
        }
    }

    fn relation(&mut self, expr: &Expr) -> Result<(RelationTerm, bool), Diagnostic> {
        match self.expr(expr)? {
            (Term::Relation(term), fixed) => Ok((term, fixed)),
            (Term::Set(_), _) => Err(self.mismatch(expr, Type::Set, Type::Relation)),
        }
    }

    fn set(&mut self, expr: &Expr) -> Result<(SetTerm, bool), Diagnostic> {
        match self.expr(expr)? {
            (Term::Set(term), fixed) => Ok((term, fixed)),
            (Term::Relation(_), _) => Err(self.mismatch(expr, Type::Relation, Type::Set)),
        }
    }

    fn expr(&mut self, expr: &Expr) -> Result<Checked, Diagnostic> {
        Ok(match &expr.kind {
            ExprKind::Name(name) => self.name(name, expr.span)?,
            ExprKind::Everything => (Term::Set(SetTerm::Everything), true),
            ExprKind::Nothing => (Term::Relation(RelationTerm::Nothing), true),
            ExprKind::On(inner) => {
                let (set, fixed) = self.set(inner)?;
                (Term::Relation(RelationTerm::On(set)), fixed)
            }
            ExprKind::Not(inner) => match self.expr(inner)? {
                (Term::Set(set), fixed) => (Term::Set(SetTerm::Not(Box::new(set))), fixed),
                (Term::Relation(term), fixed) => (Term::Relation(RelationTerm::Not(Box::new(term))), fixed),
            },
            ExprKind::Postfix(operator, inner) => {
                let (term, fixed) = self.relation(inner)?;
                let term = Box::new(term);
                let term = match operator {
                    Postfix::Plus => RelationTerm::Plus(term),
                    Postfix::Star => RelationTerm::Star(term),
                    Postfix::Optional => RelationTerm::Optional(term),
                    Postfix::Inverse => RelationTerm::Inverse(term),
                };
                (Term::Relation(term), fixed)
            }
            ExprKind::Binary(operator, left, right) => self.binary(*operator, left, right)?,
        })
    }

    fn binary(&mut self, operator: Operator, left: &Expr, right: &Expr) -> Result<Checked, Diagnostic> {
        if operator == Operator::Product {
            let ((a, x), (b, y)) = (self.set(left)?, self.set(right)?);
            return Ok((Term::Relation(RelationTerm::Product(a, b)), x && y));
        }
        if operator == Operator::Sequence {
            let ((a, x), (b, y)) = (self.relation(left)?, self.relation(right)?);
            let (a, b) = self.hoist(a, x, b, y);
            return Ok((Term::Relation(RelationTerm::Sequence(a, b)), x && y));
        }
        Ok(match (self.expr(left)?, self.expr(right)?) {
            ((Term::Set(a), x), (Term::Set(b), y)) => {
                let (a, b) = (Box::new(a), Box::new(b));
                let term = match operator {
                    Operator::Union => SetTerm::Union(a, b),
                    Operator::Intersection => SetTerm::Intersection(a, b),
                    _ => SetTerm::Difference(a, b),
                };
                (Term::Set(term), x && y)
            }
            ((Term::Relation(a), x), (Term::Relation(b), y)) => {
                let (a, b) = self.hoist(a, x, b, y);
                let term = match operator {
                    Operator::Union => RelationTerm::Union(a, b),
                    Operator::Intersection => RelationTerm::Intersection(a, b),
                    _ => RelationTerm::Difference(a, b),
                };
                (Term::Relation(term), x && y)
            }
            ((Term::Set(_), _), _) => return Err(self.mismatch(left, Type::Set, Type::Relation)),
            (_, (Term::Set(_), _)) => return Err(self.mismatch(right, Type::Set, Type::Relation)),
        })
    }

    /// Where one operand is fixed and the other is not, the fixed one becomes a statement of its own.
    fn hoist(
        &mut self,
        a: RelationTerm,
        a_fixed: bool,
        b: RelationTerm,
        b_fixed: bool,
    ) -> (Box<RelationTerm>, Box<RelationTerm>) {
        let mut apart = |term: RelationTerm, hoist: bool| {
            if !hoist || matches!(term, RelationTerm::Slot(_) | RelationTerm::Nothing) {
                return Box::new(term);
            }
            let slot = self.relations;
            self.relations += 1;
            self.parts.push((slot, term.clone()));
            let kind = StatementKind::Let(slot, term);
            self.hoisted.push(Statement { kind, span: Span::default(), fixed: true });
            Box::new(RelationTerm::Slot(slot))
        };
        (apart(a, a_fixed && !b_fixed), apart(b, b_fixed && !a_fixed))
    }

    fn name(&self, name: &str, span: Span) -> Result<Checked, Diagnostic> {
        if name == "id" {
            return Ok((Term::Relation(RelationTerm::On(SetTerm::Everything)), true));
        }
        let Some(found) = self.definitions.iter().rev().find(|d| d.name == name) else {
            return Err(Diagnostic::error("name", format!("`{name}` is not defined"))
                .at(span, "")
                .did_you_mean(name, self.definitions.iter().map(|d| d.name.as_str()))
                .in_source(self.source));
        };
        Ok(match found.kind {
            Type::Set => (Term::Set(SetTerm::Slot(found.slot)), true),
            Type::Relation => (Term::Relation(RelationTerm::Slot(found.slot)), found.fixed),
        })
    }
}
