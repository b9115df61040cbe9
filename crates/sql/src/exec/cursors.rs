//! The row that WHERE CURRENT OF means.

use super::host::Host;
use crate::error::{Result, SqlError, state};
use forebay_engine::{ItemPointer, Table};

impl Host {
    /// The place of the row of a table on which a cursor is: WHERE CURRENT OF.
    pub fn current_row(&self, cursor: &str, table: &Table) -> Result<ItemPointer> {
        let refuse = |what: String| {
            SqlError::new(state::INVALID_CURSOR_STATE, format!("cursor \"{cursor}\" {what}"))
        };
        let found = self.cursors.iter().find(|c| c.name == cursor).ok_or_else(|| {
            let message = format!("cursor \"{cursor}\" does not exist");
            SqlError::new(state::INVALID_CURSOR_NAME, message)
        })?;
        if !found.is_query {
            return Err(refuse("is not a SELECT query".to_owned()));
        }
        if found.held {
            return Err(refuse("is held from a previous transaction".to_owned()));
        }
        if found.table != Some(table.oid) {
            let what = match found.locks {
                true => "does not have a FOR UPDATE/SHARE reference to",
                false => "is not a simply updatable scan of",
            };
            return Err(refuse(format!("{what} table \"{}\"", table.name)));
        }
        found.ctid.ok_or_else(|| refuse("is not positioned on a row".to_owned()))
    }
}
