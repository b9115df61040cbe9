//! Whether conditions of a query imply the predicate of an index, so that the index has all rows
//! that they leave: PostgreSQL's rules for the usual forms.
//!
//! A condition implies what is equal to it, and an OR that it implies an arm of. Comparisons of one
//! expression with constants imply each other by their order. What is true only of values implies
//! that the value is not NULL.

use super::computed::ComputedIndex;
use super::expr::{Comparison, Expr};
use forebay_collation::Collation;
use forebay_engine::TableIndex;
use forebay_types::{Datum, SqlType, compare, compare_by};
use std::cmp::Ordering;

/// Longer lists are not taken apart.
const LONGEST_LIST: usize = 100;

/// The parts of an index's predicate. None: the conditions of a query do not imply it, so the index
/// may lack rows.
pub(super) fn predicate_if_implied<'i>(
    index: &'i TableIndex,
    conditions: &[&Expr],
) -> Option<&'i [Expr]> {
    let predicate = ComputedIndex::of(index).map_or(&[][..], |computed| &computed.predicate);
    predicate.iter().all(|part| implied(conditions, part)).then_some(predicate)
}

/// Whether all rows of an index with this predicate satisfy a condition.
pub(super) fn is_implied(predicate: &[Expr], condition: &Expr) -> bool {
    !predicate.is_empty() && implied(&predicate.iter().collect::<Vec<_>>(), condition)
}

/// Whether conditions that all hold imply a condition.
pub(super) fn implied(conditions: &[&Expr], wanted: &Expr) -> bool {
    match wanted {
        Expr::And(parts) => return parts.iter().all(|part| implied(conditions, part)),
        Expr::Or(arms) if arms.iter().any(|arm| implied(conditions, arm)) => return true,
        _ => {}
    }
    if let Some(arms) = arms_of(wanted)
        && arms.iter().any(|arm| implied(conditions, arm))
    {
        return true;
    }
    conditions.iter().any(|condition| implies(condition, wanted))
}

/// Whether a condition implies another one, which is no AND.
fn implies(condition: &Expr, wanted: &Expr) -> bool {
    if condition == wanted {
        return true;
    }
    match condition {
        Expr::And(parts) => {
            return implied(&parts.iter().collect::<Vec<_>>(), wanted);
        }
        Expr::Or(arms) => return arms.iter().all(|arm| implied(&[arm], wanted)),
        _ => {}
    }
    if let Some(arms) = arms_of(condition)
        && arms.iter().all(|arm| implied(&[arm], wanted))
    {
        return true;
    }
    match wanted {
        Expr::IsNotNull(operand) => needs_value(condition, operand),
        _ => match (Comparing::of(condition), Comparing::of(wanted)) {
            (Some(condition), Some(wanted)) => compared(condition, wanted),
            _ => false,
        },
    }
}

/// A comparison of two values, texts by a collation.
#[derive(Clone, Copy)]
struct Comparing<'e> {
    comparison: Comparison,
    pair: &'e (Expr, Expr),
    /// None: by their bytes.
    collation: Option<&'e Collation>,
}

