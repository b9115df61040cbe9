//! Versions of the providers' data.

use crate::definition::{Provider, is_c_name};
use crate::libc_locale::library_version;

/// The version of the compiled ICU data, as `ucol_getVersion` of ICU 78 tells it: that of the
/// collator's builder, and Unicode's version times 8.
const ICU_DATA: &str = "153.136";

/// The version of CLDR, which ICU adds for languages whose order is not the root's.
const CLDR: &str = "153.136.48";

/// Languages whose order is not the root's.
const TAILORED: &str = "\
    af am ar as az be bg blo bn bo br bs ceb chr cs cy da dsb ee el eo es et fa fi fil fo fy gl gu \
    ha haw he hi hr hsb hu hy ig is ja ka kk kl km kn ko kok ku ky lkt ln lo lt lv mk ml mn mr mt \
    my nb ne nn no nso om or pa pl ps ro ru se si sk sl smn sq sr sv ta te th tk tn to tr ug uk ur \
    uz vi wo yi yo yue zh";

/// Whether a locale of ICU has an order of its own, which has CLDR's version too.
fn is_tailored(locale: &str) -> bool {
    let parts = || locale.split(['-', '_']);
    let language = parts().next().unwrap_or_default();
    let has = |part: &str| parts().any(|other| other.eq_ignore_ascii_case(part));
    TAILORED.split(' ').any(|tailored| tailored.eq_ignore_ascii_case(language))
        || has("co")
        || has("posix")
        || language.eq_ignore_ascii_case("fr") && has("CA")
        || language.eq_ignore_ascii_case("ff") && has("Adlm")
}

/// The version of a provider's data for a locale, as PostgreSQL shows it in messages. None: it has
/// none, since its order never changes or the system does not tell.
pub fn actual_version(provider: Provider, locale: &str) -> Option<String> {
    match provider {
        Provider::Builtin => Some("1".to_owned()),
        Provider::Icu if is_tailored(locale) => Some(CLDR.to_owned()),
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
        for (locale, version) in [
            ("de", "153.136"),
            ("sv", "153.136.48"),
            ("de-u-co-phonebk", "153.136.48"),
            ("und-u-kn", "153.136"),
            ("fr-CA", "153.136.48"),
            ("fr-FR", "153.136"),
            ("en-US-u-va-posix", "153.136.48"),
        ] {
            assert_eq!(actual_version(Provider::Icu, locale).as_deref(), Some(version), "{locale}");
        }
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
