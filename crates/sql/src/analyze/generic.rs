//! Polymorphic types: what anyelement, anyarray and their like mean in a call.

use super::context::Context;
use super::lookups::Names;
use super::pathway::{Pathway, pathway};
use super::polymorphic::{
    ANYARRAY, ANYCOMPATIBLE, ANYCOMPATIBLEARRAY, ANYCOMPATIBLENONARRAY, ANYELEMENT, ANYENUM,
    ANYMULTIRANGE, ANYNONARRAY, ANYRANGE, is_polymorphic,
};
use super::type_names::type_name;
use crate::error::{Result, SqlError, state};
use forebay_types::{Oid, oids};

/// Ranges and enums have no values here.
fn is_refused(ty: Oid) -> bool {
    matches!(ty, ANYENUM | ANYRANGE | ANYMULTIRANGE | 5080 | 4538)
}

/// What the two families of polymorphic types stand for in a call, as elements.
#[derive(Clone, Copy, Debug, Default)]
struct Meaning {
    /// anyelement, as elements of anyarray.
    element: Option<Oid>,
    /// anycompatible
    compatible: Option<Oid>,
    /// Whether any argument of these was given with a known type.
    unknown_element: bool,
    unknown_compatible: bool,
}

/// Finds what they stand for. None: the arguments do not fit each other.
fn meaning(names: &mut dyn Names, actual: &[Oid], declared: &[Oid]) -> Result<Option<Meaning>> {
    let mut found = Meaning::default();
    let mut compatible: Vec<Oid> = Vec::new();
    for (&given, &wanted) in actual.iter().zip(declared) {
        if is_refused(wanted) {
            return Ok(None);
        }
        let own = matches!(wanted, ANYELEMENT | ANYARRAY | ANYNONARRAY);
        if !own && !is_polymorphic(wanted) {
            continue;
        }
        if given == oids::UNKNOWN {
            let unknown =
                if own { &mut found.unknown_element } else { &mut found.unknown_compatible };
            *unknown = true;
            continue;
        }
        let as_array = matches!(wanted, ANYARRAY | ANYCOMPATIBLEARRAY);
        let element = match as_array {
            false => {
                let plain = matches!(wanted, ANYNONARRAY | ANYCOMPATIBLENONARRAY);
                if plain && names.element_of(given)?.is_some() {
                    return Ok(None);
                }
                given
            }
            true => match names.element_of(given)? {
                Some(element) => element,
                None if given == ANYARRAY => oids::ANYARRAY,
                None => return Ok(None),
            },
        };
        if !own {
            compatible.push(element);
        } else if *found.element.get_or_insert(element) != element {
            return Ok(None);
        }
    }
    found.compatible = common(names, &compatible)?;
    let fits = compatible.is_empty() || found.compatible.is_some();
    Ok(fits.then_some(found))
}

/// The common type of known types.
fn common(names: &mut dyn Names, types: &[Oid]) -> Result<Option<Oid>> {
    let Some((&first, rest)) = types.split_first() else { return Ok(None) };
    let mut chosen = names.base_type(first)?;
    if rest.iter().all(|ty| *ty == first) {
        return Ok(Some(first));
    }
    for ty in rest {
        let ty = names.base_type(*ty)?;
        if ty == chosen {
            continue;
        }
        let (category, preferred) = names.category(chosen)?;
        if names.category(ty)?.0 != category {
            return Ok(None);
        }
        let implicit = Context::Implicit;
        if !preferred
            && pathway(names, chosen, ty, implicit)? != Pathway::None
            && pathway(names, ty, chosen, implicit)? == Pathway::None
        {
            chosen = ty;
        }
    }
    for ty in types {
        if pathway(names, *ty, chosen, Context::Implicit)? == Pathway::None {
            return Ok(None);
        }
    }
    Ok(Some(chosen))
}

/// Whether the arguments fit each other.
pub(super) fn is_consistent(
    names: &mut dyn Names,
    actual: &[Oid],
    declared: &[Oid],
) -> Result<bool> {
    Ok(meaning(names, actual, declared)?.is_some())
}

/// Puts into the declared types of arguments and of the result what they stand for.
pub(super) fn resolve(
    names: &mut dyn Names,
    actual: &[Oid],
    declared: &mut [Oid],
    result: &mut Oid,
) -> Result<()> {
    let all = declared.iter().chain(std::iter::once(&*result));
    if !all.copied().any(is_polymorphic) {
        return Ok(());
    }
    if let Some(ty) = declared.iter().chain(std::iter::once(&*result)).find(|ty| is_refused(**ty)) {
        let what = format!("a function of type {}", type_name(names, *ty)?);
        return Err(SqlError::unsupported(what));
    }
    let Some(mut found) = meaning(names, actual, declared)? else {
        return Err(mismatch(names, actual, declared)?);
    };
    // Literals alone: text for anycompatible, and an error for anyelement.
    if found.element.is_none() && found.unknown_element {
        let message = "could not determine polymorphic type because input has type unknown";
        return Err(SqlError::new(state::DATATYPE_MISMATCH, message));
    }
    if found.compatible.is_none() && found.unknown_compatible {
        found.compatible = Some(oids::TEXT);
    }
    for ty in declared.iter_mut().chain(std::iter::once(result)) {
        let (element, as_array) = match *ty {
            ANYELEMENT | ANYNONARRAY => (found.element, false),
            ANYARRAY => (found.element, true),
            ANYCOMPATIBLE | ANYCOMPATIBLENONARRAY => (found.compatible, false),
            ANYCOMPATIBLEARRAY => (found.compatible, true),
            _ => continue,
        };
        let Some(element) = element else { continue };
        if !as_array || element == ANYARRAY {
            *ty = element;
            continue;
        }
        *ty = match names.array_of(element)? {
            Some(array) => array,
            None => {
                let name = type_name(names, element)?;
                let message = format!("could not find array type for data type {name}");
                return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
            }
        };
    }
    Ok(())
}

/// The error of arguments that do not fit each other.
fn mismatch(names: &mut dyn Names, actual: &[Oid], declared: &[Oid]) -> Result<SqlError> {
    for (&given, &wanted) in actual.iter().zip(declared) {
        if wanted == ANYARRAY && given != oids::UNKNOWN && names.element_of(given)?.is_none() {
            let given = type_name(names, given)?;
            let message = format!("argument declared anyarray is not an array but type {given}");
            return Ok(SqlError::new(state::DATATYPE_MISMATCH, message));
        }
    }
    let message = "arguments declared \"anyelement\" are not all alike";
    Ok(SqlError::new(state::DATATYPE_MISMATCH, message))
}
