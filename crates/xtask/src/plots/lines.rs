//! A chart of rates over time, as SVG: a line for each series, and a shade behind the times that
//! are marked.

use std::fmt::{self, Display, Formatter, Write};

use super::chart::{escaped, shown};

/// A chart.
pub struct Lines {
    /// Printed above it.
    pub title: &'static str,
    /// What the lines measure.
    pub unit: &'static str,
    /// Name and figures of each line, one for each second.
    pub lines: Vec<(&'static str, Vec<f64>)>,
    /// What the shade stands for.
    pub shade: &'static str,
    /// Which seconds have a shade.
    pub marked: Vec<bool>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 340.0;
/// Where lines begin and end.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 746.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = 304.0;
/// One colour for each line.
const COLOURS: [&str; 2] = ["#1b6ca8", "#d08770"];
const SHADE: &str = "#eceff1";
/// Lines across, at most, and times below.
const STEPS: f64 = 5.0;

impl Display for Lines {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">"
        )?;
        writeln!(f, "<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>")?;
        writeln!(
            f,
            "<text x=\"10\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{}</text>",
            escaped(self.title)
        )?;
        writeln!(f, "<text x=\"10\" y=\"44\">{}</text>", escaped(self.unit))?;
        self.legend(f)?;
        self.shades(f)?;
        self.axes(f)?;
        for ((_, figures), colour) in self.lines.iter().zip(COLOURS) {
            let mut points = String::new();
            for (second, figure) in figures.iter().enumerate() {
                write!(points, "{:.1},{:.1} ", self.x(second as f64), self.y(*figure))?;
            }
            writeln!(
                f,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"/>",
                points.trim_end()
            )?;
        }
        writeln!(f, "</svg>")
    }
}

impl Lines {
    /// Seconds that are shown.
    fn length(&self) -> f64 {
        let longest = self.lines.iter().map(|(_, figures)| figures.len()).max();
        longest.unwrap_or(0).max(2) as f64 - 1.0
    }

    /// The largest figure.
    fn most(&self) -> f64 {
        let all = self.lines.iter().flat_map(|(_, figures)| figures);
        all.copied().fold(f64::MIN_POSITIVE, f64::max)
    }

    fn x(&self, second: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (second / self.length()).min(1.0)
    }

    fn y(&self, figure: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * figure / self.most()
    }

    fn legend(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names = self.lines.iter().map(|(name, _)| *name).zip(COLOURS);
        for (n, (name, colour)) in names.chain([(self.shade, SHADE)]).enumerate() {
            let x = WIDTH - 520.0 + n as f64 * 175.0;
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

    /// A shade behind each run of marked seconds.
    fn shades(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut second = 0;
        for run in self.marked.chunk_by(|one, next| one == next) {
            let end = second + run.len();
            if run[0] {
                let (left, right) = (self.x(second as f64), self.x(end as f64));
                writeln!(
                    f,
                    "<rect x=\"{left:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\" \
                     fill=\"{SHADE}\"/>",
                    right - left,
                    BOTTOM - TOP
                )?;
            }
            second = end;
        }
        Ok(())
    }

    /// Lines across with their figures, and times below.
    fn axes(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for figure in steps(self.most()) {
            let y = self.y(figure);
            let (x, label) = (LEFT - 6.0, if figure == 0.0 { "0".into() } else { shown(figure) });
            writeln!(
                f,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{RIGHT}\" y2=\"{y:.1}\" \
                 stroke=\"#ccc\"/><text x=\"{x}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                y + 4.0
            )?;
        }
        let long = self.length() > 180.0;
        let (unit, name) = if long { (60.0, "min") } else { (1.0, "s") };
        for time in steps(self.length() / unit) {
            let (x, y) = (self.x(time * unit), BOTTOM + 18.0);
            writeln!(
                f,
                "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{time} {name}</text>"
            )?;
        }
        Ok(())
    }
}

/// Round numbers from 0 up to the largest.
fn steps(most: f64) -> Vec<f64> {
    let least = most / STEPS;
    let power = 10_f64.powf(least.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
    let step = round.into_iter().find(|step| *step >= least).unwrap_or(least);
    (0..=STEPS as u32).map(|n| f64::from(n) * step).filter(|figure| *figure <= most).collect()
}

#[cfg(test)]
mod tests {
    use super::{Lines, steps};

    #[test]
    fn lines_reach_as_high_as_their_figures() {
        let lines = vec![("own", vec![0.0, 100.0, 50.0]), ("peer & kernel", vec![25.0, 0.0, 0.0])];
        let marked = vec![false, true, true];
        let (title, unit, shade) = ("T", "a second", "taken");
        let svg = Lines { title, unit, lines, shade, marked }.to_string();
        assert!(svg.contains("points=\"64.0,304.0 405.0,62.0 746.0,183.0\""), "{svg}");
        assert!(svg.contains("points=\"64.0,243.5 405.0,304.0 746.0,304.0\""), "{svg}");
        assert!(svg.contains("<rect x=\"405.0\" y=\"62\" width=\"341.0\""), "the shade: {svg}");
        assert!(svg.contains(">peer &amp; kernel</text>") && svg.contains(">100</text>"), "{svg}");
        assert!(svg.contains(">1 s</text>") && svg.ends_with("</svg>\n"), "{svg}");
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(steps(100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(steps(1234.0), [0.0, 500.0, 1000.0]);
        assert_eq!(steps(19.9), [0.0, 5.0, 10.0, 15.0]);
    }
}
