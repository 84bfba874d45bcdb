//! Shards that are written by hand.

use std::fs;
use std::path::Path;

use tar::{Builder, Header};

/// Names and bytes.
pub(crate) type Members<'a> = &'a [(&'a str, &'a [u8])];

/// Writes a tar file with these members.
pub(crate) fn shard(path: &Path, members: Members) {
    let mut tar = Builder::new(fs::File::create(path).unwrap());
    for (name, bytes) in members {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        tar.append_data(&mut header, name, *bytes).unwrap();
    }
    tar.finish().unwrap();
}
