//! Calls that change contents or names, and syncs.

use std::ffi::OsStr;

use forebay_aio::sync::SystemTime;
use forebay_sim::{InFlight, Node};
use fuser::{Errno, FileAttr};

use crate::disk::{Disk, Meta, NamesRule, State, inode, node};

/// How a write was asked for.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// Past the kernel's cache, so that it takes the medium's time.
    pub direct: bool,
    /// Durable when it returns.
    pub durable: bool,
}

/// Bits of fallocate's mode.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;

impl Disk {
    /// Creates a file or directory.
    pub(crate) fn make(
        &self,
        parent: u64,
        name: &OsStr,
        directory: bool,
        meta: Meta,
    ) -> Result<FileAttr, Errno> {
        let mut state = self.powered()?;
        let parent = state.directory(parent)?;
        if state.names.look_up(parent, name).is_some() {
            return Err(Errno::EEXIST);
        }
        let made = if directory {
            Node::Directory(state.names.make_directory(parent, name))
        } else {
            let made = Node::File(state.new_file());
            state.names.add(parent, name, made);
            made
        };
        state.metas.insert(inode(made), meta);
        state.attr(inode(made))
    }

    /// Gives a file one more name.
    pub(crate) fn link(&self, ino: u64, parent: u64, name: &OsStr) -> Result<FileAttr, Errno> {
        let mut state = self.powered()?;
        let parent = state.directory(parent)?;
        if state.names.look_up(parent, name).is_some() {
            return Err(Errno::EEXIST);
        }
        state.file(ino)?;
        state.names.add(parent, name, node(ino));
        state.attr(ino)
    }

    /// Removes a file's name, or an empty directory.
    pub(crate) fn remove(&self, parent: u64, name: &OsStr, directory: bool) -> Result<(), Errno> {
        let mut state = self.powered()?;
        let parent = state.directory(parent)?;
        match (state.names.look_up(parent, name).ok_or(Errno::ENOENT)?, directory) {
            (Node::File(_), true) => return Err(Errno::ENOTDIR),
            (Node::Directory(_), false) => return Err(Errno::EISDIR),
            (Node::Directory(number), true) if state.names.entries(number).next().is_some() => {
                return Err(Errno::ENOTEMPTY);
            }
            _ => {}
        }
        state.names.remove_from(parent, name);
        Ok(())
    }

    /// Renames a file or directory.
    pub(crate) fn rename(
        &self,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        replace: bool,
    ) -> Result<(), Errno> {
        let mut state = self.powered()?;
        let from = (state.directory(from.0)?, from.1);
        let to = (state.directory(to.0)?, to.1);
        let moved = state.names.look_up(from.0, from.1).ok_or(Errno::ENOENT)?;
        match (moved, state.names.look_up(to.0, to.1)) {
            (_, None) => {}
            (_, Some(_)) if !replace => return Err(Errno::EEXIST),
            (moved, Some(there)) if moved == there => return Ok(()),
            (Node::File(_), Some(Node::File(_))) => {}
            (Node::File(_), Some(Node::Directory(_))) => return Err(Errno::EISDIR),
            (Node::Directory(_), Some(Node::File(_))) => return Err(Errno::ENOTDIR),
            (Node::Directory(_), Some(Node::Directory(there))) => {
                if state.names.entries(there).next().is_some() {
                    return Err(Errno::ENOTEMPTY);
                }
            }
        }
        state.names.move_to(from, to);
        Ok(())
    }

    /// Writes to a file. Direct and synchronous writes take the medium's time, in which the power
    /// may be cut.
    pub(crate) fn write(
        &self,
        ino: u64,
        offset: u64,
        bytes: &[u8],
        manner: Manner,
    ) -> Result<(), Errno> {
        let mut state = self.powered()?;
        let (number, _) = state.file(ino)?;
        if manner.direct || manner.durable {
            let write = InFlight { file: number, offset, bytes: bytes.to_vec() };
            let in_flight = state.begin_write(write);
            self.work(&mut state, self.rules.write_micros)?;
            state.in_flight.remove(&in_flight);
        }
        let (_, file) = state.file(ino)?;
        if manner.durable && !self.rules.lies {
            // The length becomes durable with the write. If an earlier length is not, so does
            // everything before.
            if file.has_unsynced_length() {
                file.sync();
            }
            file.write_durably(offset, bytes);
        } else {
            file.write(offset, bytes);
        }
        state.touch(ino);
        Ok(())
    }

    /// Truncates a file, or extends it with zeros.
    pub(crate) fn set_len(&self, ino: u64, len: u64) -> Result<(), Errno> {
        let mut state = self.powered()?;
        state.file(ino)?.1.set_len(len);
        state.touch(ino);
        Ok(())
    }

    /// As fallocate(2).
    pub(crate) fn allocate(&self, ino: u64, offset: u64, len: u64, mode: i32) -> Result<(), Errno> {
        if mode & !(KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE) != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut state = self.powered()?;
        let (_, file) = state.file(ino)?;
        let end = offset + len;
        if mode & (PUNCH_HOLE | ZERO_RANGE) != 0 {
            let inside = end.min(file.live().len()).saturating_sub(offset);
            file.write(offset, &vec![0; inside as usize]);
        }
        if mode & KEEP_SIZE == 0 && end > file.live().len() {
            file.set_len(end);
        }
        state.touch(ino);
        Ok(())
    }

    /// Syncs a file: what was written before the call becomes durable, what is written meanwhile
    /// does not.
    pub(crate) fn sync_file(&self, ino: u64) -> Result<(), Errno> {
        let mut state = self.powered()?;
        let (_, file) = state.file(ino)?;
        let (written, named) = (file.mark(), state.names.mark());
        self.work(&mut state, self.rules.sync_micros)?;
        if !self.rules.lies {
            state.file(ino)?.1.sync_until(written);
            if self.rules.names == NamesRule::OneLog {
                state.names.sync_until(None, named);
            }
        }
        Ok(())
    }

    /// Syncs a directory: its changes from before the call become durable.
    pub(crate) fn sync_directory(&self, ino: u64) -> Result<(), Errno> {
        let mut state = self.powered()?;
        let number = state.directory(ino)?;
        let named = state.names.mark();
        self.work(&mut state, self.rules.sync_micros)?;
        if !self.rules.lies {
            let which = (self.rules.names == NamesRule::Directory).then_some(number);
            state.names.sync_until(which, named);
        }
        Ok(())
    }
}

impl State {
    fn touch(&mut self, ino: u64) {
        if let Some(meta) = self.metas.get_mut(&ino) {
            meta.modified = SystemTime::now();
        }
    }
}
