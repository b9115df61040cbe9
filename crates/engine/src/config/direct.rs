//! io_direct: which files bypass the kernel's page cache, or that the engine finds it out.

use std::fmt;

use forebay_aio::{BadIoDirect, IoDirect};

/// What io_direct says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoDirectSetting {
    /// Each kind of file where its directory's file system has direct I/O. The log says which, and
    /// why not all. [`Engine::io_direct`](crate::Engine::io_direct) has what was found. Files of
    /// tablespaces on file systems without direct I/O are buffered.
    Auto,
    /// These. The engine does not open where a file system has no direct I/O.
    Only(IoDirect),
}

impl IoDirectSetting {
    const AUTO: &str = "auto";

    /// Parses `auto`, or a list as [`IoDirect::parse`] does.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(text: &str) -> Result<IoDirectSetting, BadIoDirect> {
        if text.trim_ascii().eq_ignore_ascii_case(IoDirectSetting::AUTO) {
            return Ok(IoDirectSetting::Auto);
        }
        IoDirect::parse(text).map(IoDirectSetting::Only)
    }
}

impl From<IoDirect> for IoDirectSetting {
    fn from(direct: IoDirect) -> IoDirectSetting {
        IoDirectSetting::Only(direct)
    }
}

/// As SHOW prints it.
impl fmt::Display for IoDirectSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IoDirectSetting::Auto => f.write_str(IoDirectSetting::AUTO),
            IoDirectSetting::Only(direct) => direct.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_no_name_of_a_list() {
        for (text, shown) in
            [("auto", "auto"), (" AUTO ", "auto"), ("", ""), ("wal,Data", "data, wal")]
        {
            let setting = IoDirectSetting::parse(text).expect("a setting");
            assert_eq!(setting.to_string(), shown, "{text:?}");
            assert_eq!(IoDirectSetting::parse(shown), Ok(setting));
        }
        for text in ["auto, data", "data, auto"] {
            let bad = IoDirectSetting::parse(text).expect_err(text);
            assert_eq!(bad, BadIoDirect::Option("auto".to_owned()));
        }
    }
}
