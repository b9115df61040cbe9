//! Sequences are created, changed and dropped.

use std::sync::Arc;

use forebay_catalog::ddl;
use forebay_catalog::{
    self as catalog, FilePlace, Going, NewSequence, Reader, SequenceInfo, SequenceOptions,
    SequenceOwner, Table,
};
use forebay_format::RelFileLocator;
use forebay_format::sequence::SequenceTuple;
use forebay_txn::locks::{LockMode, LockTag};
use forebay_types::Oid;

use super::state::Session;
use super::temp_tables::OnCommit;
use crate::core::InDatabase;
use crate::error::EngineError;

/// Who can use a new sequence, and what a crash leaves of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SequencePersistence {
    /// All sessions; it goes on after a crash.
    #[default]
    Permanent,
    /// All sessions; it begins again after a crash.
    Unlogged,
    /// The session that creates it.
    Temporary,
}

impl Session {
    /// Creates a sequence (schema None: public). 42P07 if the name is taken.
    pub fn create_sequence(
        &mut self,
        schema: Option<&str>,
        name: &str,
        options: &SequenceOptions,
        persistence: SequencePersistence,
    ) -> Result<Oid, EngineError> {
        let (def, tuple) = options.create(false)?;
        self.call(|session, core| {
            let namespace = session.namespace_for(core, schema, persistence)?;
            session.make_sequence(core, NewSequence { namespace, name, def, tuple }, persistence)
        })
    }

    /// Creates a sequence for a column of a table that is about to be created, and chooses its
    /// name.
    pub fn create_column_sequence(
        &mut self,
        schema: Option<&str>,
        (table, column): (&str, &str),
        options: &SequenceOptions,
        (identity, persistence): (bool, SequencePersistence),
    ) -> Result<Oid, EngineError> {
        let (def, tuple) = options.create(identity)?;
        self.call(|session, core| {
            let namespace = session.namespace_for(core, schema, persistence)?;
            let of = (table, column);
            let name = session.lock_chosen_name(core, namespace, |backend, tx| {
                catalog::sequence_name(&core.database, backend, tx, namespace, of)
            })?;
            let new = NewSequence { namespace, name: &name, def, tuple };
            session.make_sequence(core, new, persistence)
        })
    }

