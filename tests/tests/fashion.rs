//! Fashion-MNIST: what `scripts/fetch-fashion-mnist.sh` brings.

use std::process::ExitCode;

use kindling_tests::{Optional, Outcome, kindling, run_optional};
use serde_json::json;

fn main() -> ExitCode {
    let need = Optional { missing: missing(), required_by: "KINDLING_REQUIRE_DATA" };
    run_optional(need, &[("the_published_pictures_are_split_as_the_readme_says", the_splits)])
}

/// Only data that was never fetched counts as missing; data that was fetched and is damaged must fail.
fn missing() -> Option<String> {
    let outcome = Outcome::of(kindling().args(["data", "describe", "fashion-mnist", "--json"]));
    let not_fetched = outcome.code != Some(0) && outcome.stderr.contains("fashion-mnist is not here");
    not_fetched.then(|| "pictures of clothes: run scripts/fetch-fashion-mnist.sh".to_string())
}

fn the_splits() {
    let about = Outcome::of(kindling().args(["data", "describe", "fashion-mnist", "--json"])).succeeded().result();
    assert_eq!(about["classes"].as_array().map(Vec::len), Some(10));
    let samples = json!({ "train": vec![5500; 10], "val": vec![500; 10], "test": vec![1000; 10] });
    assert_eq!(about["samples"], samples);
}
