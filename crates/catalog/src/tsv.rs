//! The files in `data/`: the rows that catalogs begin with, as `cargo xtask catalogs` writes them.
//! The build script reads them too.
//!
//! The first line has the columns' names, separated by tabs. `name=value` says what an empty cell
//! means. `\N` is NULL, `\e` the empty text. A line may lack empty cells at its end.

/// A file.
#[derive(Debug)]
pub(crate) struct TsvFile {
    names: Vec<&'static str>,
    defaults: Vec<&'static str>,
    rows: &'static str,
}

/// The cells of a row. `None` is NULL.
pub(crate) type Cells = Vec<Option<&'static str>>;

impl TsvFile {
    pub(crate) fn new(text: &'static str) -> TsvFile {
        let (header, rows) = text.split_once('\n').unwrap_or((text, ""));
        let columns = header.split('\t').map(|cell| cell.split_once('=').unwrap_or((cell, "")));
        let (names, defaults) = columns.unzip();
        TsvFile { names, defaults, rows }
    }

    /// The position of a column.
    ///
    /// # Panics
    /// If the file has no such column.
    pub(crate) fn column(&self, name: &str) -> usize {
        let position = self.names.iter().position(|column| *column == name);
        position.unwrap_or_else(|| panic!("a file of the catalogs has no column {name}"))
    }

    /// The rows, with all their cells.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Cells> {
        self.rows.lines().map(|line| {
            let given = line.split('\t').chain(std::iter::repeat(""));
            let cells = given.zip(&self.defaults);
            cells
                .map(|(cell, default)| value(if cell.is_empty() { default } else { cell }))
                .collect()
        })
    }
}

fn value(cell: &'static str) -> Option<&'static str> {
    match cell {
        "\\N" => None,
        "\\e" => Some(""),
        text => Some(text),
    }
}
