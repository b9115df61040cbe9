//! Versions of the providers' data.

use crate::definition::{Provider, is_c_name};
use crate::libc_locale::library_version;

/// The version of the compiled ICU data, as `ucol_getVersion` of ICU 78 tells it: that of the
/// collator's builder, and Unicode's version times 8.
const ICU_DATA: &str = "153.136";

/// The version of CLDR, which ICU adds for languages whose order is not the root's.
const CLDR: &str = "153.136.48";

/// The version of a provider's data for a locale, as PostgreSQL shows it in messages. None: it has
/// none, since its order never changes or the system does not tell.
pub fn actual_version(provider: Provider, locale: &str) -> Option<String> {
    match provider {
        Provider::Builtin => Some("1".to_owned()),
        Provider::Icu => Some(ICU_DATA.to_owned()),
        Provider::Libc if is_c_name(locale) => None,
        Provider::Libc if locale.get(..2).is_some_and(|c| c.eq_ignore_ascii_case("C.")) => None,
        Provider::Libc => library_version(),
    }
}

/// Whether the data have the version that the catalogs recorded (`collversion`,
/// `datcollversion`).
pub fn version_agrees(provider: Provider, locale: &str, recorded: Option<&str>) -> bool {
    match (provider, recorded) {
        (Provider::Icu, Some(recorded)) => matches!(recorded, ICU_DATA | CLDR),
        (_, recorded) => actual_version(provider, locale).as_deref() == recorded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_agree() {
        assert!(version_agrees(Provider::Icu, "de", Some("153.136")));
        assert!(version_agrees(Provider::Icu, "sv", Some("153.136.48")));
        assert!(!version_agrees(Provider::Icu, "de", Some("153.120")));
        assert!(!version_agrees(Provider::Icu, "de", None));
        assert!(version_agrees(Provider::Libc, "C", None));
        assert!(version_agrees(Provider::Libc, "C.UTF-8", None));
        let system = actual_version(Provider::Libc, "en_US.UTF-8");
        assert!(version_agrees(Provider::Libc, "en_US.UTF-8", system.as_deref()));
        assert!(!version_agrees(Provider::Libc, "en_US.UTF-8", Some("2.1")));
        assert!(version_agrees(Provider::Builtin, "C.UTF-8", Some("1")));
    }
}
