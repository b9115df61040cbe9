//! The recovery settings of a restored cluster, in `postgresql.auto.conf`.

use std::fmt::Write as _;

use forebay_aio::named_enum;
use forebay_format::Lsn;

/// How far a recovery goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// To the end of the WAL.
    #[default]
    Latest,
    /// Until the backup is consistent.
    Immediate,
    /// To a time, in PostgreSQL's format.
    Time(String),
    /// To a position of the log.
    Lsn(Lsn),
    /// To a restore point.
    Name(String),
    /// To a transaction.
    Xid(u64),
}

named_enum! {
    /// What happens when the target is reached.
    #[derive(Default)]
    TargetAction {
        /// The server waits for an administrator. Without hot standby this is `Shutdown`, as in
        /// PostgreSQL.
        #[default]
        Pause = "pause",
        /// The server continues on a new timeline.
        Promote = "promote",
        /// The server shuts down. The next start continues recovery.
        Shutdown = "shutdown",
    }
}

/// How a restored cluster recovers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryTarget {
    /// The restore_command, which fetches WAL.
    pub restore_command: String,
    /// How far it recovers.
    pub target: Target,
    /// Whether the target itself is included; None: PostgreSQL's default, which is yes.
    pub inclusive: Option<bool>,
    /// A number, "current" or "latest"; None: PostgreSQL's default, which is "latest".
    pub timeline: Option<String>,
    /// What happens at the target; None: PostgreSQL's default, which is to pause.
    pub action: Option<TargetAction>,
}

/// Recovery settings, which may be left from an earlier recovery.
const OF_RECOVERY: [&str; 9] = [
    "restore_command",
    "recovery_target",
    "recovery_target_time",
    "recovery_target_lsn",
    "recovery_target_name",
    "recovery_target_xid",
    "recovery_target_inclusive",
    "recovery_target_timeline",
    "recovery_target_action",
];

impl RecoveryTarget {
    fn settings(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![("restore_command", self.restore_command.clone())];
        match &self.target {
            Target::Latest => {}
            Target::Immediate => all.push(("recovery_target", "immediate".to_owned())),
            Target::Time(time) => all.push(("recovery_target_time", time.clone())),
            Target::Lsn(lsn) => all.push(("recovery_target_lsn", lsn.to_string())),
            Target::Name(name) => all.push(("recovery_target_name", name.clone())),
            Target::Xid(xid) => all.push(("recovery_target_xid", xid.to_string())),
        }
        if let Some(inclusive) = self.inclusive {
            all.push((
                "recovery_target_inclusive",
                if inclusive { "on" } else { "off" }.to_owned(),
            ));
        }
        all.extend(self.timeline.clone().map(|timeline| ("recovery_target_timeline", timeline)));
        all.extend(self.action.map(|action| ("recovery_target_action", action.name().to_owned())));
        all
    }

    /// Adds these settings to the text of a file, and removes those of an earlier recovery.
    pub(super) fn amend(&self, file: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(file.len() + 256);
        for line in file.split_inclusive(|byte| *byte == b'\n').filter(|line| !is_of_recovery(line))
        {
            out.extend_from_slice(line);
        }
        if out.last().is_some_and(|byte| *byte != b'\n') {
            out.push(b'\n');
        }
        let mut added = String::from("# Added by forebay restore\n");
        for (name, value) in self.settings() {
            // Writing to a String does not fail.
            let _ = writeln!(added, "{name} = '{}'", quoted(&value));
        }
        out.extend_from_slice(added.as_bytes());
        out
    }
}

fn is_of_recovery(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    let line = line.trim_start();
    let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(line.len());
    let name = line.get(..end).unwrap_or_default().to_ascii_lowercase();
    OF_RECOVERY.contains(&name.as_str())
}

/// Escapes a value for a configuration file, without the quotes around it.
fn quoted(value: &str) -> String {
    value.replace('\\', "\\\\").replace('\'', "''").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_an_earlier_recovery_are_removed() {
        let old = b"# keep\nwork_mem = '4MB'\nrecovery_target_time = 'x'\n Restore_Command='y'\n\
            recovery_target_times = 1";
        let recovery = RecoveryTarget {
            restore_command: "forebay archive-get '/a b' %f \\ %p".to_owned(),
            target: Target::Lsn(Lsn(0x300_0000)),
            inclusive: Some(false),
            timeline: Some("2".to_owned()),
            action: Some(TargetAction::Promote),
        };
        let expected = "# keep\nwork_mem = '4MB'\nrecovery_target_times = 1\n\
            # Added by forebay restore\n\
            restore_command = 'forebay archive-get ''/a b'' %f \\\\ %p'\n\
            recovery_target_lsn = '0/3000000'\nrecovery_target_inclusive = 'off'\n\
            recovery_target_timeline = '2'\nrecovery_target_action = 'promote'\n";
        assert_eq!(String::from_utf8_lossy(&recovery.amend(old)), expected);
        let again = recovery.amend(expected.as_bytes());
        let commands = String::from_utf8_lossy(&again).matches("restore_command").count();
        assert_eq!(commands, 1);
    }

    #[test]
    fn targets_are_written_as_postgresql_settings() {
        let of = |target| {
            let recovery = RecoveryTarget {
                restore_command: "true".to_owned(),
                target,
                inclusive: None,
                timeline: None,
                action: None,
            };
            recovery.settings().get(1).map(|(name, value)| format!("{name}={value}"))
        };
        assert_eq!(of(Target::Latest), None);
        assert_eq!(of(Target::Immediate).as_deref(), Some("recovery_target=immediate"));
        assert_eq!(
            of(Target::Name("before".to_owned())).as_deref(),
            Some("recovery_target_name=before")
        );
        assert_eq!(of(Target::Xid(7)).as_deref(), Some("recovery_target_xid=7"));
        assert_eq!(
            of(Target::Time("2026-11-21".to_owned())).as_deref(),
            Some("recovery_target_time=2026-11-21")
        );
        assert_eq!(TargetAction::by_name("shutdown"), Some(TargetAction::Shutdown));
        assert_eq!(TargetAction::by_name("explode"), None);
    }
}
