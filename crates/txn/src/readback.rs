//! Reads small files back after their write (checkpoint_verify_writes): pg_control, and pages of
//! pg_xact. The buffer pool does this for pages of relations.

use std::path::Path;

use forebay_aio::{AioError, AlignedBuf, File, IoBackend, Namespace, OpenOptions};

use crate::error::TxnError;

/// A file that is read past the kernel's cache. None if nothing is to be verified.
#[derive(Debug)]
pub struct ReadBack(Option<File>);

impl ReadBack {
    /// Opens the file if `wanted`. Called before the file is written: a lack of descriptors later
    /// would look like a lost write.
    pub fn open(wanted: bool, names: &dyn Namespace, path: &Path) -> Result<ReadBack, AioError> {
        if !wanted {
            return Ok(ReadBack(None));
        }
        names.open(path, &OpenOptions::READ.direct(true)).map(|file| ReadBack(Some(file)))
    }

    /// Compares the disk with what was written and synced.
    ///
    /// # Errors
    /// The disk has something else, or could not be read twice in a row.
    pub fn verify(&self, io: &mut IoBackend, offset: u64, written: &[u8]) -> Result<(), TxnError> {
        let Some(file) = &self.0 else { return Ok(()) };
        forebay_aio::planted_bug!(io.aio(), ReadBackSkipsClogAndControl, return Ok(()));
        let mut found = AlignedBuf::zeroed(written.len())?;
        let got = io
            .read_at(file, offset, &mut found)
            .or_else(|_| io.read_at(file, offset, &mut found))?;
        if got == written.len() && found[..] == *written {
            return Ok(());
        }
        Err(TxnError::LostWrite { file: file.path().to_path_buf(), offset, len: written.len() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
    use forebay_aio::{AioConfig, BackendType, Errno, MethodKind, PosixNamespace, probe_direct};

    use super::*;

    #[test]
    fn only_what_was_written_will_do() {
        let dir = tempfile::tempdir().expect("a directory");
        if let Err(why) = probe_direct(dir.path()) {
            eprintln!("reading back is left out: {why}");
            return;
        }
        let path = dir.path().join("file");
        std::fs::write(&path, [7; 2 * 8192]).expect("written");
        let plan = FaultPlan::new();
        let aio = plan
            .open(Arc::new(PosixNamespace), MethodKind::Sync, AioConfig::default())
            .expect("aio");
        let mut io = aio.backend(BackendType::Client).expect("a backend");
        let file = ReadBack::open(true, aio.namespace().as_ref(), &path).expect("open");
        let mut verify = |offset, byte: u8| file.verify(&mut io, offset, &[byte; 8192]);
        verify(8192, 7).expect("it is there");
        let lost = verify(0, 8).expect_err("other bytes").to_string();
        assert!(lost.starts_with("lost write of 8192 bytes at offset 0 in file"), "{lost}");
        verify(2 * 8192, 7).expect_err("the file ends before it");
        plan.add(Rule::on(Ops::READ).times(1), Effect::Fail(Errno::IO));
        verify(0, 7).expect("read again");
        plan.add(Rule::on(Ops::READ).times(2), Effect::Fail(Errno::IO));
        let unread = verify(0, 7).expect_err("can't be read").to_string();
        assert!(unread.contains("Input/output error"), "{unread}");
        let nothing =
            ReadBack::open(false, aio.namespace().as_ref(), &path).expect("nothing to open");
        nothing.verify(&mut io, 0, &[8; 8192]).expect("nobody looks");
    }
}
