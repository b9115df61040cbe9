//! Applies an effect to one attempt.

use super::plan::Effect;
use crate::error::Errno;
use crate::execute::{Executor, Request, before};
use crate::memory::IO_ALIGN;

/// Makes an attempt through `executor`, with `effect`. `salt` chooses where [`Effect::Cut`] cuts.
pub(super) fn attempt(
    executor: &dyn Executor,
    r: &Request<'_>,
    effect: Option<Effect>,
    salt: u64,
) -> Result<usize, Errno> {
    let asked: usize = r.vectors().iter().map(|v| v.len()).sum();
    match effect {
        None => executor.execute(r),
        Some(Effect::Fail(errno)) => Err(errno),
        Some(Effect::Panic) => panic!("a fault: panic on purpose"),
        Some(Effect::AtMost(n)) => at_most(executor, r, n),
        Some(Effect::ShortBy(n)) => at_most(executor, r, asked.saturating_sub(n)),
        Some(Effect::Cut) => at_most(executor, r, cut(asked, r.file().is_direct(), salt)),
        Some(Effect::FailAfter(n, errno)) => at_most(executor, r, n).and(Err(errno)),
    }
}

/// A length from one unit (a byte, or a block of a direct file) to less than `asked`, if that is
/// possible.
fn cut(asked: usize, direct: bool, salt: u64) -> usize {
    let unit = if direct { IO_ALIGN } else { 1 };
    let units = asked / unit;
    if units < 2 { asked } else { (1 + salt as usize % (units - 1)) * unit }
}

/// Transfers and reports at most `n` bytes. A direct file transfers whole blocks. `n` bytes are
/// reported there too, as if the device had stopped within a block.
fn at_most(executor: &dyn Executor, r: &Request<'_>, n: usize) -> Result<usize, Errno> {
    let most = if r.file().is_direct() { n.next_multiple_of(IO_ALIGN) } else { n };
    let vectors = before(r.vectors(), most);
    if vectors.is_empty() {
        return Ok(0);
    }
    executor.execute(&r.with_vectors(&vectors)).map(|moved| moved.min(n))
}
