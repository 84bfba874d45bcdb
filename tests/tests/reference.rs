//! The book's reference is what the built command says. With `KINDLING_WRITE_REFERENCE=1` the pages are written.

use std::fs;
use std::path::Path;

use kindling_tests::reference_pages;

#[test]
fn the_reference_pages_are_what_the_command_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the repository");
    let write = std::env::var("KINDLING_WRITE_REFERENCE").is_ok_and(|value| value == "1");
    let mut stale = Vec::new();
    for (path, page) in reference_pages() {
        let place = root.join(path);
        if write {
            fs::write(&place, &page).unwrap_or_else(|error| panic!("{} cannot be written: {error}", place.display()));
        }
        // A checkout may have other ends of lines.
        let committed = fs::read_to_string(&place).unwrap_or_default().replace("\r\n", "\n");
        if let Some(line) = first_difference(&committed, &page) {
            stale.push(format!("{path}, line {line}"));
        }
    }
    assert!(
        stale.is_empty(),
        "pages that do not say what the command says: {}. `cargo build --release && KINDLING_WRITE_REFERENCE=1 cargo test \
         --release -p kindling-tests --test reference` writes them",
        stale.join("; ")
    );
}

/// The first line in which two texts differ, counted from 1.
fn first_difference(one: &str, other: &str) -> Option<usize> {
    if one == other {
        return None;
    }
    let same = one.split('\n').zip(other.split('\n')).take_while(|(one, other)| one == other).count();
    Some(same + 1)
}
