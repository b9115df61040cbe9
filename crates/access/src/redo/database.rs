//! Redo of databases made and removed, of their relation maps, and of tablespaces.

use std::path::Path;

use forebay_format::wal::database::{self, DatabaseDrop, DatabasePlace, FileCopy};
use forebay_format::wal::relation_map::{self, MapUpdate};
use forebay_format::wal::rmgr::INFO_RMGR_MASK;
use forebay_format::wal::tablespace::{self, TablespaceCreate};
use forebay_format::wal::{PayloadError, Rmgr};
use forebay_storage::{StorageError, WriteScope};
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};

/// Redoes the directories of databases.
pub(super) struct DatabaseRedo;

/// Redoes relation maps.
pub(super) struct RelationMapRedo;

/// Redoes the links of tablespaces.
pub(super) struct TablespaceRedo;

fn damaged(record: &RedoRecord<'_>) -> impl Fn(PayloadError) -> RedoError {
    move |error| record.damaged(error.to_string())
}

fn storage(record: &RedoRecord<'_>) -> impl Fn(StorageError) -> RedoError {
    let lsn = record.start;
    move |source| RedoError::Storage { lsn, source }
}

impl ResourceManager for DatabaseRedo {
    fn id(&self) -> Rmgr {
        Rmgr::DBASE
    }

    fn knows(&self, info: u8) -> bool {
        let kind = info & INFO_RMGR_MASK;
        matches!(kind, database::CREATE_FILE_COPY | database::CREATE_WAL_LOG | database::DROP)
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        let main = record.record.main;
        match record.kind() {
            database::CREATE_FILE_COPY => {
                let copy = FileCopy::decode(main).map_err(damaged(record))?;
                ctx.made.databases.insert(copy.to.db);
                self.copy(record, ctx, copy)
            }
            database::CREATE_WAL_LOG => {
                let place = database::decode_wal_log(main).map_err(damaged(record))?;
                ctx.made.databases.insert(place.db);
                let (pool, io) = (ctx.pool, &mut ctx.backend.io);
                pool.smgr().make_database(io, place, true).map_err(storage(record))
            }
            database::DROP => {
                let DatabaseDrop { db, tablespaces } =
                    DatabaseDrop::decode(main).map_err(damaged(record))?;
                ctx.before_files_go(record)?;
                ctx.forget_database(db);
                ctx.pool.drop_database(ctx.backend, db);
                for spc in tablespaces {
                    let place = DatabasePlace { db, spc };
                    ctx.pool.smgr().remove_database(place).map_err(storage(record))?;
                }
                Ok(())
            }
            _ => Err(record.unsupported()),
        }
    }
}

impl DatabaseRedo {
    /// Copies a database again: what is there may be a part of it. The source is as it was when it
    /// was copied, or newer, since a checkpoint followed. Or it was dropped before the end of the
    /// backup that is recovered; then a later record drops the copy, or has its pages.
    fn copy(
        &self,
        record: &RedoRecord<'_>,
        ctx: &mut RedoContext<'_>,
        FileCopy { to, from }: FileCopy,
    ) -> Result<(), RedoError> {
        ctx.before_files_go(record)?;
        let written = ctx.pool.write_dirty(ctx.backend, WriteScope::Database(from.db));
        written.map_err(storage(record))?;
        ctx.pool.drop_database(ctx.backend, to.db);
        let (smgr, io) = (ctx.pool.smgr(), &mut ctx.backend.io);
        smgr.redo_copy(io, from, to).map_err(storage(record))
    }
}

impl ResourceManager for RelationMapRedo {
    fn id(&self) -> Rmgr {
        Rmgr::RELMAP
    }

    fn knows(&self, info: u8) -> bool {
        info & INFO_RMGR_MASK == relation_map::UPDATE
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        if record.kind() != relation_map::UPDATE {
            return Err(record.unsupported());
        }
        let MapUpdate { of, map } =
            MapUpdate::decode(record.record.main).map_err(damaged(record))?;
        let (pool, io) = (ctx.pool, &mut ctx.backend.io);
        pool.smgr().write_map(io, of, &map).map_err(storage(record))
    }
}

impl ResourceManager for TablespaceRedo {
    fn id(&self) -> Rmgr {
        Rmgr::TBLSPC
    }

    fn knows(&self, info: u8) -> bool {
        matches!(info & INFO_RMGR_MASK, tablespace::CREATE | tablespace::DROP)
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        let main = record.record.main;
        match record.kind() {
            tablespace::CREATE => {
                let TablespaceCreate { oid, location } =
                    TablespaceCreate::decode(main).map_err(damaged(record))?;
                ctx.made.tablespaces.insert(oid);
                let made = ctx.pool.smgr().make_tablespace(oid, Path::new(&location), true);
                made.map_err(storage(record))
            }
            tablespace::DROP => {
                let oid = tablespace::decode_drop(main).map_err(damaged(record))?;
                ctx.before_files_go(record)?;
                ctx.pool.smgr().close_files();
                ctx.pool.smgr().redo_remove_tablespace(oid).map_err(storage(record))
            }
            _ => Err(record.unsupported()),
        }
    }
}
