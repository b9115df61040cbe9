//! postgresql.conf: `name = value` lines, quotes, comments, include directives.

use std::path::{Path, PathBuf};

/// An assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Name as written.
    pub name: String,
    /// Value without its quotes.
    pub value: String,
    /// Its file.
    pub file: PathBuf,
    /// Line number, from one.
    pub line: usize,
}

/// Files may include files this deep.
const MAX_DEPTH: usize = 10;

/// Reads a file and what it includes. Errors name file and line.
pub fn read(path: &Path) -> Result<Vec<Assignment>, String> {
    let mut found = Vec::new();
    read_into(path, 0, &mut found)?;
    Ok(found)
}

fn read_into(path: &Path, depth: usize, found: &mut Vec<Assignment>) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!(
            "could not open configuration file \"{}\": maximum nesting depth exceeded",
            path.display()
        ));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|e| format!("could not open configuration file \"{}\": {e}", path.display()))?;
    for (i, line) in text.lines().enumerate() {
        let number = i + 1;
        let Some((name, value)) = assignment(line).map_err(|near| {
            format!("syntax error in file \"{}\" line {number}, near {near}", path.display())
        })?
        else {
            continue;
        };
        let included = || path.parent().unwrap_or(Path::new(".")).join(&value);
        match name.to_ascii_lowercase().as_str() {
            "include_if_exists" if !included().exists() => {}
            "include" | "include_if_exists" => read_into(&included(), depth + 1, found)?,
            "include_dir" => {
                let mut files: Vec<PathBuf> = std::fs::read_dir(included())
                    .map_err(|e| {
                        format!(
                            "could not open configuration directory \"{}\": {e}",
                            included().display()
                        )
                    })?
                    .filter_map(|entry| Some(entry.ok()?.path()))
                    .filter(|p| p.extension().is_some_and(|e| e == "conf"))
                    .collect();
                files.sort();
                for file in files {
                    read_into(&file, depth + 1, found)?;
                }
            }
            _ => found.push(Assignment { name, value, file: path.to_owned(), line: number }),
        }
    }
    Ok(())
}

/// Reads a line. None if it assigns nothing; after a syntax error, what that is near.
fn assignment(line: &str) -> Result<Option<(String, String)>, String> {
    let mut rest = line.trim_start();
    if rest.is_empty() || rest.starts_with('#') {
        return Ok(None);
    }
    let end = rest
        .find(|c: char| !(c.is_ascii_alphanumeric() || "_.$".contains(c)))
        .unwrap_or(rest.len());
    let (name, tail) = rest.split_at(end);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return Err(near(rest));
    }
    rest = tail.trim_start();
    rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
    let (value, tail) = if rest.starts_with('\'') { quoted(rest)? } else { bare(rest)? };
    let tail = tail.trim_start();
    if tail.is_empty() || tail.starts_with('#') {
        Ok(Some((name.to_owned(), value)))
    } else {
        Err(near(tail))
    }
}

fn near(rest: &str) -> String {
    match rest.split_whitespace().next() {
        Some(token) => format!("token \"{token}\""),
        None => "end of line".to_owned(),
    }
}

fn bare(rest: &str) -> Result<(String, &str), String> {
    let end = rest.find(|c: char| c.is_whitespace() || "#'=,".contains(c)).unwrap_or(rest.len());
    if end == 0 {
        return Err(near(rest));
    }
    let (value, tail) = rest.split_at(end);
    Ok((value.to_owned(), tail))
}

/// Reads a value in quotes: a quote inside is doubled or has a backslash before it.
fn quoted(rest: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                chars.next();
                value.push('\'');
            }
            '\'' => return Ok((value, rest.get(at + 1..).unwrap_or_default())),
            '\\' => match chars.next().ok_or("end of line")?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'r' => value.push('\r'),
                'b' => value.push('\u{8}'),
                'f' => value.push('\u{c}'),
                other => value.push(other),
            },
            c => value.push(c),
        }
    }
    Err("end of line".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let ok = |l: &str| assignment(l).expect(l);
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(ok("  # nothing"), None);
        assert_eq!(ok(""), None);
        assert_eq!(ok("shared_buffers = 128MB\t\t# min 128kB"), pair("shared_buffers", "128MB"));
        assert_eq!(ok("port=5433"), pair("port", "5433"));
        assert_eq!(ok("io_direct 'data, wal'"), pair("io_direct", "data, wal"));
        assert_eq!(ok(r"a = 'it''s \'so\'' # x"), pair("a", "it's 'so'"));
        assert_eq!(ok("a = ''"), pair("a", ""));
        assert_eq!(ok("bgwriter_lru_multiplier = -2.5"), pair("bgwriter_lru_multiplier", "-2.5"));
        for (bad, at) in [
            ("port", "end of line"),
            ("port =", "end of line"),
            ("= 3", "token \"=\""),
            ("a = 'open", "end of line"),
            ("a = 1 2", "token \"2\""),
        ] {
            assert_eq!(assignment(bad), Err(at.to_owned()), "{bad}");
        }
    }

    #[test]
    fn includes_and_their_errors() {
        let dir = tempfile::tempdir().expect("a directory");
        let main = dir.path().join("postgresql.conf");
        std::fs::write(
            &main,
            "port = 1\ninclude 'more.conf'\ninclude_if_exists = 'none.conf'\nport = 3\n",
        )
        .expect("written");
        assert!(read(&main).expect_err("not there").contains("more.conf"));
        std::fs::write(dir.path().join("more.conf"), "\n\nport = 2\n").expect("written");
        let got: Vec<_> =
            read(&main).expect("reads").into_iter().map(|a| (a.value, a.line)).collect();
        assert_eq!(got, [("1".to_owned(), 1), ("2".to_owned(), 3), ("3".to_owned(), 4)]);
        std::fs::write(&main, "include 'postgresql.conf'").expect("written");
        assert!(read(&main).expect_err("endless").contains("nesting depth"));
    }
}
