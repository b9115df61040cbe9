//! A chart of horizontal bars in groups, as SVG. Each bar ends with its figure, and a thin line
//! spans the smallest and largest of the rounds.

use std::fmt::{self, Display, Formatter};

use super::results::Figure;

/// A chart.
pub struct Chart {
    /// Printed above it.
    pub title: &'static str,
    /// What the bars measure.
    pub unit: &'static str,
    /// What the bars of a group stand for.
    pub series: Vec<&'static str>,
    /// Where a line is drawn across all bars.
    pub reference: Option<f64>,
    /// The bars, from above.
    pub groups: Vec<Group>,
}

/// Bars side by side.
pub struct Group {
    /// Printed at the left.
    pub label: String,
    /// One for each series.
    pub bars: Vec<Figure>,
}

const WIDTH: f64 = 760.0;
/// Where bars begin, and how long they may be.
const LEFT: f64 = 220.0;
const LENGTH: f64 = 460.0;
/// Height of the title and legend, of a bar, and of the space between groups.
const TOP: f64 = 66.0;
const BAR: f64 = 14.0;
const SPACE: f64 = 9.0;
/// One colour for each series.
const COLOURS: [&str; 2] = ["#1b6ca8", "#b4bcc4"];

impl Display for Chart {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bars: usize = self.groups.iter().map(|group| group.bars.len()).sum();
        let bottom = TOP + bars as f64 * BAR + self.groups.len() as f64 * SPACE;
        let height = bottom + 6.0;
        let highs = self.groups.iter().flat_map(|group| &group.bars).map(|bar| bar.high);
        let scale = LENGTH / highs.chain(self.reference).fold(f64::MIN_POSITIVE, f64::max);
        writeln!(
            f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">"
        )?;
        writeln!(f, "<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>")?;
        let title = escaped(self.title);
        writeln!(
            f,
            "<text x=\"10\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{title}</text>"
        )?;
        writeln!(f, "<text x=\"10\" y=\"44\">{}</text>", escaped(self.unit))?;
        self.legend(f)?;
        let mut top = TOP;
        for group in &self.groups {
            let middle = top + BAR * group.bars.len() as f64 / 2.0 + 4.0;
            let (x, label) = (LEFT - 8.0, escaped(&group.label));
            writeln!(f, "<text x=\"{x}\" y=\"{middle}\" text-anchor=\"end\">{label}</text>")?;
            for (bar, colour) in group.bars.iter().zip(COLOURS) {
                draw(f, bar, top, scale, colour)?;
                top += BAR;
            }
            top += SPACE;
        }
        if let Some(reference) = self.reference {
            let x = LEFT + reference * scale;
            writeln!(
                f,
                "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#c0392b\" \
                 stroke-dasharray=\"4 3\"/>",
                TOP - SPACE / 2.0,
                bottom - SPACE / 2.0
            )?;
        }
        writeln!(f, "</svg>")
    }
}

impl Chart {
    fn legend(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.series.len() < 2 {
            return Ok(());
        }
        for (n, (name, colour)) in self.series.iter().zip(COLOURS).enumerate() {
            let x = WIDTH - 240.0 + n as f64 * 110.0;
            writeln!(
                f,
                "<rect x=\"{x}\" y=\"34\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
                 <text x=\"{}\" y=\"44\">{}</text>",
                x + 17.0,
                escaped(name)
            )?;
        }
        Ok(())
    }
}

/// One bar with its spread and its figure.
fn draw(f: &mut Formatter<'_>, bar: &Figure, top: f64, scale: f64, colour: &str) -> fmt::Result {
    let (length, height, middle) = (bar.median * scale, BAR - 2.0, top + BAR / 2.0 - 1.0);
    writeln!(
        f,
        "<rect x=\"{LEFT}\" y=\"{top:.1}\" width=\"{length:.1}\" height=\"{height}\" \
         fill=\"{colour}\"/>"
    )?;
    let (low, high) = (LEFT + bar.low * scale, LEFT + bar.high * scale);
    writeln!(
        f,
        "<line x1=\"{low:.1}\" y1=\"{middle:.1}\" x2=\"{high:.1}\" y2=\"{middle:.1}\" \
         stroke=\"#555\"/>"
    )?;
    let (x, y) = (high + 6.0, top + BAR - 4.0);
    writeln!(f, "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"11\">{}</text>", shown(bar.median))
}

/// A figure with three digits or more, in groups of thousands.
pub fn shown(figure: f64) -> String {
    if figure < 100.0 {
        return format!("{figure:.2}");
    }
    let digits = format!("{figure:.0}");
    let split = digits.len() % 3;
    let (first, rest) = digits.split_at(split);
    let mut parts: Vec<&str> = (!first.is_empty()).then_some(first).into_iter().collect();
    let threes: Vec<&str> =
        (0..rest.len()).step_by(3).map(|begin| &rest[begin..begin + 3]).collect();
    parts.extend(threes);
    parts.join(",")
}

/// Text between tags.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::{Chart, Figure, Group, escaped, shown};

    #[test]
    fn bars_are_as_long_as_their_figures() {
        let figure = |median, high| Figure { median, low: median, high };
        let bars = vec![figure(50.0, 50.0), figure(75.0, 100.0)];
        let groups = vec![Group { label: "a & b".to_owned(), bars }];
        let (title, unit, series) = ("T", "MB/s", vec!["own", "peer"]);
        let svg = Chart { title, unit, series, reference: Some(25.0), groups }.to_string();
        assert!(svg.contains("width=\"230.0\"") && svg.contains("width=\"345.0\""), "{svg}");
        assert!(svg.contains("a &amp; b") && svg.contains(">peer</text>"), "{svg}");
        assert!(svg.contains("x1=\"335.0\""), "the reference: {svg}");
        assert!(svg.ends_with("</svg>\n"), "{svg}");
    }

    #[test]
    fn figures_are_readable() {
        let wanted = [(0.275, "0.28"), (100.0, "100"), (1234.5, "1,234"), (155_392.0, "155,392")];
        for (figure, text) in wanted {
            assert_eq!(shown(figure), text);
        }
        assert_eq!(escaped("a < b & c"), "a &lt; b &amp; c");
    }
}
