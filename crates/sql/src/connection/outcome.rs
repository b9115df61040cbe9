//! What statements came to.

use super::copy_in::CopyIn;
use super::sink::CommandTag;

/// What a step of a script came to.
pub enum Step {
    /// A statement completed: send CommandComplete.
    Completed(CommandTag),
    /// The string held no statement: send EmptyQueryResponse (a `Finished` follows).
    EmptyQuery,
    /// COPY FROM STDIN: send CopyInResponse, feed the data, then go on with `step`.
    /// `CopyIn::finish` gives the command tag.
    CopyIn(Box<CopyIn>),
    /// Nothing is left: send ReadyForQuery.
    Finished,
}

/// What an extended-protocol Execute came to.
pub enum Executed {
    /// Ran to its end: CommandComplete.
    Completed(CommandTag),
    /// The row limit was reached: PortalSuspended.
    Suspended,
    /// An empty query string: EmptyQueryResponse.
    EmptyQuery,
    /// COPY FROM STDIN: as in [`Step::CopyIn`].
    CopyIn(Box<CopyIn>),
}

impl Executed {
    pub(super) fn tagged(tag: String) -> Executed {
        Executed::Completed(CommandTag(tag))
    }
}
