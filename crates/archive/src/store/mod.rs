//! An archive: WAL files, each with a manifest, in a directory or an object store.
//!
//! | Module | What |
//! |---|---|
//! | `depot` | where an archive lies: the [`Depot`] trait |
//! | `directory` | a directory as a depot |
//! | `objects` | an object store as a depot: S3, Google, Azure (cargo feature `object-store`) |
//! | [`seal`] | keys and encryption |
//! | [`codec`] | compression and encryption of a file; reading it back |
//! | [`layout`] | which file is stored under which key: plain or hashed |
//! | `text` | the text format of manifests |
//! | `manifest` | what a stored file is; what the archive is |
//! | `auth` | authentication of manifests |
//! | `repository` | [`Repository`]: an archive and how it is used |
//! | `fetch` | reads a WAL file from the archive |
//! | `put` | stores a WAL file in the archive |
//! | `inventory` | lists the archive |
//! | [`verify`] | finds gaps, damage and foreign files |
//! | [`expire`] | removes old WAL |
//!
//! Invariants:
//!
//! 1. An acknowledged file is durable, and has a manifest that says what it is.
//! 2. Nothing stored is ever replaced. A file is stored under a temporary name, made durable, and
//!    renamed without replacing; then its manifest is stored in the same way. The manifest decides:
//!    if two writers store one name with different contents or codecs, the one whose manifest is
//!    first has stored it, and the other removes its own file.
//! 3. A crash between the two leaves a file without a manifest. The next writer of that name
//!    compares the contents, and stores the manifest if they are the same.
//! 4. An absent file is reported as absent only if the archive exists: its marker file
//!    `forebay-archive` was read before and after the look-up.
//! 5. With a key, only encrypted files and authenticated manifests of its owner are accepted.

mod auth;
pub mod codec;
mod depot;
mod directory;
pub mod expire;
mod fetch;
mod inventory;
pub mod layout;
mod manifest;
#[cfg(feature = "object-store")]
mod objects;
mod put;
mod repository;
pub mod seal;
mod text;
pub mod verify;

pub use depot::{Depot, Download, Object, Upload};
pub use fetch::Fetched;
pub use inventory::{Inventory, Stored, TimelineRange};
pub use manifest::{Manifest, WalOrigin};
#[cfg(feature = "object-store")]
pub use objects::Bucket;
pub use repository::{Repository, StoreOptions};
