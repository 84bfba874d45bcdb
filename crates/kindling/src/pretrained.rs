//! Pretrained weights files in the cache.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use data_encoding::HEXLOWER;
use kindling_data::{Fit, Interpolation, Normalisation, Preprocess};
use kindling_files as files;
use kindling_runs::RunDir;
use kindling_zoo::{Filter, Model, Pretrained, pretrained_for};
use sha2::{Digest, Sha256};

use crate::dataset::cache;

/// Pretrained weights for a model, once the file is there and its checksum right.
pub(crate) fn find(model: &Model) -> Result<(&'static Pretrained, PathBuf)> {
    let name = model.key();
    let Some(known) = model.pretrained() else {
        match pretrained_for(model.entry).next() {
            Some(other) => bail!(
                "there are no pretrained weights for {name}, but for the same network with other details: --model {}",
                other.model
            ),
            None => bail!(
                "no pretrained weights are known for {name}; `kindling models --pretrained` lists the models that have \
                 them, and train, forward and export take a file of your own with --weights"
            ),
        }
    };
    let path = cache()?.join("weights").join(known.file);
    if !path.is_file() {
        bail!("{} is not there; scripts/fetch-weights.sh brings it", path.display());
    }
    let found = sha256(&path).with_context(|| format!("reading {}", path.display()))?;
    if found != known.sha256 {
        bail!("{} is damaged (its SHA-256 is wrong); scripts/fetch-weights.sh replaces it", path.display());
    }
    Ok((known, path))
}

/// The file of weights that a user names: the file itself, or the best weights of a run.
pub(crate) fn file_of(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_path_buf());
    }
    let weights = RunDir::open(path)?.weights();
    if !weights.is_file() {
        bail!(
            "{} has no weights yet: they are written with its first validation; `kindling train --resume` continues the run",
            path.display()
        );
    }
    Ok(weights)
}

/// Images as the weights were measured with them.
pub(crate) fn preprocess(known: &Pretrained) -> Preprocess {
    Preprocess {
        fit: Fit::Crop(known.resize),
        interpolation: match known.interpolation {
            Filter::Bilinear => Interpolation::Bilinear,
            Filter::Bicubic => Interpolation::Bicubic,
        },
        ..Preprocess::padded(known.input_size, 3, normalisation(known, 3))
    }
}

/// The constants that the weights expect: for grey images, which a folded stem takes for all channels, their means.
pub(crate) fn normalisation(known: &Pretrained, channels: usize) -> Normalisation {
    let of = |values: [f32; 3]| match channels {
        1 => vec![values.iter().sum::<f32>() / 3.0],
        _ => values.to_vec(),
    };
    Normalisation { mean: of(known.mean), std: of(known.std) }
}

fn sha256(path: &Path) -> io::Result<String> {
    let mut file = files::open(path)?;
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    Ok(HEXLOWER.encode(&hasher.finalize()))
}
