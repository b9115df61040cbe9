//! What a sequence is, and is to be: the options of CREATE and ALTER SEQUENCE, and PostgreSQL's
//! rules for them.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_access::sequence::SequenceRules;
use forebay_format::RelFileLocator;
use forebay_format::sequence::SequenceTuple;
use forebay_types::{Oid, oids};

use crate::error::CatalogError;
use crate::table::FilePlace;

/// A sequence's row of pg_sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceDef {
    /// The type of its values: int2, int4 or int8.
    pub type_oid: Oid,
    /// The value it begins with.
    pub start: i64,
    /// Which values come next.
    pub rules: SequenceRules,
}

/// A sequence as a transaction sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceInfo {
    /// pg_class.oid
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// Its namespace's OID.
    pub namespace: Oid,
    /// Its namespace's name.
    pub schema: String,
    /// Its owner.
    pub owner: Oid,
    /// p: permanent, u: unlogged, t: temporary
    pub persistence: u8,
    /// Its file.
    pub locator: RelFileLocator,
    /// Its row of pg_sequence.
    pub def: SequenceDef,
}

impl SequenceInfo {
    /// Whether it is a session's temporary sequence.
    pub fn is_temporary(&self) -> bool {
        self.persistence == b't'
    }

    /// Where its file is.
    pub fn place(&self) -> FilePlace {
        FilePlace { persistence: self.persistence, tablespace: self.locator.spc }
    }
}

/// Options as they were given. None: not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceOptions {
    /// AS
    pub type_oid: Option<Oid>,
    /// INCREMENT BY
    pub increment: Option<i64>,
    /// MINVALUE; Some(None) is NO MINVALUE.
    pub min: Option<Option<i64>>,
    /// MAXVALUE, likewise.
    pub max: Option<Option<i64>>,
    /// START WITH
    pub start: Option<i64>,
    /// RESTART; Some(None): with the start value.
    pub restart: Option<Option<i64>>,
    /// CACHE
    pub cache: Option<i64>,
    /// CYCLE, NO CYCLE
    pub cycle: Option<bool>,
}

/// The least and the greatest value of a sequence's type, and its name.
fn type_bounds(type_oid: Oid) -> Option<(i64, i64, &'static str)> {
    Some(match type_oid {
        oids::INT2 => (i16::MIN.into(), i16::MAX.into(), "smallint"),
        oids::INT4 => (i32::MIN.into(), i32::MAX.into(), "integer"),
        oids::INT8 => (i64::MIN, i64::MAX, "bigint"),
        _ => return None,
    })
}

fn refused(message: String) -> CatalogError {
    CatalogError::refused("22023", message)
}

impl SequenceOptions {
    /// Whether none is given.
    pub fn is_empty(&self) -> bool {
        *self == SequenceOptions::default()
    }

    /// A new sequence, and its first tuple. `identity`: it is an identity column's.
    pub fn create(&self, identity: bool) -> Result<(SequenceDef, SequenceTuple), CatalogError> {
        let rules = SequenceRules { increment: 1, min: 0, max: 0, cache: 1, cycle: false };
        let def = SequenceDef { type_oid: oids::INT8, start: 0, rules };
        let tuple = SequenceTuple { last_value: 0, log_count: 0, is_called: false };
        let fresh = SequenceOptions { restart: Some(self.restart.flatten()), ..self.clone() };
        fresh.apply(def, tuple, true, identity)
    }

    /// A sequence that was changed, and its tuple.
    pub fn alter(
        &self,
        def: SequenceDef,
        tuple: SequenceTuple,
    ) -> Result<(SequenceDef, SequenceTuple), CatalogError> {
        self.apply(def, tuple, false, false)
    }

