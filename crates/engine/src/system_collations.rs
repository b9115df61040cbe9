//! The collations of the C library's locales, as `locale -a` lists them.

use forebay_catalog::NewCollation;
use forebay_collation::{Provider, actual_version, libc_encoding};
use forebay_types::Oid;
use std::process::{Command, Stdio};

/// The encoding of locales that have a collation already: C and POSIX.
const SQL_ASCII: i32 = 0;

/// The collations, sorted as PostgreSQL makes them: those named as the locales, then shorter names.
/// Whether there was a locale that can be used.
pub(crate) fn system_collations(namespace: Oid, owner: Oid) -> (Vec<NewCollation>, bool) {
    let listed = Command::new("locale").arg("-a").stdin(Stdio::null()).output();
    let text = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    of_list(&text.unwrap_or_default(), namespace, owner)
}

fn of_list(list: &str, namespace: Oid, owner: Oid) -> (Vec<NewCollation>, bool) {
    let (mut found, mut aliases, mut usable) = (Vec::new(), Vec::new(), false);
    let new = |name: &str, locale: &str, encoding| NewCollation {
        name: name.to_owned(),
        namespace,
        owner,
        provider: b'c',
        deterministic: true,
        encoding,
        collate: Some(locale.to_owned()),
        ctype: Some(locale.to_owned()),
        locale: None,
        version: actual_version(Provider::Libc, locale),
    };
    for locale in list.lines().filter(|locale| !locale.is_empty() && locale.is_ascii()) {
        let Ok(Some(encoding)) = libc_encoding(locale) else { continue };
        usable = true;
        if encoding == SQL_ASCII {
            continue;
        }
        found.push(new(locale, locale, encoding));
        let alias = without_encoding(locale);
        if alias != locale {
            aliases.push((locale, new(&alias, locale, encoding)));
        }
    }
    // Of several locales with the same short name the first one counts.
    aliases.sort_by_key(|(locale, _)| *locale);
    found.extend(aliases.into_iter().map(|(_, new)| new));
    (found, usable)
}

/// A locale's name without its encoding: `en_US` of `en_US.utf8`.
fn without_encoding(locale: &str) -> String {
    let Some((before, behind)) = locale.split_once('.') else { return locale.to_owned() };
    let end = behind.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    let rest = end.and_then(|end| behind.get(end..)).unwrap_or_default();
    format!("{before}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_encoding() {
        for (locale, alias) in [
            ("en_US.utf8", "en_US"),
            ("de_DE.iso885915@euro", "de_DE@euro"),
            ("C.utf8", "C"),
            ("french", "french"),
        ] {
            assert_eq!(without_encoding(locale), alias);
        }
    }

    #[test]
    fn what_the_library_has_is_listed_once_under_each_name() {
        let (found, usable) = of_list("C\nC.utf8\nPOSIX\nno_such_locale\n\u{e4}\n", 11, 10);
        assert!(usable);
        let names: Vec<&str> = found.iter().map(|new| new.name.as_str()).collect();
        assert_eq!(names, ["C.utf8", "C"]);
        assert!(found.iter().all(|new| new.encoding == 6 && new.version.is_none()));
        assert_eq!(of_list("", 11, 10), (Vec::new(), false));
    }
}
