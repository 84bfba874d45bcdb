//! Where files may be written to.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use kindling_runs::RunDir;

/// Fails if `path` is one of a run's own files, which another command wrote and reads again.
///
/// # Errors
/// A sentence with the file.
pub(crate) fn refuse_files_of_runs(path: &Path) -> Result<()> {
    let resolved = resolve(path);
    for folder in resolved.ancestors().skip(1) {
        let Ok(run) = RunDir::open(folder) else { continue };
        if run.owns(&resolved) {
            bail!("{} belongs to the run {} itself; write to another file", path.display(), run.path().display());
        }
    }
    Ok(())
}

/// A path without links, as far as it is there.
fn resolve(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    if let Ok(found) = absolute.canonicalize() {
        return found;
    }
    match (absolute.parent().map(resolve), absolute.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => absolute,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_runs_own_files_are_refused_by_any_path_and_others_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("run");
        fs::create_dir_all(run.join("checkpoints/step-00000001")).expect("a folder");
        fs::write(run.join("config.toml"), "").expect("a file");
        for own in ["weights.safetensors", "config.toml", "checkpoints/step-00000001/state.toml", "samples/1.png"] {
            assert!(refuse_files_of_runs(&run.join(own)).is_err(), "{own}");
        }
        for other in ["model.onnx", "exports/weights.safetensors", "mine.csv"] {
            assert!(refuse_files_of_runs(&run.join(other)).is_ok(), "{other}");
        }
        assert!(refuse_files_of_runs(&folder.path().join("weights.safetensors")).is_ok());
        #[cfg(unix)]
        {
            let link = folder.path().join("link.safetensors");
            fs::write(run.join("weights.safetensors"), "").expect("a file");
            std::os::unix::fs::symlink(run.join("weights.safetensors"), &link).expect("a link");
            assert!(refuse_files_of_runs(&link).is_err(), "through a link");
        }
    }
}
