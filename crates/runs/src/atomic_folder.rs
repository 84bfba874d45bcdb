//! Folders that are there whole or not at all.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::RunError;
use crate::atomic::sync_folder;

/// How the folders of writes that were killed begin.
const UNFINISHED: &str = ".unfinished-";

/// Writes a folder of files so that its name never shows an incomplete one.
///
/// The files go to a hidden folder beside it, are forced to the disk, and the folder takes its name by a rename.
/// Killed, with a full disk or without power at any moment, `parent/name` is therefore either absent (or the old one)
/// or complete. An older folder of the same name is replaced; that alone is not atomic, and between its removal and
/// the rename a kill leaves neither, so give every version a name of its own.
///
/// # Errors
/// [`RunError::DiskFull`] or [`RunError::Io`], naming the file; nothing of the new folder is left.
pub fn write_folder_atomically(parent: &Path, name: &str, files: &[(&str, Vec<u8>)]) -> Result<PathBuf, RunError> {
    let hidden = parent.join(format!("{UNFINISHED}{name}"));
    let target = parent.join(name);
    let written = fill(&hidden, files)
        .and_then(|()| take_name(&hidden, &target))
        .and_then(|()| sync_folder(parent).map_err(RunError::on("write", parent)));
    if written.is_err() {
        // The error above is the one to report; that this fails as well would add nothing.
        let _ = fs::remove_dir_all(&hidden);
    }
    written.map(|()| target)
}

/// Removes what killed writes left in a folder. That one cannot be removed is no reason to stop.
pub fn remove_unfinished_folders(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn fill(hidden: &Path, files: &[(&str, Vec<u8>)]) -> Result<(), RunError> {
    remove_if_there(hidden)?;
    fs::create_dir_all(hidden).map_err(RunError::on("create", hidden))?;
    for (name, bytes) in files {
        let path = hidden.join(name);
        let mut file = File::create(&path).map_err(RunError::on("write", &path))?;
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(RunError::on("write", &path))?;
    }
    sync_folder(hidden).map_err(RunError::on("write", hidden))
}

fn take_name(hidden: &Path, target: &Path) -> Result<(), RunError> {
    remove_if_there(target)?;
    fs::rename(hidden, target).map_err(RunError::on("write", target))
}

fn remove_if_there(path: &Path) -> Result<(), RunError> {
    if path.exists() {
        fs::remove_dir_all(path).map_err(RunError::on("replace", path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_appears_whole_and_replaces_the_old_one_of_its_name() {
        let parent = tempfile::tempdir().unwrap();
        for text in ["first", "second"] {
            let files = [("a", text.as_bytes().to_vec()), ("b", vec![1, 2, 3])];
            let path = write_folder_atomically(parent.path(), "step-1", &files).unwrap();
            assert_eq!(fs::read_to_string(path.join("a")).unwrap(), text);
        }
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "nothing hidden is left");
    }

    #[test]
    fn a_write_that_fails_leaves_nothing_and_the_others_alone() {
        let parent = tempfile::tempdir().unwrap();
        write_folder_atomically(parent.path(), "step-1", &[("a", vec![7])]).unwrap();
        // A name with a folder that is not there cannot be created.
        let failed = write_folder_atomically(parent.path(), "step-2", &[("a", vec![1]), ("no/b", vec![2])]);
        assert!(failed.is_err());
        let names: Vec<_> = fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["step-1"]);
    }

    #[test]
    fn what_a_killed_write_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        fs::create_dir(parent.path().join(".unfinished-step-3")).unwrap();
        fs::create_dir(parent.path().join("step-2")).unwrap();
        remove_unfinished_folders(parent.path());
        let names: Vec<_> = fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["step-2"]);
    }
}
