//! Rows of the catalogs that statements are analyzed by.

use forebay_catalog::Reader;
use forebay_catalog::syscache::Lookup;
use forebay_types::Encoding;

use super::state::Session;
use crate::error::EngineError;

impl Session {
    /// Looks up rows of a catalog, as the transaction sees them now.
    pub fn look_up<K: Lookup>(&mut self, key: K) -> Result<K::Row, EngineError> {
        let rows = &self.core.database.rows;
        let (version, encoding) = (rows.version(), self.core.database.encoding);
        let own = self.open.as_ref().is_some_and(|open| {
            open.changed_catalogs && is_changed(&key, encoding, open.tx.invalidations())
        });
        if !own {
            if let Some(known) = self.known_rows.get(version, &key) {
                return Ok(known);
            }
            if let Some(shared) = rows.get(&key) {
                // It may have been added at a later version, or be out of date since this one.
                if rows.version() == version {
                    self.known_rows.put(version, key, shared.clone());
                }
                return Ok(shared);
            }
        }
        self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            let found = key.read(&mut reader)?;
            if !own {
                core.database.rows.put(version, key, found.clone());
            }
            Ok(found)
        })
    }
}

/// Whether the transaction has changed what is found by a key.
fn is_changed<K: Lookup>(
    key: &K,
    encoding: Encoding,
    messages: &[forebay_format::wal::invalidation::Invalidation],
) -> bool {
    let hash = key.hash(encoding);
    messages.iter().any(|message| K::is_hit(message, hash))
}
