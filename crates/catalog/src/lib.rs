#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod arrays;
pub mod at_rest;
mod autovacuum;
pub mod bootstrap;
mod cache;
mod cached_relations;
mod catalog_oids;
mod change_options;
mod checks;
mod class;
mod cluster_rows;
mod collation_ddl;
mod collations;
mod column_storage;
mod column_type;
mod columns_ddl;
mod comments;
mod constraint_ddl;
mod constraints;
mod database;
mod database_ddl;
mod databases;
pub mod ddl;
mod defaults;
mod definitions;
mod describe;
mod dropping;
mod entering;
mod error;
mod figures;
mod foreign_key_ddl;
mod going;
mod identifier;
mod index;
mod index_compiler;
mod index_constraint;
mod index_ddl;
mod index_def;
mod index_rows;
mod index_state;
mod index_trees;
mod index_twin;
mod inplace;
mod invalidate;
mod key_triggers;
mod keys;
mod known_tables;
mod layout;
mod like;
mod limits;
mod lookup;
mod maps;
mod membership;
mod names;
pub mod nodes;
mod object_rows;
mod objects;
mod oids;
mod oldest;
mod open_collations;
mod options;
mod owned;
mod owners;
mod privileges;
mod reader;
mod relation_ddl;
mod relation_files;
mod relations;
mod role_ddl;
mod row;
mod row_changes;
mod row_source;
mod rows;
pub mod schema;
mod schema_ddl;
mod sequence_def;
mod sequences;
mod shared_objects;
mod statistic_rows;
mod statistics;
mod stored_expr;
pub mod syscache;
mod table;
mod tablespace_ddl;
mod toast_ddl;
mod truncate;
mod tsv;
mod writer;

pub use autovacuum::MaintainedTable;
pub use cache::{CatalogCache, Change};
pub use change_options::{ChangedParameters, change_index_parameters, change_table_parameters};
pub use checks::{add_check, validate_constraint};
pub use class::Class;
pub use cluster_rows::{DatabaseRow, Named, RoleRow};
pub use collation_ddl::{
    CollationChange, Created, NewCollation, alter_collation, create_collation, drop_collations,
};
pub use collations::{OpenCollation, VersionMismatch};
pub use column_storage::{ColumnStorage, change_column_storage, compression_code, storage_code};
pub use column_type::{
    NewType, checks_to_follow, drop_expression, follow_types, replace_default, set_check_condition,
    set_column_type, set_identity,
};
pub use columns_ddl::{add_column, add_not_null_constraint, drop_column, rename_column};
pub use comments::{Commented, catalog_named, comment};
pub use constraint_ddl::{NotNull, add_named_not_null, rename_constraint, rename_index};
pub use constraints::Constraint;
pub use database::{Database, Shared};
pub use database_ddl::{
    DatabaseChange, RelationFile, change_database, database_row_lock, delete_database,
    insert_database,
};
pub use databases::Databases;
pub use defaults::set_default;
pub use definitions::{ConstraintDefinition, IndexDefinition};
pub use dropping::{
    Dropped, check_index_free, drop_constraint, drop_index, drop_sequence, drop_tables,
    drop_temporary,
};
pub use entering::check_locale;
pub use error::{CatalogError, ObjectName, Refusal};
pub use figures::Figures;
pub use foreign_key_ddl::{ForeignKeyDef, add_foreign_key};
pub use going::{Going, relations_to_lock};
pub use identifier::quoted;
pub use index::{KnownTrees, TableIndex};
pub use index_compiler::IndexCompiler;
pub use index_constraint::{constrain_index, find_constraint_index};
pub use index_ddl::{BuiltFigures, check_index, create_index, index_name, store_built};
pub use index_def::{ConstraintKind, IndexDef, IndexExpression, IndexKey};
pub use index_state::{IndexStep, step_index};
pub use index_trees::IndexTrees;
pub use index_twin::{copy_index, swap_indexes, twin_name};
pub use inplace::{Advanced, ClassFigures, NextIds, RelationFigures};
pub use keys::{ForeignKey, KeyAction, KeyTrigger, KeyWork};
pub use known_tables::KnownTables;
pub use like::{CommentedPart, copy_comments, has_extended_statistics, index_definitions};
pub use limits::{not_a_table, wrong_kind};
pub use maps::{MAP_FILE, RelationMaps};
pub use membership::{MemberOptions, Membership, grant_role, revoke_role};
pub use oids::{OidCounter, RESERVED_OIDS};
pub use oldest::DatabaseIds;
pub use options::{
    AutovacuumOptions, StorageParameter, VacuumParameters, index_parameters, of_table,
    storage_texts,
};
pub use owned::{Owned, change_owner, drop_owned, owned_by};
pub use owners::Owners;
pub use reader::Reader;
pub use relation_ddl::{
    ReplicaIdentity, check_alone, followers, mark_clustered, set_relation_owner,
    set_relation_schema, set_replica_identity,
};
pub use relation_files::RelationFiles;
pub use relations::{temp_namespace, temp_toast_namespace};
pub use role_ddl::{
    RoleChange, SettingChange, alter_role, change_settings, create_role, drop_roles, rename_role,
    role_named,
};
pub use row_source::{RowSource, ValuesSink};
pub use rows::OldestIds;
pub use schema_ddl::{alter_schema, create_schema, drop_schemas};
pub use sequence_def::{SequenceDef, SequenceInfo, SequenceOptions};
pub use sequences::{
    NewSequence, SequenceOwner, alter_sequence, create_sequence, rename_relation, replace_sequence,
    sequence_name, set_sequence_owner,
};
pub use statistic_rows::{
    ColumnTarget, StatisticArray, StatisticRow, StatisticSlot, store_statistics,
};
pub use statistics::{ColumnStatistics, TableStatistics};
pub use stored_expr::{Check, CheckDef, StoredExpr, tree_in_memory};
pub use table::{Column, ColumnDef, FilePlace, Table};
pub use tablespace_ddl::{alter_tablespace, create_tablespace, drop_tablespace};
pub use toast_ddl::{create_toast_table, needs_toast_table};
pub use truncate::{
    complete_rows, create_new_file, empty_index, move_table, replace_file, truncate_table,
};
