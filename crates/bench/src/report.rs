//! The form in which a bench returns its figures.

use serde::Serialize;

/// The figures of a bench.
#[derive(Clone, Debug)]
pub struct Report {
    text: String,
    json: String,
}

impl Report {
    pub(crate) fn new(text: String, figures: &impl Serialize) -> Report {
        let json = serde_json::to_string(figures).expect("figures are numbers, names and lists");
        Report { text, json }
    }

    /// Tables for people.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// One JSON object for programs.
    pub fn json(&self) -> &str {
        &self.json
    }
}
