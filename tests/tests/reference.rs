//! The book's reference is what the built command says. With `KINDLING_WRITE_REFERENCE=1` the pages are written.

use std::fs;
use std::path::Path;

use kindling_tests::{Outcome, is_classifier, kindling, reference_pages};
use serde_json::Value;

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
        // A checkout may have other line endings.
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

/// The numbers of models in the documents are those of the registry.
#[test]
fn models_are_counted_by_the_registry() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the repository");
    let listed = Outcome::of(kindling().args(["models", "--format", "json"])).succeeded().stdout;
    let models: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect();
    let gans: Vec<&Value> = models.iter().filter(|model| model["family"] == "GAN").collect();
    let classifiers: Vec<&Value> = models.iter().filter(|model| is_classifier(model)).collect();
    let aliases = |model: &&Value| model["aliases"].as_array().map_or(0, Vec::len);
    let names: usize = classifiers.iter().map(|model| 1 + aliases(model)).sum();
    let mut wrong = Vec::new();
    let mut said = 0;
    let mut documents = vec![root.join("README.md"), root.join("CHANGELOG.md"), root.join("ARCHITECTURE.md")];
    let in_folder = |folder: &str| {
        fs::read_dir(root.join(folder)).expect("a folder of documents").flatten().map(|entry| entry.path())
    };
    for folder in ["docs", "docs/how-to", "docs/concepts", "docs/reference"] {
        // The page of benchmarks says how many models there were when they were measured.
        documents.extend(
            in_folder(folder)
                .filter(|path| path.extension().is_some_and(|it| it == "md") && !path.ends_with("benchmarks.md")),
        );
    }
    for path in documents {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.windows(2) {
            let what = pair[1].trim_matches(|letter: char| !letter.is_alphanumeric());
            let (Ok(count), true) =
                (pair[0].parse::<usize>(), ["classifiers", "models", "names", "GANs"].contains(&what))
            else {
                continue;
            };
            said += 1;
            let right = match what {
                "GANs" => gans.len(),
                "names" => names,
                _ => classifiers.len(),
            };
            if count != right {
                wrong.push(format!("{} says {count} {what}, and there are {right}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(said >= 4, "documents say how many there are");
}

/// The first line in which two texts differ, counted from 1.
fn first_difference(one: &str, other: &str) -> Option<usize> {
    if one == other {
        return None;
    }
    let same = one.split('\n').zip(other.split('\n')).take_while(|(one, other)| one == other).count();
    Some(same + 1)
}
