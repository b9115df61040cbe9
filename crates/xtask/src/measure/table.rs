//! Figures by row and column, printed as a Markdown table.

use std::fmt::{self, Display, Formatter};

use serde_json::{Value, json};

/// Which of two figures is better.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The smaller one: seconds.
    Less,
    /// The larger one: rates.
    More,
}

/// A limit that the median of a row's figures should hold.
#[derive(Clone, Copy)]
pub struct Mark {
    column: usize,
    limit: f64,
    better: Better,
}

impl Mark {
    /// At least this much.
    pub fn at_least(column: usize, limit: f64) -> Mark {
        Mark { column, limit, better: Better::More }
    }

    /// At most this much.
    pub fn at_most(column: usize, limit: f64) -> Mark {
        Mark { column, limit, better: Better::Less }
    }

    fn held(self, row: &Row) -> bool {
        match (self.better, median(&row.cells[self.column])) {
            (_, found) if found.is_nan() => false,
            (Better::More, found) => found >= self.limit,
            (Better::Less, found) => found <= self.limit,
        }
    }

    fn text(self, columns: &[&str]) -> String {
        let sign = if self.better == Better::More { "≥" } else { "≤" };
        format!("{} {sign} {}", columns[self.column], self.limit)
    }
}

/// What is printed after the figures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closing {
    /// The ratio of two columns.
    Ratio,
    /// The ratio, and the ratio to the second column's best row.
    Best(Better),
    /// The ratio of the first column to the best of the others.
    Others(Better),
    /// Nothing, or the marks if there are any.
    Marks,
}

struct Row {
    name: String,
    cells: Vec<Vec<f64>>,
    marks: Vec<Mark>,
}

/// A table of repeated figures.
pub struct Table {
    title: &'static str,
    columns: Vec<&'static str>,
    closing: Closing,
    rows: Vec<Row>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(title: &'static str, columns: &[&'static str]) -> Table {
        let closing = if columns.len() == 2 { Closing::Ratio } else { Closing::Marks };
        Table { title, columns: columns.to_vec(), closing, rows: Vec::new() }
    }

    /// A table of two columns, whose first should be ahead of the best row of the second.
    pub fn against_best(title: &'static str, columns: [&'static str; 2], better: Better) -> Table {
        Table { closing: Closing::Best(better), ..Table::new(title, &columns) }
    }

    /// A table whose first column should be ahead of the best of the others in each row.
    pub fn against_others(title: &'static str, columns: &[&'static str], better: Better) -> Table {
        Table { closing: Closing::Others(better), ..Table::new(title, columns) }
    }

    /// A table whose rows have marks.
    pub fn marked(title: &'static str, columns: &[&'static str]) -> Table {
        Table { closing: Closing::Marks, ..Table::new(title, columns) }
    }

    /// Adds one figure of a round.
    pub fn add(&mut self, row: &str, column: usize, figure: f64) {
        println!("  {}: {row}, {}: {}", self.title, self.columns[column], shown(figure));
        self.row(row).cells[column].push(figure);
    }

    /// Sets the marks of a row.
    pub fn mark(&mut self, row: &str, marks: &[Mark]) {
        self.row(row).marks = marks.to_vec();
    }

    fn row(&mut self, name: &str) -> &mut Row {
        let index = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            let cells = vec![Vec::new(); self.columns.len()];
            self.rows.push(Row { name: name.to_string(), cells, marks: Vec::new() });
            self.rows.len() - 1
        });
        &mut self.rows[index]
    }

    /// The rows that miss their marks, for a summary.
    pub fn behind(&self) -> Vec<String> {
        let tell = |row: &Row| {
            let what = match self.closing {
                Closing::Best(better) => {
                    let ratio = self.to_best(row, better)?;
                    (!ahead(ratio, better))
                        .then(|| format!("{ratio:.2} of the second column's best"))
                }
                Closing::Others(better) => {
                    let ratio = to_others(row, better)?;
                    (!ahead(ratio, better)).then(|| format!("{ratio:.2} of the best other"))
                }
                _ => {
                    let missed = row.marks.iter().find(|mark| !mark.held(row))?;
                    let found = shown(median(&row.cells[missed.column]));
                    Some(format!("{found}, not {}", missed.text(&self.columns)))
                }
            };
            Some(format!("{}: {}: {}", self.title, row.name, what?))
        };
        self.rows.iter().filter_map(tell).collect()
    }

    /// The figures, as [`crate::plots::results`] keeps them.
    pub fn json(&self) -> Value {
        let cell = |figures: &Vec<f64>| {
            let low = figures.iter().copied().min_by(f64::total_cmp)?;
            let high = figures.iter().copied().max_by(f64::total_cmp)?;
            Some([median(figures), low, high])
        };
        let row = |row: &Row| {
            let cells: Vec<_> = row.cells.iter().map(cell).collect();
            json!({"name": row.name, "cells": cells})
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        json!({"title": self.title, "columns": self.columns, "rows": rows})
    }

    /// The first column's median against the best of the second's.
    fn to_best(&self, row: &Row, better: Better) -> Option<f64> {
        let ratio = median(&row.cells[0]) / self.best(1, better)?;
        (!ratio.is_nan()).then_some(ratio)
    }

    /// The best median of a column.
    fn best(&self, column: usize, better: Better) -> Option<f64> {
        best(self.rows.iter().map(|row| &row.cells[column]), better)
    }

    /// A row with the best of each column, where they are compared so.
    fn best_of_each(&self) -> Option<String> {
        let Closing::Best(better) = self.closing else { return None };
        let (first, second) = (self.best(0, better)?, self.best(1, better)?);
        let (ratio, won) = (first / second, yes(ahead(first / second, better)));
        Some(format!(
            "| best of each | {} | {} | {ratio:.2} | {ratio:.2} | {won} |",
            shown(first),
            shown(second)
        ))
    }

    fn closing_titles(&self) -> Vec<&'static str> {
        match self.closing {
            Closing::Ratio => vec!["first / second"],
            Closing::Best(_) => vec!["first / second", "first / best of second", "ahead"],
            Closing::Others(_) => vec!["first / best of others", "ahead"],
            Closing::Marks if self.rows.iter().all(|row| row.marks.is_empty()) => Vec::new(),
            Closing::Marks => vec!["mark", "held"],
        }
    }

    fn closing_cells(&self, row: &Row) -> Vec<String> {
        let ratio = || match row.cells.as_slice() {
            [first, second] if !first.is_empty() && !second.is_empty() => {
                format!("{:.2}", median(first) / median(second))
            }
            _ => String::new(),
        };
        match self.closing {
            Closing::Ratio => vec![ratio()],
            Closing::Best(better) => match self.to_best(row, better) {
                Some(to_best) => {
                    vec![ratio(), format!("{to_best:.2}"), yes(ahead(to_best, better))]
                }
                None => vec![ratio(), String::new(), String::new()],
            },
            Closing::Others(better) => match to_others(row, better) {
                Some(ratio) => vec![format!("{ratio:.2}"), yes(ahead(ratio, better))],
                None => vec![String::new(); 2],
            },
            Closing::Marks if self.closing_titles().is_empty() => Vec::new(),
            Closing::Marks if row.marks.is_empty() => vec![String::new(); 2],
            Closing::Marks => {
                let texts: Vec<_> = row.marks.iter().map(|mark| mark.text(&self.columns)).collect();
                vec![texts.join("; "), yes(row.marks.iter().all(|mark| mark.held(row)))]
            }
        }
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        let titles = [self.columns.clone(), self.closing_titles()].concat();
        writeln!(f, "\n| {} | {} |", self.title, titles.join(" | "))?;
        writeln!(f, "|---|{}", "---|".repeat(titles.len()))?;
        for row in &self.rows {
            let cells: Vec<String> = row.cells.iter().map(|figures| cell(figures)).collect();
            writeln!(
                f,
                "| {} | {} |",
                row.name,
                [cells, self.closing_cells(row)].concat().join(" | ")
            )?;
        }
        if let Some(best) = self.best_of_each() {
            writeln!(f, "{best}")?;
        }
        Ok(())
    }
}

