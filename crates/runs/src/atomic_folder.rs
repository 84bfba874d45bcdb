//! Folders that are there whole or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::atomic::sync_folder;
use crate::{RunError, kill};

/// How the folders of writes that were killed begin.
const UNFINISHED: &str = ".unfinished-";
/// How a folder begins that makes way for a new one of its name.
const REPLACED: &str = ".replaced-";

/// A folder that is being written and has no name yet.
#[derive(Debug)]
pub struct NewFolder {
    path: PathBuf,
}

impl NewFolder {
    /// Writes a file into it and forces it to the disk.
    ///
    /// # Errors
    /// [`RunError::DiskFull`] or [`RunError::Io`], naming the file.
    pub fn file(&self, name: &str, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), RunError> {
        let path = self.path.join(name);
        kill::reach("file");
        let mut file = File::create(&path).map_err(RunError::on("write", &path))?;
        let written = write(&mut file).and_then(|()| {
            if kill::asked("file-half") {
                let _ = file.metadata().and_then(|all| file.set_len(all.len() / 2));
                kill::now();
            }
            kill::reach("file-sync");
            file.sync_all()
        });
        written.map_err(RunError::on("write", &path))
    }
}

/// Writes a folder so that its name never shows an incomplete one; `fill` writes its files.
///
/// The files go to a hidden folder beside it, are forced to the disk, and the folder takes its name by a rename.
/// Killed, with a full disk or without power at any moment, `parent/name` is therefore either absent or complete. An older
/// folder of the same name is moved aside first, and [`tidy_folders`] moves it back if the kill came between the two
/// renames.
///
/// # Errors
/// What `fill` returns, or [`RunError::DiskFull`] or [`RunError::Io`], naming the file; nothing of the new folder is left.
pub fn write_folder_atomically(
    parent: &Path,
    name: &str,
    fill: impl FnOnce(&NewFolder) -> Result<(), RunError>,
) -> Result<PathBuf, RunError> {
    let hidden = NewFolder { path: parent.join(format!("{UNFINISHED}{name}")) };
    let target = parent.join(name);
    let written = create(&hidden.path)
        .and_then(|()| fill(&hidden))
        .and_then(|()| {
            kill::reach("folder-sync");
            sync_folder(&hidden.path).map_err(RunError::on("write", &hidden.path))
        })
        .and_then(|()| take_name(&hidden.path, parent, name))
        .and_then(|()| {
            kill::reach("folder-renamed");
            sync_folder(parent).map_err(RunError::on("write", parent))
        });
    if written.is_err() {
        // The error above is the one to report; that this fails as well would add nothing.
        let _ = fs::remove_dir_all(&hidden.path);
    }
    tidy_folders(parent);
    written.map(|()| target)
}

/// Cleans up after killed writes in a folder: incomplete folders are removed, and a folder that was moved aside gets its name
/// back, or is removed where a complete one has the name. A folder that cannot be removed is left there.
pub fn tidy_folders(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(REPLACED) || name.starts_with(UNFINISHED) {
            kill::reach("tidy");
        }
        if let Some(name) = name.strip_prefix(REPLACED)
            && !parent.join(name).exists()
        {
            let _ = fs::rename(entry.path(), parent.join(name));
        } else if name.starts_with(REPLACED) || name.starts_with(UNFINISHED) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn create(folder: &Path) -> Result<(), RunError> {
    kill::reach("folder");
    remove_if_there(folder)?;
    fs::create_dir_all(folder).map_err(RunError::on("create", folder))
}

fn take_name(hidden: &Path, parent: &Path, name: &str) -> Result<(), RunError> {
    let (target, aside) = (parent.join(name), parent.join(format!("{REPLACED}{name}")));
    if target.exists() {
        kill::reach("aside");
        remove_if_there(&aside)?;
        fs::rename(&target, &aside).map_err(RunError::on("replace", &target))?;
    }
    kill::reach("folder-rename");
    fs::rename(hidden, &target).map_err(RunError::on("write", &target))
}

fn remove_if_there(path: &Path) -> Result<(), RunError> {
    if path.exists() {
        fs::remove_dir_all(path).map_err(RunError::on("replace", path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn write(parent: &Path, name: &str, files: &[(&str, &str)]) -> Result<PathBuf, RunError> {
        write_folder_atomically(parent, name, |folder| {
            files.iter().try_for_each(|(file, text)| folder.file(file, |out| out.write_all(text.as_bytes())))
        })
    }

    fn names(parent: &Path) -> Vec<String> {
        let entries = fs::read_dir(parent).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_appears_whole_and_replaces_the_old_one_of_its_name() {
        let parent = tempfile::tempdir().unwrap();
        for text in ["first", "second"] {
            let path = write(parent.path(), "step-1", &[("a", text), ("b", "123")]).unwrap();
            assert_eq!(fs::read_to_string(path.join("a")).unwrap(), text);
        }
        assert_eq!(names(parent.path()), ["step-1"], "nothing hidden is left");
    }

    #[test]
    fn a_write_that_fails_leaves_nothing_and_the_others_alone() {
        let parent = tempfile::tempdir().unwrap();
        write(parent.path(), "step-1", &[("a", "7")]).unwrap();
        // A name with a folder that is not there cannot be created.
        for name in ["step-1", "step-2"] {
            assert!(write(parent.path(), name, &[("a", "1"), ("no/b", "2")]).is_err());
            assert_eq!(names(parent.path()), ["step-1"]);
            assert_eq!(fs::read_to_string(parent.path().join("step-1/a")).unwrap(), "7");
        }
    }

    #[test]
    fn what_a_killed_write_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        fs::create_dir(parent.path().join(".unfinished-step-3")).unwrap();
        fs::create_dir(parent.path().join("step-2")).unwrap();
        tidy_folders(parent.path());
        assert_eq!(names(parent.path()), ["step-2"]);
    }

    /// Between the two renames, and after the second.
    #[test]
    fn a_kill_while_a_folder_is_replaced_leaves_the_old_one_or_the_new_one() {
        let parent = tempfile::tempdir().unwrap();
        write(parent.path(), ".replaced-step-1", &[("a", "old")]).unwrap();
        fs::create_dir(parent.path().join(".unfinished-step-1")).unwrap();
        tidy_folders(parent.path());
        assert_eq!(names(parent.path()), ["step-1"]);
        assert_eq!(fs::read_to_string(parent.path().join("step-1/a")).unwrap(), "old");

        fs::create_dir(parent.path().join(".replaced-step-1")).unwrap();
        tidy_folders(parent.path());
        assert_eq!(names(parent.path()), ["step-1"]);
        assert_eq!(fs::read_to_string(parent.path().join("step-1/a")).unwrap(), "old");
    }
}
