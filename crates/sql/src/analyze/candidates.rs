//! Choosing an operator or function by name and argument types: PostgreSQL's rules of candidate
//! selection.

use super::context::Context;
use super::generic::is_consistent;
use super::lookups::Names;
use super::pathway::{ANY, Pathway, pathway};
use super::polymorphic::is_polymorphic;
use crate::error::Result;
use forebay_types::{Oid, oids};
use smallvec::SmallVec;
use std::sync::Arc;

/// Types of arguments.
pub(super) type Types = SmallVec<[Oid; 4]>;

/// An operator or a function that may be meant.
#[derive(Clone, Debug)]
pub(super) struct Candidate<R> {
    /// Its row.
    pub row: Arc<R>,
    /// The types of the arguments that are given, as it declares them.
    pub args: Types,
}

/// The result of choosing among candidates.
pub(super) enum Choice<R> {
    /// One candidate is best.
    One(Candidate<R>),
    /// None fits.
    None,
    /// Several fit, and none is best.
    Ambiguous,
}

/// Keeps the candidates for which most arguments are matched.
fn keep_best<R>(
    left: &mut Vec<Candidate<R>>,
    mut matches: impl FnMut(&Candidate<R>) -> Result<usize>,
) -> Result<()> {
    let counts = left.iter().map(&mut matches).collect::<Result<Vec<usize>>>()?;
    let best = counts.iter().max().copied().unwrap_or(0);
    let mut counts = counts.into_iter();
    left.retain(|_| counts.next() == Some(best));
    Ok(())
}

/// Chooses among candidates for the actual types. Exact matches have been looked for.
pub(super) fn choose<R>(
    names: &mut dyn Names,
    candidates: Vec<Candidate<R>>,
    actual: &[Oid],
) -> Result<Choice<R>> {
    let mut left = Vec::new();
    for candidate in candidates {
        if can_coerce(names, actual, &candidate.args, Context::Implicit)? {
            left.push(candidate);
        }
    }
    match left.len() {
        0 => return Ok(Choice::None),
        1 => return Ok(one(left)),
        _ => {}
    }
    let base: Types = actual
        .iter()
        .map(|ty| if *ty == oids::UNKNOWN { Ok(*ty) } else { names.base_type(*ty) })
        .collect::<Result<_>>()?;
    let known = |(from, to): &(&Oid, &Oid)| **from != oids::UNKNOWN && from == to;
    keep_best(&mut left, |c| Ok(base.iter().zip(&c.args).filter(known).count()))?;
    if left.len() == 1 {
        return Ok(one(left));
    }
    let categories =
        base.iter().map(|ty| Ok(names.category(*ty)?.0)).collect::<Result<SmallVec<[u8; 4]>>>()?;
    keep_best(&mut left, |c| {
        let mut count = 0;
        for ((from, to), category) in base.iter().zip(&c.args).zip(&categories) {
            if *from != oids::UNKNOWN {
                let fits = from == to || names.category(*to)? == (*category, true);
                count += usize::from(fits);
            }
        }
        Ok(count)
    })?;
    if left.len() > 1 && base.contains(&oids::UNKNOWN) {
        resolve_unknown(names, &mut left, &base)?;
        if left.len() > 1 {
            left = as_the_known(names, left, &base)?;
        }
    }
    Ok(one(left))
}

fn one<R>(mut left: Vec<Candidate<R>>) -> Choice<R> {
    match (left.pop(), left.is_empty()) {
        (Some(one), true) => Choice::One(one),
        _ => Choice::Ambiguous,
    }
}

/// For unknown arguments: prefer strings, or else the one category all candidates agree on.
fn resolve_unknown<R>(
    names: &mut dyn Names,
    left: &mut Vec<Candidate<R>>,
    actual: &[Oid],
) -> Result<()> {
    let mut wanted: Vec<Option<(u8, bool)>> = Vec::new();
    for (i, ty) in actual.iter().enumerate() {
        if *ty != oids::UNKNOWN {
            wanted.push(None);
            continue;
        }
        let mut slot: Option<(u8, bool)> = None;
        let mut conflict = false;
        for candidate in left.iter() {
            let Some(to) = candidate.args.get(i) else { continue };
            let (category, preferred) = names.category(*to)?;
            match &mut slot {
                None => slot = Some((category, preferred)),
                Some((chosen, any)) if *chosen == category => *any |= preferred,
                Some(slot) if category == b'S' => *slot = (category, preferred),
                Some((b'S', _)) => {}
                Some(_) => conflict = true,
            }
        }
        if conflict && !matches!(slot, Some((b'S', _))) {
            return Ok(());
        }
        wanted.push(slot);
    }
    let mut keep = Vec::with_capacity(left.len());
    for candidate in left.iter() {
        let mut fits = true;
        for (to, wanted) in candidate.args.iter().zip(&wanted) {
            let Some((wanted, preferred)) = wanted else { continue };
            let (category, is_preferred) = names.category(*to)?;
            fits &= category == *wanted && (!preferred || is_preferred);
        }
        keep.push(fits);
    }
    if keep.contains(&true) {
        let mut keep = keep.into_iter();
        left.retain(|_| keep.next().unwrap_or(true));
    }
    Ok(())
}

/// If all known arguments have one type, the unknown ones may have it as well.
fn as_the_known<R>(
    names: &mut dyn Names,
    left: Vec<Candidate<R>>,
    actual: &[Oid],
) -> Result<Vec<Candidate<R>>> {
    let mut known = actual.iter().filter(|ty| **ty != oids::UNKNOWN);
    let Some(first) = known.next() else { return Ok(left) };
    if known.any(|ty| ty != first) {
        return Ok(left);
    }
    let all: Types = actual.iter().map(|_| *first).collect();
    let (mut fitting, mut others) = (Vec::new(), Vec::new());
    for candidate in left {
        match can_coerce(names, &all, &candidate.args, Context::Implicit)? {
            true => fitting.push(candidate),
            false => others.push(candidate),
        }
    }
    if fitting.len() != 1 {
        fitting.append(&mut others);
    }
    Ok(fitting)
}

/// Whether values of these types can be given where those are declared.
fn can_coerce(
    names: &mut dyn Names,
    actual: &[Oid],
    declared: &[Oid],
    context: Context,
) -> Result<bool> {
    let mut generic = false;
    for (&source, &target) in actual.iter().zip(declared) {
        if source == target || target == ANY {
            continue;
        }
        if is_polymorphic(target) {
            generic = true;
            continue;
        }
        if source == oids::UNKNOWN {
            continue;
        }
        if pathway(names, source, target, context)? == Pathway::None {
            return Ok(false);
        }
    }
    if generic { is_consistent(names, actual, declared) } else { Ok(true) }
}
