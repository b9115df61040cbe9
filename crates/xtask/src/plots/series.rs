//! Figures over time, as text with a line for each time: docs/results/DATE-PART.csv.

use std::fmt::{self, Display, Formatter};

/// Named columns of equal length.
#[derive(Debug, PartialEq)]
pub struct Series {
    columns: Vec<String>,
    rows: Vec<Vec<f64>>,
}

impl Series {
    /// Columns without figures. Their names have no commas.
    pub fn new(columns: Vec<String>) -> Series {
        Series { columns, rows: Vec::new() }
    }

    /// Adds a figure to each column.
    pub fn push(&mut self, row: Vec<f64>) {
        assert_eq!(row.len(), self.columns.len(), "a figure for each column");
        self.rows.push(row);
    }

    /// The figures of a column.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn column(&self, name: &str) -> Result<Vec<f64>, String> {
        let at = self.columns.iter().position(|column| column == name);
        let at = at.ok_or_else(|| format!("there is no column {name}"))?;
        Ok(self.rows.iter().map(|row| row[at]).collect())
    }

    /// Reads what [`Display`] writes.
    ///
    /// # Errors
    /// A line that has not a number for each column.
    pub fn parse(text: &str) -> Result<Series, String> {
        let mut lines = text.lines();
        let columns = lines.next().unwrap_or_default().split(',').map(str::to_owned).collect();
        let mut series = Series::new(columns);
        for line in lines {
            let row: Option<Vec<f64>> = line.split(',').map(|field| field.parse().ok()).collect();
            match row {
                Some(row) if row.len() == series.columns.len() => series.rows.push(row),
                _ => return Err(format!("not a number for each column: {line}")),
            }
        }
        Ok(series)
    }
}

impl Display for Series {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.columns.join(","))?;
        for row in &self.rows {
            let fields: Vec<String> = row.iter().map(f64::to_string).collect();
            writeln!(f, "{}", fields.join(","))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Series;

    #[test]
    fn what_is_written_is_read() {
        let mut series = Series::new(vec!["second".to_owned(), "rate".to_owned()]);
        series.push(vec![0.0, 12.5]);
        series.push(vec![1.0, 1200.0]);
        let text = series.to_string();
        assert_eq!(text, "second,rate\n0,12.5\n1,1200\n");
        assert_eq!(Series::parse(&text).as_ref(), Ok(&series));
        assert_eq!(series.column("rate"), Ok(vec![12.5, 1200.0]));
        assert!(series.column("rates").is_err());
        assert!(Series::parse("a,b\n1\n").is_err() && Series::parse("a,b\n1,x\n").is_err());
    }
}