/// Prints tables, and gives them back.
pub fn printed(tables: Vec<Table>) -> Vec<Table> {
    tables.iter().for_each(|table| println!("{table}"));
    tables
}

/// The first column's median against the best of the others in its row.
fn to_others(row: &Row, better: Better) -> Option<f64> {
    let (first, others) = row.cells.split_first()?;
    let ratio = median(first) / best(others.iter(), better)?;
    (!ratio.is_nan()).then_some(ratio)
}

/// The best median of these cells.
fn best<'c>(cells: impl Iterator<Item = &'c Vec<f64>>, better: Better) -> Option<f64> {
    let medians = cells.map(|figures| median(figures)).filter(|median| !median.is_nan());
    match better {
        Better::Less => medians.min_by(f64::total_cmp),
        Better::More => medians.max_by(f64::total_cmp),
    }
}

fn ahead(ratio: f64, better: Better) -> bool {
    if better == Better::Less { ratio < 1.0 } else { ratio > 1.0 }
}

fn yes(so: bool) -> String {
    if so { "yes" } else { "**no**" }.to_string()
}

fn cell(figures: &[f64]) -> String {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.first(), sorted.last()) {
        (Some(low), Some(high)) if low == high => shown(*low),
        (Some(low), Some(high)) => {
            format!("{} ({}-{})", shown(median(figures)), shown(*low), shown(*high))
        }
        _ => "-".into(),
    }
}

/// The middle figure; of an even number of figures the mean of the two in the middle.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.get(middle) {
        Some(upper) if sorted.len().is_multiple_of(2) => (sorted[middle - 1] + upper) / 2.0,
        Some(only) => *only,
        None => f64::NAN,
    }
}

