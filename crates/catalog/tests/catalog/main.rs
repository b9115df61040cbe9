//! The catalogs' texts against PostgreSQL's.

mod nodes;
