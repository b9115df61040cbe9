//! What was done to pages, in the lines in which EXPLAIN (BUFFERS) shows it.

use forebay_engine::Usage;

/// Bytes of a page.
const PAGE: u64 = 8192;

/// What was done to pages: of permanent relations, and of temporary ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PageUsage(pub [Usage; 2]);

impl PageUsage {
    /// What came on top of an earlier usage.
    #[must_use]
    pub fn since(&self, earlier: &PageUsage) -> PageUsage {
        let [shared, local] = &self.0;
        PageUsage([shared.since(&earlier.0[0]), local.since(&earlier.0[1])])
    }

    /// Adds another usage.
    pub fn add(&mut self, other: &PageUsage) {
        self.0.iter_mut().zip(&other.0).for_each(|(usage, other)| usage.add(other));
    }

    /// The lines that show it, where there is something.
    pub fn lines(&self) -> Vec<String> {
        let count = |what: &str, pages: u64| (pages > 0).then(|| format!("{what}={pages}"));
        let buffers = self.line("Buffers", |usage| {
            let [read, written] = [usage.read, usage.written].map(|[bytes, _]| bytes / PAGE);
            [count("hit", usage.hits), count("read", read), count("written", written)]
        });
        let time = |what: &str, [_, ns]: [u64; 2]| {
            (ns > 0).then(|| format!("{what}={:.3}", ns as f64 / 1e6))
        };
        let timings = self.line("I/O Timings", |usage| {
            [time("read", usage.read), time("write", usage.written), None]
        });
        buffers.into_iter().chain(timings).collect()
    }

    /// A line of what is to be shown of each kind of relation.
    fn line(&self, name: &str, of: impl Fn(&Usage) -> [Option<String>; 3]) -> Option<String> {
        let kinds = ["shared", "local"].into_iter().zip(&self.0);
        let parts = kinds.filter_map(|(kind, usage)| {
            let parts: Vec<String> = of(usage).into_iter().flatten().collect();
            (!parts.is_empty()).then(|| format!("{kind} {}", parts.join(" ")))
        });
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| format!("{name}: {}", parts.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_shown_and_nothing_else() {
        assert!(PageUsage::default().lines().is_empty());
        let shared = Usage { hits: 3, read: [2 * PAGE, 1_500_000], written: [0, 0] };
        let local = Usage { hits: 0, read: [0, 0], written: [PAGE, 0] };
        let all = PageUsage([shared, local]);
        assert_eq!(
            all.lines(),
            ["Buffers: shared hit=3 read=2, local written=1", "I/O Timings: shared read=1.500"]
        );
        assert!(all.since(&all).lines().is_empty());
        let mut twice = all;
        twice.add(&all);
        assert_eq!(twice.since(&all), all);
    }
}
