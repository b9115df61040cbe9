//! What all sessions know of tables and sequences is what the catalogs say, after each statement
//! of the golden files, whatever it changes

use crate::fixture::open;
use crate::support;
use forebay_engine::{SequenceInfo, Session, Table};
use forebay_sql::TransactionStatus;
use std::collections::BTreeSet;
use std::path::Path;

/// What a table is, but for the statistics, which are read when they are first needed.
fn shown(table: &Table) -> String {
    let mut table = table.clone();
    table.statistics.take();
    format!("{table:?}")
}

/// Whether a query string surely leaves the catalogs as they are.
fn changes_rows_only(query: &str) -> bool {
    let first = query.split_whitespace().next().unwrap_or_default();
    let such = ["select", "insert", "update", "delete", "values", "fetch", "explain", "show"];
    such.contains(&&*first.to_lowercase()) && !query.contains(';')
}

/// A session that knows all tables and sequences by the shared cache, and compares them with the
/// catalogs.
struct Observer {
    session: Session,
    /// Schemas and names of all tables that there ever were.
    names: BTreeSet<(String, String)>,
    compared: usize,
}

impl Observer {
    fn compare(&mut self, after: &str) {
        self.session.begin().expect("begin");
        let fresh = self.session.tables_named(|name| !name.starts_with("pg_")).expect("tables");
        for table in &fresh {
            self.compared += 1;
            let known = self.session.table_by_oid(table.oid).expect("known").expect("a table");
            assert_eq!(shown(&known), shown(table), "after {after}");
            if let Some(oid) = table.toasting.relation {
                let known = self.session.table_by_oid(oid).expect("known").expect("a table");
                assert_eq!(known.owner, table.owner, "TOAST table after {after}");
            }
        }
        self.names.extend(fresh.iter().map(|table| (table.schema.clone(), table.name.clone())));
        for (schema, name) in &self.names {
            let named = fresh.iter().find(|table| (&table.schema, &table.name) == (schema, name));
            // Another kind of relation may have the name now.
            let known = self.session.table(Some(schema), name).ok().flatten();
            let known = known.filter(|table| table.kind != b'S');
            let oids = (known.map(|table| table.oid), named.map(|table| table.oid));
            assert_eq!(oids.0, oids.1, "{schema}.{name} after {after}");
        }
        let sequences: Vec<SequenceInfo> = self.session.all_sequences().expect("sequences");
        for sequence in sequences {
            let known = self.session.sequence_info(sequence.oid).expect("known");
            assert_eq!(format!("{known:?}"), format!("{sequence:?}"), "after {after}");
        }
        self.session.commit().expect("commit");
    }
}

#[test]
fn the_shared_cache_follows_every_change_of_the_catalogs() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = std::fs::read_dir(golden).expect("the golden files");
    let mut compared = 0;
    for file in files {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("a golden file");
        let mut fixture = open("");
        let session = fixture.engine.session().expect("session");
        let mut observer = Observer { session, names: BTreeSet::new(), compared: 0 };
        if let Some(set_up) = text.lines().find_map(|line| line.strip_prefix("S ")) {
            support::run(&mut fixture.conn, set_up);
        }
        for case in support::cases(&text) {
            let query = case.query.replace("\\n", "\n");
            support::run_with_data(&mut fixture.conn, &query, &case.data);
            // An open transaction has locks for which the observer would wait.
            let idle = fixture.conn.transaction_status() == TransactionStatus::Idle;
            if idle && !changes_rows_only(&query) {
                observer.compare(&query);
            }
        }
        compared += observer.compared;
        drop(observer);
        fixture.close();
    }
    assert!(compared > 2000, "{compared} tables were compared");
}
