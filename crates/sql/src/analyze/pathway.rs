//! How a value of one type becomes one of another: through pg_cast, by elements of arrays, by text.

use super::context::Context;
use super::lookups::Names;
use super::polymorphic::{ANYARRAY, ANYELEMENT, ANYENUM, ANYMULTIRANGE, ANYRANGE};
use crate::error::Result;
use forebay_types::{Oid, oids};

/// A way from one type to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pathway {
    /// There is none.
    None,
    /// By this function.
    Function(Oid),
    /// The bytes of a value stay as they are.
    Relabel,
    /// Each element of the array.
    Elements,
    /// By output and input.
    Text,
}

/// Pseudo-types that take values of any type as they are.
pub(super) const ANY: Oid = 2276;

/// The way from a type to another in a context.
pub(super) fn pathway(
    names: &mut dyn Names,
    source: Oid,
    target: Oid,
    context: Context,
) -> Result<Pathway> {
    let (source, target) = (names.base_type(source)?, names.base_type(target)?);
    if source == target {
        return Ok(Pathway::Relabel);
    }
    if let Some(cast) = names.cast(source, target)? {
        let allowed = match cast.context {
            b'i' => true,
            b'a' => context != Context::Implicit,
            _ => context == Context::Explicit,
        };
        return Ok(match cast.method {
            _ if !allowed => Pathway::None,
            b'f' => Pathway::Function(cast.function),
            b'i' => Pathway::Text,
            _ => Pathway::Relabel,
        });
    }
    let (from, to) = (names.ty(source)?, names.ty(target)?);
    let vector = matches!(target, oids::OIDVECTOR | oids::INT2VECTOR);
    if !vector
        && from.is_array()
        && to.is_array()
        && pathway(names, from.elem, to.elem, context)? != Pathway::None
    {
        return Ok(Pathway::Elements);
    }
    let by_text = context != Context::Implicit && to.category == b'S'
        || context == Context::Explicit && from.category == b'S';
    Ok(if by_text { Pathway::Text } else { Pathway::None })
}

/// The function that casts a type's values to a type modifier, or those of an array's elements.
pub(super) fn typmod_pathway(names: &mut dyn Names, ty: Oid) -> Result<Pathway> {
    let row = names.ty(ty)?;
    let of = if row.is_array() { row.elem } else { ty };
    Ok(match names.cast(of, of)? {
        Some(cast) if cast.function == 0 => Pathway::None,
        Some(_) if row.is_array() => Pathway::Elements,
        Some(cast) => Pathway::Function(cast.function),
        None => Pathway::None,
    })
}

/// Whether values of a type are values of another one as they are, without any conversion.
pub(super) fn is_binary_coercible(names: &mut dyn Names, source: Oid, target: Oid) -> Result<bool> {
    if source == target || target == ANY || target == ANYELEMENT {
        return Ok(true);
    }
    let base = names.base_type(source)?;
    if base == target {
        return Ok(true);
    }
    let row = names.ty(base)?;
    let by_kind = match target {
        ANYARRAY => row.is_array(),
        ANYENUM => row.kind == b'e',
        ANYRANGE => row.kind == b'r',
        ANYMULTIRANGE => row.kind == b'm',
        oids::RECORD => row.kind == b'c',
        _ => false,
    };
    if by_kind {
        return Ok(true);
    }
    let cast = names.cast(base, target)?;
    Ok(cast.is_some_and(|cast| cast.method == b'b' && cast.context == b'i'))
}