    fn apply(
        &self,
        mut def: SequenceDef,
        mut tuple: SequenceTuple,
        new: bool,
        identity: bool,
    ) -> Result<(SequenceDef, SequenceTuple), CatalogError> {
        let bounds = self.change_type(&mut def, identity)?;
        if let Some(increment) = self.increment {
            if increment == 0 {
                return Err(refused("INCREMENT must not be zero".to_owned()));
            }
            def.rules.increment = increment;
        }
        def.rules.cycle = self.cycle.unwrap_or(def.rules.cycle);
        self.bound(&mut def.rules, bounds, new)?;
        let (rules, ascends) = (def.rules, def.rules.increment > 0);
        match self.start {
            Some(start) => def.start = start,
            None if new => def.start = if ascends { rules.min } else { rules.max },
            None => {}
        }
        within("START", def.start, &rules)?;
        if let Some(value) = self.restart {
            tuple.last_value = value.unwrap_or(def.start);
            tuple.is_called = false;
        }
        within("RESTART", tuple.last_value, &rules)?;
        if let Some(cache) = self.cache {
            if cache <= 0 {
                return Err(refused(format!("CACHE ({cache}) must be greater than zero")));
            }
            def.rules.cache = cache;
        }
        tuple.log_count = 0;
        Ok((def, tuple))
    }

    /// AS. Returns the bounds of the type, and which of the sequence's were the old type's.
    fn change_type(&self, def: &mut SequenceDef, identity: bool) -> Result<Bounds, CatalogError> {
        let Some(type_oid) = self.type_oid else {
            let (min, max, name) = type_bounds(def.type_oid).unwrap_or((i64::MIN, i64::MAX, ""));
            return Ok(Bounds { min, max, name, min_was_type_s: false, max_was_type_s: false });
        };
        let Some((min, max, name)) = type_bounds(type_oid) else {
            let what = if identity { "identity column" } else { "sequence" };
            return Err(refused(format!("{what} type must be smallint, integer, or bigint")));
        };
        let old = type_bounds(def.type_oid);
        def.type_oid = type_oid;
        Ok(Bounds {
            min,
            max,
            name,
            min_was_type_s: old.is_some_and(|(least, ..)| def.rules.min == least),
            max_was_type_s: old.is_some_and(|(_, most, _)| def.rules.max == most),
        })
    }

