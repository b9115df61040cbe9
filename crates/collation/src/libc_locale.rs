//! Locales of the C library. The one place of this crate with `unsafe`.

use std::cmp::Ordering;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int};

use crate::error::CollationError;

/// Bytes of a text that is compared without an allocation, with its NUL.
const SHORT: usize = 256;

/// A locale of the C library: LC_COLLATE and LC_CTYPE.
#[derive(Debug)]
pub(crate) struct Locale(libc::locale_t);

// SAFETY: a locale_t is only read after newlocale(); POSIX lets threads share it.
unsafe impl Send for Locale {}
// SAFETY: the same.
unsafe impl Sync for Locale {}

unsafe extern "C" {
    fn strcoll_l(a: *const c_char, b: *const c_char, locale: libc::locale_t) -> c_int;
    fn towlower_l(letter: u32, locale: libc::locale_t) -> u32;
    fn towupper_l(letter: u32, locale: libc::locale_t) -> u32;
    fn iswalnum_l(letter: u32, locale: libc::locale_t) -> c_int;
}

impl Locale {
    /// Opens locales for comparing and for letters.
    pub(crate) fn open(collate: &str, ctype: &str) -> Result<Locale, CollationError> {
        let none: libc::locale_t = std::ptr::null_mut();
        let with_letters = add(libc::LC_CTYPE_MASK, ctype, none)?;
        match add(libc::LC_COLLATE_MASK, collate, with_letters) {
            Ok(locale) => Ok(Locale(locale)),
            Err(error) => {
                drop(Locale(with_letters));
                Err(error)
            }
        }
    }

    /// Whether letters of this locale are in UTF-8.
    pub(crate) fn is_utf8(&self) -> bool {
        self.codeset().eq_ignore_ascii_case("UTF-8")
    }

    /// The encoding of this locale's letters, as the C library calls it.
    pub(crate) fn codeset(&self) -> String {
        // SAFETY: the locale is valid, and the answer is a C string that lives as long as it.
        let codeset = unsafe { CStr::from_ptr(libc::nl_langinfo_l(libc::CODESET, self.0)) };
        codeset.to_string_lossy().into_owned()
    }

    /// Compares two texts without NUL bytes.
    pub(crate) fn compare(&self, a: &str, b: &str) -> Ordering {
        terminated(a, |a| {
            terminated(b, |b| {
                // SAFETY: both are C strings, and the locale is valid.
                unsafe { strcoll_l(a.as_ptr(), b.as_ptr(), self.0) }.cmp(&0)
            })
        })
    }

    /// A letter's lower case.
    pub(crate) fn lower(&self, letter: char) -> char {
        // SAFETY: any number may be asked for, and the locale is valid.
        let lower = unsafe { towlower_l(u32::from(letter), self.0) };
        char::from_u32(lower).unwrap_or(letter)
    }

    /// Whether it is a letter or a digit.
    pub(crate) fn is_alphanumeric(&self, letter: char) -> bool {
        // SAFETY: any number may be asked for, and the locale is valid.
        unsafe { iswalnum_l(u32::from(letter), self.0) != 0 }
    }

    /// A letter's upper case.
    pub(crate) fn upper(&self, letter: char) -> char {
        // SAFETY: any number may be asked for, and the locale is valid.
        let upper = unsafe { towupper_l(u32::from(letter), self.0) };
        char::from_u32(upper).unwrap_or(letter)
    }
}

impl Drop for Locale {
    fn drop(&mut self) {
        // SAFETY: it came from newlocale(), and nobody uses it any more.
        unsafe { libc::freelocale(self.0) }
    }
}

/// Adds a category's locale to `base`, which may be null. On failure `base` is as it was.
fn add(
    category: c_int,
    locale: &str,
    base: libc::locale_t,
) -> Result<libc::locale_t, CollationError> {
    let failed = |reason: String| CollationError::NoLocale { locale: locale.to_owned(), reason };
    let name = CString::new(locale).map_err(|_| failed("its name has a NUL byte".to_owned()))?;
    // SAFETY: the name is a C string, and `base` is null or a locale of ours.
    let made = unsafe { libc::newlocale(category, name.as_ptr(), base) };
    if made.is_null() {
        return Err(failed("No such file or directory".to_owned()));
    }
    Ok(made)
}

/// Hands a text over as a C string. What follows a NUL byte does not count.
fn terminated<T>(text: &str, f: impl FnOnce(&CStr) -> T) -> T {
    let mut short = [0; SHORT];
    match short.get_mut(..text.len()) {
        Some(place) if text.len() < SHORT => {
            place.copy_from_slice(text.as_bytes());
            let terminated = CStr::from_bytes_until_nul(&short).unwrap_or_default();
            f(terminated)
        }
        _ => {
            let mut long = Vec::with_capacity(text.len() + 1);
            long.extend_from_slice(text.as_bytes());
            long.push(0);
            let terminated = CStr::from_bytes_until_nul(&long).unwrap_or_default();
            f(terminated)
        }
    }
}

/// The C library's version.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn library_version() -> Option<String> {
    // SAFETY: the answer is a C string that lives for ever.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    Some(version.to_string_lossy().into_owned())
}

/// The C library's version, which this system does not tell.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn library_version() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_short_texts_are_whole() {
        let locale = Locale::open("C.utf8", "C.utf8").expect("every glibc has it");
        for length in [0, 1, SHORT - 1, SHORT, SHORT + 1, 10 * SHORT] {
            let (a, b) = ("x".repeat(length), "x".repeat(length) + "y");
            assert_eq!(locale.compare(&a, &b), Ordering::Less, "{length}");
            assert_eq!(locale.compare(&b, &a), Ordering::Greater, "{length}");
            assert_eq!(locale.compare(&a, &a), Ordering::Equal, "{length}");
        }
        assert!(locale.is_utf8());
        assert_eq!((locale.upper('ä'), locale.lower('Ä')), ('Ä', 'ä'));
    }

    #[test]
    fn a_locale_that_is_not_there_is_an_error() {
        let error = Locale::open("xx_XX.UTF-8", "C").expect_err("no such locale");
        assert_eq!(
            error.to_string(),
            "could not create locale \"xx_XX.UTF-8\": No such file or directory"
        );
        assert!(Locale::open("C", "a\0b").is_err());
    }
}
