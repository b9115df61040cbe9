#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod at_rest;
pub mod bootstrap;
mod cache;
mod check;
mod database;
pub mod ddl;
mod error;
mod inplace;
mod invalidate;
mod layout;
mod limits;
mod maps;
mod oids;
mod oldest;
mod options;
mod reader;
mod rows;
pub mod schema;
mod table;
mod truncate;

pub use cache::{CatalogCache, Change, KnownTables};
pub use check::check;
pub use database::Database;
pub use error::{CatalogError, Refusal};
pub use inplace::{Advanced, ClassFigures, NextIds};
pub use limits::not_a_table;
pub use maps::{MAP_FILE, RelationMaps};
pub use oids::OidCounter;
pub use oldest::DatabaseIds;
pub use reader::{Class, Reader, temp_namespace};
pub use rows::OldestIds;
pub use table::{Column, ColumnDef, Table};
pub use truncate::truncate_table;