    /// MINVALUE and MAXVALUE.
    fn bound(
        &self,
        rules: &mut SequenceRules,
        bounds: Bounds,
        new: bool,
    ) -> Result<(), CatalogError> {
        let Bounds { min, max, name, min_was_type_s, max_was_type_s } = bounds;
        let ascends = rules.increment > 0;
        match self.max {
            Some(Some(given)) => rules.max = given,
            given if new || given.is_some() || max_was_type_s => {
                rules.max = if ascends || max_was_type_s { max } else { -1 };
            }
            _ => {}
        }
        match self.min {
            Some(Some(given)) => rules.min = given,
            given if new || given.is_some() || min_was_type_s => {
                rules.min = if ascends && !min_was_type_s { 1 } else { min };
            }
            _ => {}
        }
        for (what, value) in [("MAXVALUE", rules.max), ("MINVALUE", rules.min)] {
            if !(min..=max).contains(&value) {
                return Err(refused(format!(
                    "{what} ({value}) is out of range for sequence data type {name}"
                )));
            }
        }
        if rules.min >= rules.max {
            let SequenceRules { min, max, .. } = rules;
            return Err(refused(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
        }
        Ok(())
    }
}

/// The bounds of a sequence's type.
#[derive(Clone, Copy)]
struct Bounds {
    min: i64,
    max: i64,
    name: &'static str,
    /// Whether the sequence's were those of its former type.
    min_was_type_s: bool,
    max_was_type_s: bool,
}

fn within(what: &str, value: i64, rules: &SequenceRules) -> Result<(), CatalogError> {
    let SequenceRules { min, max, .. } = rules;
    if value < *min {
        return Err(refused(format!(
            "{what} value ({value}) cannot be less than MINVALUE ({min})"
        )));
    }
    if value > *max {
        let message = format!("{what} value ({value}) cannot be greater than MAXVALUE ({max})");
        return Err(refused(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(options: &SequenceOptions) -> (i64, i64, i64, i64) {
        let (SequenceDef { start, rules, .. }, tuple) = options.create(false).expect("fine");
        let SequenceTuple { last_value, log_count, is_called } = tuple;
        assert_eq!((log_count, is_called), (0, false));
        (rules.min, rules.max, start, last_value)
    }

    fn refusal(result: Result<(SequenceDef, SequenceTuple), CatalogError>) -> String {
        let error = result.expect_err("refused");
        assert_eq!(error.sqlstate(), "22023");
        error.to_string()
    }

    #[test]
    fn a_new_sequence_has_the_bounds_of_its_type() {
        let none = SequenceOptions::default();
        assert_eq!(created(&none), (1, i64::MAX, 1, 1));
        let small = SequenceOptions { type_oid: Some(oids::INT2), ..none.clone() };
        assert_eq!(created(&small), (1, 32767, 1, 1));
        let down = SequenceOptions { increment: Some(-1), ..small.clone() };
        assert_eq!(created(&down), (-32768, -1, -1, -1));
        let explicit = SequenceOptions { min: Some(None), max: Some(Some(9)), ..none.clone() };
        assert_eq!(created(&explicit), (1, 9, 1, 1));
        let restart = SequenceOptions { restart: Some(Some(5)), start: Some(3), ..none.clone() };
        assert_eq!(created(&restart), (1, i64::MAX, 3, 5));
        let text = SequenceOptions { type_oid: Some(oids::TEXT), ..none };
        assert_eq!(
            refusal(text.create(false)),
            "sequence type must be smallint, integer, or bigint"
        );
        assert_eq!(
            refusal(text.create(true)),
            "identity column type must be smallint, integer, or bigint"
        );
    }

    #[test]
    fn another_type_moves_bounds_that_were_the_old_type_s() {
        let none = SequenceOptions::default();
        let (def, tuple) = none.create(false).expect("fine");
        let small = SequenceOptions { type_oid: Some(oids::INT2), ..none.clone() };
        let (small, _) = small.alter(def, tuple).expect("fine");
        assert_eq!((small.rules.min, small.rules.max), (1, 32767));
        let bounded = SequenceOptions { max: Some(Some(100)), min: Some(Some(-32768)), ..none };
        let (bounded, tuple) = bounded.alter(small, tuple).expect("fine");
        let int = SequenceOptions { type_oid: Some(oids::INT4), ..SequenceOptions::default() };
        let (int, _) = int.alter(bounded, tuple).expect("fine");
        assert_eq!((int.rules.min, int.rules.max), (i32::MIN.into(), 100));
    }

    #[test]
    fn values_must_be_within_the_bounds() {
        let none = SequenceOptions::default();
        let with = |min, max, start| SequenceOptions {
            min: Some(Some(min)),
            max: Some(Some(max)),
            start: Some(start),
            ..none.clone()
        };
        for (options, message) in [
            (with(5, 5, 5), "MINVALUE (5) must be less than MAXVALUE (5)"),
            (with(1, 5, 0), "START value (0) cannot be less than MINVALUE (1)"),
            (with(1, 5, 6), "START value (6) cannot be greater than MAXVALUE (5)"),
            (
                SequenceOptions { restart: Some(Some(6)), ..with(1, 5, 1) },
                "RESTART value (6) cannot be greater than MAXVALUE (5)",
            ),
            (
                SequenceOptions { restart: Some(Some(0)), ..with(1, 5, 1) },
                "RESTART value (0) cannot be less than MINVALUE (1)",
            ),
            (
                SequenceOptions { type_oid: Some(oids::INT2), ..with(1, 40000, 1) },
                "MAXVALUE (40000) is out of range for sequence data type smallint",
            ),
            (
                SequenceOptions { type_oid: Some(oids::INT2), ..with(-40000, 4, 1) },
                "MINVALUE (-40000) is out of range for sequence data type smallint",
            ),
            (SequenceOptions { increment: Some(0), ..none.clone() }, "INCREMENT must not be zero"),
            (
                SequenceOptions { cache: Some(0), ..none.clone() },
                "CACHE (0) must be greater than zero",
            ),
        ] {
            assert_eq!(refusal(options.create(false)), message);
        }
    }
}
