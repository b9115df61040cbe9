//! Tests of long values: plans as PostgreSQL 18 makes them, values in a TOAST table.

mod plans;
mod values;