    /// Makes a new sequence belong to a new column of a table.
    pub fn attach_sequence(
        &mut self,
        sequence: Oid,
        (table, column): (Oid, i16),
        identity: bool,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            let owner = Some(SequenceOwner { table, column, identity });
            let (tx, backend) = session.changing()?;
            Ok(catalog::set_sequence_owner(&core.database, backend, tx, sequence, owner)?)
        })
    }

    /// The namespace of a new sequence.
    fn namespace_for(
        &mut self,
        core: &InDatabase,
        schema: Option<&str>,
        persistence: SequencePersistence,
    ) -> Result<Oid, EngineError> {
        match (persistence, schema) {
            (SequencePersistence::Temporary, _) => {
                let own = self.temp.namespace();
                self.own_namespace(core, &own)
            }
            (_, schema) => self.namespace_for_new(core, schema),
        }
    }

    fn make_sequence(
        &mut self,
        core: &InDatabase,
        new: NewSequence<'_>,
        persistence: SequencePersistence,
    ) -> Result<Oid, EngineError> {
        let NewSequence { namespace, name, .. } = new;
        ddl::check_definition((namespace, name), &[], core.database.encoding)?;
        self.lock_free_name(core, namespace, name)?;
        // As in PostgreSQL, default_tablespace is not for sequences.
        let place = FilePlace { persistence: persistence.code(), tablespace: 0 };
        let locator = self.with_files(core, place, |session, files| {
            let (tx, backend) = session.changing()?;
            Ok(catalog::create_sequence(&core.database, backend, tx, new, files)?)
        })?;
        if persistence == SequencePersistence::Temporary {
            self.note_temp_made((None, name), locator, OnCommit::PreserveRows);
        }
        let tag = LockTag::Relation { database: core.database.oid, relation: locator.rel };
        self.lock(core, tag, LockMode::AccessExclusive)?;
        Ok(locator.rel)
    }

    /// Locks a name that no relation of a namespace has. 42P07 if one has it.
    pub(super) fn lock_free_name(
        &mut self,
        core: &InDatabase,
        namespace: Oid,
        name: &str,
    ) -> Result<(), EngineError> {
        self.lock(
            core,
            ddl::name_lock(core.database.oid, namespace, name),
            LockMode::AccessExclusive,
        )?;
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        if reader.class_named(namespace, name)?.is_some() {
            let message = format!("relation \"{name}\" already exists");
            return Err(EngineError::statement("42P07", message));
        }
        Ok(())
    }

    /// Locks a sequence in a mode, and finds it again: it may have been changed meanwhile.
    pub(super) fn lock_sequence(
        &mut self,
        core: &InDatabase,
        oid: Oid,
        mode: LockMode,
    ) -> Result<Arc<SequenceInfo>, EngineError> {
        self.lock(core, LockTag::Relation { database: core.database.oid, relation: oid }, mode)?;
        self.running()?.forget_tables();
        let info = self.find_sequence(core, oid)?;
        // Refuses another session's temporary sequence.
        self.sequence(core, &info)?;
        Ok(info)
    }

    /// Changes a sequence. It gets a new file, so that a rollback takes the change back, and values
    /// that sessions have taken count no more.
    pub fn alter_sequence(
        &mut self,
        oid: Oid,
        options: &SequenceOptions,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            let info = session.lock_sequence(core, oid, LockMode::ShareRowExclusive)?;
            let (now, _) = session.sequence(core, &info)?.read(&mut session.backend)?;
            let new = session.with_files(core, info.place(), |session, files| {
                let (tx, backend) = session.changing()?;
                let (database, of) = (&core.database, (&*info, now));
                Ok(catalog::alter_sequence(database, backend, tx, of, options, files)?)
            })?;
            session.sequence_replaced(&info, new);
            Ok(())
        })
    }

    /// Lets a sequence begin again, as TRUNCATE ... RESTART IDENTITY does.
    pub fn restart_sequence(&mut self, oid: Oid) -> Result<(), EngineError> {
        self.call(|session, core| {
            let info = session.lock_sequence(core, oid, LockMode::AccessExclusive)?;
            let start = info.def.start;
            let tuple = SequenceTuple { last_value: start, log_count: 0, is_called: false };
            session.replace_sequence(core, &info, tuple, info.persistence)
        })
    }

    /// SET LOGGED, SET UNLOGGED. 0A000 for a temporary sequence.
    pub fn set_sequence_logged(&mut self, oid: Oid, logged: bool) -> Result<(), EngineError> {
        self.call(|session, core| {
            let info = session.lock_sequence(core, oid, LockMode::AccessExclusive)?;
            let wanted = if logged { b'p' } else { b'u' };
            if info.is_temporary() {
                let message = format!(
                    "cannot change logged status of table \"{}\" because it is temporary",
                    info.name
                );
                return Err(EngineError::statement("42P16", message));
            }
            if info.persistence == wanted {
                return Ok(());
            }
            let (now, _) = session.sequence(core, &info)?.read(&mut session.backend)?;
            session.replace_sequence(core, &info, SequenceTuple { log_count: 0, ..now }, wanted)
        })
    }

    fn replace_sequence(
        &mut self,
        core: &InDatabase,
        info: &SequenceInfo,
        tuple: SequenceTuple,
        persistence: u8,
    ) -> Result<(), EngineError> {
        let place = FilePlace { persistence, ..info.place() };
        let new = self.with_files(core, place, |session, files| {
            let (tx, backend) = session.changing()?;
            let (database, of) = (&core.database, (info, tuple));
            Ok(catalog::replace_sequence(database, backend, tx, of, files)?)
        })?;
        self.sequence_replaced(info, new);
        Ok(())
    }

    fn sequence_replaced(&mut self, info: &SequenceInfo, new: RelFileLocator) {
        self.note_temp_emptied(info.oid, new);
        self.sequences.give_up(info.oid);
    }

    /// Makes a sequence belong to a column of a table, by its number, or to none. The table must be
    /// locked.
    pub fn set_sequence_owner(
        &mut self,
        oid: Oid,
        owner: Option<(&Table, i16)>,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            let info = session.lock_sequence(core, oid, LockMode::ShareRowExclusive)?;
            let refuse = |message: &str| Err(EngineError::statement("55000", message));
            if let Some((table, _)) = owner
                && table.namespace != info.namespace
            {
                return refuse("sequence must be in same schema as table it is linked to");
            }
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            let before = reader.sequence_owner(oid)?;
            if let Some(before) = before.filter(|before| before.identity) {
                let table = reader.class(before.table)?.map(|class| class.name).unwrap_or_default();
                let message = "cannot change ownership of identity sequence";
                let detail = format!("Sequence \"{}\" is linked to table \"{table}\".", info.name);
                return Err(EngineError::statement("0A000", message).with_detail(detail));
            }
            let owner = owner.map(|(table, column)| SequenceOwner {
                table: table.oid,
                column,
                identity: false,
            });
            let (tx, backend) = session.changing()?;
            Ok(catalog::set_sequence_owner(&core.database, backend, tx, oid, owner)?)
        })
    }

    /// The sequences that belong to columns of a table, with the columns' numbers.
    pub fn owned_sequences(&mut self, table: Oid) -> Result<Vec<(Oid, i16)>, EngineError> {
        self.call(|session, core| session.sequences_of(core, table))
    }

    pub(super) fn sequences_of(
        &mut self,
        core: &InDatabase,
        table: Oid,
    ) -> Result<Vec<(Oid, i16)>, EngineError> {
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        let owned = reader.owned_sequences(table)?;
        Ok(owned.into_iter().map(|(oid, owner)| (oid, owner.column)).collect())
    }

    /// Renames a sequence. 42P07 if the name is taken.
    pub fn rename_sequence(&mut self, oid: Oid, name: &str) -> Result<(), EngineError> {
        self.call(|session, core| {
            let info = session.lock_sequence(core, oid, LockMode::AccessExclusive)?;
            session.lock_free_name(core, info.namespace, name)?;
            let (tx, backend) = session.changing()?;
            catalog::rename_relation(&core.database, backend, tx, (oid, name))?;
            session.note_temp_renamed(oid, name);
            Ok(())
        })
    }

    /// Drops a sequence; with `cascade` the defaults that use it. Its file is removed when the
    /// transaction has committed. Returns what went along, in words.
    pub fn drop_sequence(&mut self, oid: Oid, cascade: bool) -> Result<Vec<String>, EngineError> {
        self.call(|session, core| {
            let info = session.lock_sequence(core, oid, LockMode::AccessExclusive)?;
            if cascade {
                session.lock_what_goes(core, Going::Relation(oid))?;
            }
            let (tx, backend) = session.changing()?;
            let of = (oid, info.name.as_str());
            let dropped = catalog::drop_sequence(&core.database, backend, tx, of, cascade)?;
            session.note_temp_dropped(oid);
            Ok(dropped.0)
        })
    }
}

impl SequencePersistence {
    /// That of a sequence which belongs to a table.
    pub fn of_table(place: FilePlace) -> SequencePersistence {
        match place.persistence {
            b't' => SequencePersistence::Temporary,
            b'u' => SequencePersistence::Unlogged,
            _ => SequencePersistence::Permanent,
        }
    }

    /// pg_class.relpersistence
    fn code(self) -> u8 {
        match self {
            SequencePersistence::Permanent => b'p',
            SequencePersistence::Unlogged => b'u',
            SequencePersistence::Temporary => b't',
        }
    }
}
