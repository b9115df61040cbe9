//! A disk's contents as ordinary files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use forebay_sim::Node;

use crate::disk::Disk;

impl Disk {
    /// Writes all files into a new folder.
    ///
    /// # Errors
    /// As the call that failed.
    pub fn save(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let state = self.state.lock();
        for (path, node) in state.names.all() {
            let to = folder.join(path.strip_prefix("/").unwrap_or(&path));
            match node {
                Node::Directory(_) => fs::create_dir_all(&to)?,
                Node::File(number) => {
                    let Some(file) = state.files.get(&number) else { continue };
                    let mut bytes = vec![0; file.live().len() as usize];
                    file.live().read(0, &mut bytes);
                    File::create(&to)?.write_all(&bytes)?;
                }
            }
        }
        Ok(())
    }
}
