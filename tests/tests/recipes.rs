//! The recipes of `scripts/cluster/` give the command only flags that it has.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use kindling_tests::{Outcome, kindling};

/// What stands for the command in a line of a recipe, or in how one is called.
fn is_the_command(word: &str) -> bool {
    ["kindling", "${KINDLING:-kindling}"].contains(&word)
        || word.starts_with("scripts/cluster/") && word.ends_with(".sh")
}

/// The lines of a recipe with those that go on in the next one, and examples in comments, as words without quotes.
fn lines(recipe: &str) -> Vec<Vec<String>> {
    let mut whole = String::new();
    for line in recipe.lines() {
        // What a scheduler reads is not for the command.
        if line.starts_with("#SBATCH") || line.starts_with("#!") {
            continue;
        }
        let line = line.trim_start().trim_start_matches('#').trim();
        match line.strip_suffix('\\') {
            Some(begun) => whole += &format!("{begun} "),
            // A list of YAML.
            None if line.ends_with(',') => whole += &format!("{line} "),
            None => whole += &format!("{line}\n"),
        }
    }
    let words = |line: &str| -> Vec<String> {
        let separated = line.replace([',', '[', ']', '(', ')'], " ");
        separated.split_whitespace().map(|word| word.trim_matches(['"', '\'']).to_owned()).collect()
    };
    whole.lines().map(words).collect()
}

/// The flags that a recipe gives to each subcommand. Where a recipe hands on what it is called with, that is a training; so are the flags
/// that it keeps in a variable.
fn flags_of(recipe: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for words in lines(recipe) {
        let kept = words.iter().position(|word| word.starts_with("FLAGS="));
        let Some(place) = kept.or_else(|| words.iter().position(|word| is_the_command(word))) else { continue };
        let given = &words[place + 1..];
        let known = ["train", "eval", "predict", "plan", "card", "devices"];
        let command = given.iter().find(|word| known.contains(&word.as_str())).map_or("train", String::as_str);
        let flags = given.iter().filter(|word| word.len() > 2 && word.starts_with("--"));
        let names = flags.map(|flag| flag.split('=').next().unwrap().to_owned());
        found.entry(command.to_owned()).or_default().extend(names);
    }
    found
}

/// The flags that a subcommand says it has.
fn known_to(command: &str) -> BTreeSet<String> {
    let help = Outcome::of(kindling().args([command, "--help"])).succeeded().stdout;
    let lines = help.lines().filter(|line| line.trim_start().starts_with('-'));
    // `-q, --quiet` or `--out <DIR>`; what is said of a flag is further to the right.
    let lines = lines.filter(|line| line.len() - line.trim_start().len() <= 6);
    let names = lines.filter_map(|line| line.split([' ', '[', '=']).find(|word| word.starts_with("--")));
    names.map(str::to_owned).collect()
}

/// Flags that are given and are not there.
fn unknown(recipe: &str) -> Vec<String> {
    let given = flags_of(recipe).into_iter();
    given.flat_map(|(command, flags)| flags.difference(&known_to(&command)).cloned().collect::<Vec<_>>()).collect()
}

#[test]
fn every_flag_of_the_recipes_is_one_of_the_command() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/cluster");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let recipe = fs::read_to_string(&path).unwrap();
        let flags = &flags_of(&recipe)["train"];
        for flag in ["--data", "--out", "--resume-or-start"] {
            assert!(flags.contains(flag), "{} is misread: {flags:?}", path.display());
        }
        assert_eq!(unknown(&recipe), Vec::<String>::new(), "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 5);
}

#[test]
fn a_flag_that_the_command_does_not_have_is_found_wherever_a_recipe_may_have_it() {
    for recipe in [
        "srun --mpi=pmix kindling train --data x --no-such-flag",
        "srun kindling train --data x \\\n    --no-such-flag=3",
        "FLAGS=(--data \"$DATA\" --no-such-flag 50)",
        "exec mpirun -n 2 \"${KINDLING:-kindling}\" \"$@\" --no-such-flag",
        "#   bash scripts/cluster/hosts.sh \"node1:1\" train --data x --no-such-flag",
        "command: [\"mpirun\", \"kindling\", \"train\", \"--data\",\n          \"--no-such-flag\"]",
        "--wrap \"$(printf '%q ' kindling train --no-such-flag)\"",
        "kindling eval run --no-such-flag",
    ] {
        assert_eq!(unknown(recipe), ["--no-such-flag"], "{recipe}");
    }
    assert_eq!(unknown("mpirun --no-such-flag kindling train --data x"), Vec::<String>::new(), "a launcher's flag");
}
