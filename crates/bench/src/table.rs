//! Tables of text with aligned columns.

/// Rows under a heading. The first column is aligned to the left, the others to the right.
pub(crate) struct TextTable {
    rows: Vec<Vec<String>>,
}

/// A column's heading, and what makes its cell of a row.
pub(crate) type Column<'a, R> = (&'a str, &'a dyn Fn(&R) -> String);

impl TextTable {
    pub(crate) fn new(heading: impl IntoIterator<Item = impl Into<String>>) -> TextTable {
        TextTable { rows: vec![heading.into_iter().map(Into::into).collect()] }
    }

    /// A table with a line for each row, from each column's heading and cell.
    pub(crate) fn of<R>(rows: impl IntoIterator<Item = R>, columns: &[Column<'_, R>]) -> TextTable {
        let mut table = TextTable::new(columns.iter().map(|(heading, _)| *heading));
        for row in rows {
            table.row(columns.iter().map(|(_, cell)| cell(&row)));
        }
        table
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Adds a row before all others.
    pub(crate) fn first(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.insert(1, cells.into_iter().map(Into::into).collect());
    }

    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::from("  ");
            for (n, (cell, width)) in row.iter().zip(&widths).enumerate() {
                line +=
                    &if n == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// Rounds to three significant digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = TextTable::new(["what", "MB/s"]);
        table.row(["io_uring", "7"]);
        table.row(["sync", "12345"]);
        assert_eq!(table.text(), "  what       MB/s\n  io_uring      7\n  sync      12345\n");
        assert_eq!([short(0.123), short(12.34), short(123.4)], ["0.12", "12.3", "123"]);
    }
}
