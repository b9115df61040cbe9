//! Figures by row and column, printed as a Markdown table.

use std::fmt::{self, Display, Formatter};

/// A table of repeated figures.
pub struct Table {
    title: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<(String, Vec<Vec<f64>>)>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(title: &'static str, columns: &[&'static str]) -> Table {
        Table { title, columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds one figure of a round.
    pub fn add(&mut self, row: &str, column: usize, figure: f64) {
        println!("  {}: {row}, {}: {}", self.title, self.columns[column], shown(figure));
        let index = self.rows.iter().position(|(name, _)| name == row).unwrap_or_else(|| {
            self.rows.push((row.to_string(), vec![Vec::new(); self.columns.len()]));
            self.rows.len() - 1
        });
        self.rows[index].1[column].push(figure);
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n| {} | {} |{}",
            self.title,
            self.columns.join(" | "),
            ratio_title(self.columns.len())
        )?;
        writeln!(f, "|---|{}", "---|".repeat(self.columns.len() + usize::from(self.columns.len() == 2)))?;
        for (name, cells) in &self.rows {
            write!(f, "| {name} |")?;
            for figures in cells {
                write!(f, " {} |", cell(figures))?;
            }
            if let [first, second] = cells.as_slice() {
                write!(f, " {:.2} |", median(first) / median(second))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn ratio_title(columns: usize) -> &'static str {
    if columns == 2 { " first / second |" } else { "" }
}

fn cell(figures: &[f64]) -> String {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.first(), sorted.last()) {
        (Some(low), Some(high)) => format!("{} ({}-{})", shown(median(figures)), shown(*low), shown(*high)),
        _ => "-".into(),
    }
}

fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn shown(figure: f64) -> String {
    if figure < 100.0 { format!("{figure:.2}") } else { format!("{figure:.0}") }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn prints_medians_spreads_and_the_ratio() {
        let mut table = Table::new("T", &["a", "b"]);
        for figure in [3.0, 1.0, 2.0] {
            table.add("row", 0, figure);
            table.add("row", 1, figure * 400.0);
        }
        assert!(table.to_string().contains("| row | 2.00 (1.00-3.00) | 800 (400-1200) | 0.00 |"), "{table}");
    }
}