fn shown(figure: f64) -> String {
    if figure == 0.0 || figure.abs() >= 100.0 {
        format!("{figure:.0}")
    } else {
        format!("{figure:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Better, Mark, Table, median};

    #[test]
    fn prints_medians_spreads_and_the_ratio() {
        let mut table = Table::new("T", &["a", "b"]);
        for figure in [3.0, 1.0, 2.0] {
            table.add("row", 0, figure);
            table.add("row", 1, figure * 400.0);
        }
        table.add("half", 0, 5.0);
        let text = table.to_string();
        assert!(text.contains("| row | 2.00 (1.00-3.00) | 800 (400-1200) | 0.00 |"), "{text}");
        assert!(text.contains("| half | 5.00 | - |  |"), "{text}");
    }

    #[test]
    fn figures_are_kept_with_their_spread() {
        let mut table = Table::new("T", &["a", "b"]);
        [3.0, 1.0, 2.0].iter().for_each(|figure| table.add("row", 1, *figure));
        let rows = serde_json::json!([{"name": "row", "cells": [null, [2.0, 1.0, 3.0]]}]);
        let wanted = serde_json::json!({"title": "T", "columns": ["a", "b"], "rows": rows});
        assert_eq!(table.json(), wanted);
    }

    #[test]
    fn medians_of_even_numbers_lie_between() {
        assert_eq!((median(&[4.0, 1.0]), median(&[1.0, 9.0, 2.0])), (2.5, 2.0));
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn marks_are_held_or_not_by_the_median() {
        let mut table = Table::new("T", &["MB/s", "part", "waited, %"]);
        for (row, part, waited) in [("good", 0.95, 0.5), ("slow", 0.90, 0.5), ("waits", 0.96, 1.5)]
        {
            table.add(row, 1, part);
            table.add(row, 2, waited);
            table.mark(row, &[Mark::at_least(1, 0.95), Mark::at_most(2, 1.0)]);
        }
        table.add("unmarked", 0, 500.0);
        let text = table.to_string();
        assert!(text.contains("| part | waited, % | mark | held |"), "{text}");
        assert!(
            text.contains("| good | - | 0.95 | 0.50 | part ≥ 0.95; waited, % ≤ 1 | yes |"),
            "{text}"
        );
        assert!(text.contains("| unmarked | 500 | - | - |  |  |"), "{text}");
        let behind = table.behind();
        assert_eq!(behind, ["T: slow: 0.90, not part ≥ 0.95", "T: waits: 1.50, not waited, % ≤ 1"]);
        // A mark without a figure is not held.
        table.mark("unmarked", &[Mark::at_least(1, 0.0)]);
        assert_eq!(table.behind().len(), 3);
    }

    #[test]
    fn the_first_is_held_against_the_best_of_the_second() {
        let mut seconds = Table::against_best("S", ["own", "peer"], Better::Less);
        let mut rates = Table::against_best("R", ["own", "peer"], Better::More);
        for (row, own, peer) in [("a", 1.0, 4.0), ("b", 3.0, 2.0)] {
            for table in [&mut seconds, &mut rates] {
                table.add(row, 0, own);
                table.add(row, 1, peer);
            }
        }
        assert!(
            seconds.to_string().contains("| a | 1.00 | 4.00 | 0.25 | 0.50 | yes |"),
            "{seconds}"
        );
        assert!(
            seconds.to_string().contains("| b | 3.00 | 2.00 | 1.50 | 1.50 | **no** |"),
            "{seconds}"
        );
        assert!(
            seconds.to_string().ends_with("| best of each | 1.00 | 2.00 | 0.50 | 0.50 | yes |\n"),
            "{seconds}"
        );
        assert!(
            rates.to_string().ends_with("| best of each | 3.00 | 4.00 | 0.75 | 0.75 | **no** |\n"),
            "{rates}"
        );
        assert_eq!(seconds.behind(), ["S: b: 1.50 of the second column's best"]);
        assert_eq!(rates.behind().len(), 2, "{rates}");
        assert_eq!(Table::new("nothing", &["a"]).to_string(), "");
    }

    #[test]
    fn the_first_is_held_against_the_best_of_the_others() {
        let mut table = Table::against_others("S", &["own", "one", "other"], Better::Less);
        for (row, figures) in [("a", [1.0, 4.0, 2.0]), ("b", [3.0, 2.0, 5.0])] {
            figures.iter().enumerate().for_each(|(n, figure)| table.add(row, n, *figure));
        }
        table.add("alone", 0, 1.0);
        let text = table.to_string();
        assert!(text.contains("| a | 1.00 | 4.00 | 2.00 | 0.50 | yes |"), "{text}");
        assert!(text.contains("| b | 3.00 | 2.00 | 5.00 | 1.50 | **no** |"), "{text}");
        assert!(text.contains("| alone | 1.00 | - | - |  |  |"), "{text}");
        assert_eq!(table.behind(), ["S: b: 1.50 of the best other"]);
    }
}
