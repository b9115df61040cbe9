//! Values compared with PostgreSQL 18's: their text and binary forms, errors, order and functions.
//!
//! Each case is an expression of SQL. PostgreSQL's answers lie in `tests/golden`. Where
//! `FOREBAY_PG18_RUN` names a PostgreSQL 18, its answers are compared with those as well;
//! `FOREBAY_RECORD=1` writes them anew.

mod documents;
mod formats;
mod forms;
mod functions;
mod moments;
mod numbers;
mod oracle;
