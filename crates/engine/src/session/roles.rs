//! The roles as which a session's statements run.

use std::sync::Arc;

use forebay_types::Oid;

use crate::core::InDatabase;

/// The role as which statements run.
#[derive(Clone, Debug)]
pub(super) struct Acting {
    pub(super) role: Oid,
    pub(super) name: Arc<str>,
    pub(super) superuser: bool,
    pub(super) session_user: Arc<str>,
    /// Whether it is the role that has logged in, by no setting.
    pub(super) own: bool,
}

impl Acting {
    /// The role that has logged in, a superuser.
    pub(super) fn logged_in(core: &InDatabase) -> Acting {
        let name: Arc<str> = core.role_name.as_str().into();
        Acting {
            role: core.role,
            session_user: Arc::clone(&name),
            name,
            superuser: true,
            own: true,
        }
    }
}