impl<'e> Comparing<'e> {
    fn of(e: &'e Expr) -> Option<Comparing<'e>> {
        let (comparison, pair, collation) = match e {
            Expr::Compare(comparison, pair) => (*comparison, pair, None),
            Expr::Collated(comparison, collation, pair) => (*comparison, pair, Some(&**collation)),
            _ => return None,
        };
        Some(Comparing { comparison, pair, collation })
    }

    /// Whether texts that are equal satisfy it, and only these; or only others.
    fn is_equality(self) -> bool {
        matches!(self.comparison, Comparison::Eq | Comparison::Ne)
    }

    /// The collation by which both say something of the order of the values. None: they have not
    /// the same one. Texts that are equal are so by each collation.
    fn common(self, other: Comparing<'e>) -> Option<Option<&'e Collation>> {
        match (self.is_equality(), other.is_equality()) {
            (true, _) => Some(other.collation),
            (_, true) => Some(self.collation),
            _ => (self.collation == other.collation).then_some(self.collation),
        }
    }
}

/// IN as the comparisons of which it is an OR.
fn arms_of(condition: &Expr) -> Option<Vec<Expr>> {
    let Expr::InList { expr, list, negated: false, .. } = condition else { return None };
    let arm =
        |value: &Expr| Expr::Compare(Comparison::Eq, Box::new((Expr::clone(expr), value.clone())));
    let is_short = (1..=LONGEST_LIST).contains(&list.len());
    is_short.then(|| list.iter().map(arm).collect())
}

/// Whether a condition can only be true if an operand is not NULL.
fn needs_value(condition: &Expr, operand: &Expr) -> bool {
    match condition {
        Expr::Compare(_, pair) | Expr::Collated(_, _, pair) => {
            is_null_with(&pair.0, operand) || is_null_with(&pair.1, operand)
        }
        Expr::Like { operands, .. } => {
            is_null_with(&operands.0, operand) || is_null_with(&operands.1, operand)
        }
        Expr::InList { expr, .. } | Expr::InArray { expr, .. } => is_null_with(expr, operand),
        Expr::IsNotNull(e) | Expr::Not(e) => is_null_with(e, operand),
        Expr::IsBool { expr, negated: false, .. } => is_null_with(expr, operand),
        other => is_null_with(other, operand),
    }
}

/// Whether an expression is NULL if an operand is.
fn is_null_with(e: &Expr, operand: &Expr) -> bool {
    if e == operand {
        return true;
    }
    match e {
        Expr::Cast { expr, .. } | Expr::Negate(expr) => is_null_with(expr, operand),
        Expr::Arith(_, pair) | Expr::Concat(pair) => {
            is_null_with(&pair.0, operand) || is_null_with(&pair.1, operand)
        }
        Expr::Call(function, args) if function.row.strict => {
            args.iter().any(|arg| is_null_with(arg, operand))
        }
        _ => false,
    }
}

/// A comparison with the constant on the right, if it has one.
fn with_constant(
    comparison: Comparison,
    pair: &(Expr, Expr),
) -> Option<(&Expr, Comparison, &Datum<'static>)> {
    match pair {
        (operand, Expr::Const(value)) if !value.is_null() => Some((operand, comparison, value)),
        (Expr::Const(value), operand) if !value.is_null() => {
            Some((operand, comparison.exchanged(), value))
        }
        _ => None,
    }
}

/// Whether one comparison implies another one.
fn compared(condition: Comparing<'_>, wanted: Comparing<'_>) -> bool {
    use Comparison as C;
    let Some(collation) = condition.common(wanted) else { return false };
    let Comparing { comparison, pair, .. } = condition;
    let Comparing { comparison: wanted, pair: of, .. } = wanted;
    if pair.0 == of.1 && pair.1 == of.0 {
        return comparison.exchanged() == wanted;
    }
    let (Some((a, comparison, known)), Some((b, wanted, limit))) =
        (with_constant(comparison, pair), with_constant(wanted, of))
    else {
        return false;
    };
    if a != b {
        return false;
    }
    let order = match collation {
        None => compare(limit, known),
        Some(by) => compare_by(limit, known, SqlType::Text, &|a, b| by.compare(a, b)),
    };
    let Ok(order) = order else { return false };
    match (comparison, wanted) {
        (C::Lt, C::Lt | C::Le | C::Ne) | (C::Le, C::Le) => order != Ordering::Less,
        (C::Le, C::Lt | C::Ne) => order == Ordering::Greater,
        (C::Gt, C::Gt | C::Ge | C::Ne) | (C::Ge, C::Ge) => order != Ordering::Greater,
        (C::Ge, C::Gt | C::Ne) => order == Ordering::Less,
        (C::Eq, C::Eq) | (C::Ne, C::Ne) => order == Ordering::Equal,
        (C::Eq, C::Ne) => order != Ordering::Equal,
        (C::Eq, C::Lt) => order == Ordering::Greater,
        (C::Eq, C::Le) => order != Ordering::Less,
        (C::Eq, C::Gt) => order == Ordering::Less,
        (C::Eq, C::Ge) => order != Ordering::Greater,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_collation::{Definition, Provider};
    use std::sync::Arc;

    fn compared_with(comparison: Comparison, value: i32) -> Expr {
        let value = Expr::Const(Datum::Int4(value));
        Expr::Compare(comparison, Box::new((Expr::Column(0), value)))
    }

    #[test]
    fn comparisons_imply_what_holds_for_all_their_values() {
        use Comparison as C;
        let all = [C::Eq, C::Ne, C::Lt, C::Le, C::Gt, C::Ge];
        let holds = |comparison, value: i32, with: i32| match comparison {
            C::Eq => value == with,
            C::Ne => value != with,
            C::Lt => value < with,
            C::Le => value <= with,
            C::Gt => value > with,
            C::Ge => value >= with,
        };
        // Between two whole numbers lie others that these stand for.
        for (known, limit) in [(0, 0), (0, 4), (4, 0)] {
            for (comparison, wanted) in all.iter().flat_map(|a| all.iter().map(move |b| (*a, *b))) {
                let mut values = (-10..10).filter(|value| holds(comparison, *value, known));
                let expected = values.all(|value| holds(wanted, value, limit));
                let found =
                    implied(&[&compared_with(comparison, known)], &compared_with(wanted, limit));
                assert_eq!(found, expected, "{comparison:?} {known}, {wanted:?} {limit}");
            }
        }
    }

    #[test]
    fn conditions_imply_their_parts_and_that_there_are_values() {
        use Comparison as C;
        let (one, two) = (compared_with(C::Eq, 1), compared_with(C::Gt, 5));
        let not_null = Expr::IsNotNull(Box::new(Expr::Column(0)));
        let either = Expr::Or(vec![one.clone(), two.clone()]);
        assert!(implied(&[&one], &not_null) && implied(&[&either], &not_null));
        assert!(implied(&[&two], &either) && !implied(&[&either], &two));
        let both = Expr::And(vec![one.clone(), not_null.clone()]);
        assert!(implied(&[&one], &both) && implied(&[&both], &one));
        let other = Expr::IsNotNull(Box::new(Expr::Column(1)));
        assert!(!implied(&[&one], &other) && !implied(&[], &not_null));
    }

    #[test]
    fn comparisons_by_different_collations_say_nothing_of_each_other() {
        use Comparison as C;
        let definition = Definition {
            name: "unicode",
            provider: Provider::Icu,
            locale: "und",
            ctype: "und",
            rules: None,
            deterministic: true,
        };
        let by = Arc::new(Collation::open(&definition).expect("it is there"));
        let pair = |text| Box::new((Expr::Column(0), Expr::Const(Datum::text(text))));
        let bytes = |comparison, text| Expr::Compare(comparison, pair(text));
        let words = |comparison, text| Expr::Collated(comparison, Arc::clone(&by), pair(text));
        assert!(implied(&[&words(C::Lt, "a")], &words(C::Lt, "B")));
        assert!(!implied(&[&words(C::Lt, "B")], &words(C::Lt, "a")));
        assert!(implied(&[&bytes(C::Lt, "B")], &bytes(C::Lt, "a")));
        assert!(!implied(&[&words(C::Lt, "a")], &bytes(C::Lt, "z")));
        assert!(!implied(&[&bytes(C::Lt, "B")], &words(C::Lt, "z")));
        assert!(implied(&[&bytes(C::Eq, "a")], &words(C::Lt, "B")));
        assert!(!implied(&[&bytes(C::Eq, "a")], &bytes(C::Lt, "B")));
        assert!(implied(&[&words(C::Lt, "B")], &bytes(C::Ne, "c")));
        assert!(!implied(&[&words(C::Lt, "B")], &bytes(C::Ne, "a")));
    }
}
