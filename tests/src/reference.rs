//! The pages of the book that say what the command says: the help of every command, and the models of the zoo.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use crate::command::{Outcome, kindling};

/// How pages are written again.
const HOW: &str =
    "`cargo build --release && KINDLING_WRITE_REFERENCE=1 cargo test --release -p kindling-tests --test reference`";

/// The generated pages, by their path in the repository.
///
/// # Panics
/// If the command does not answer.
pub fn reference_pages() -> Vec<(&'static str, String)> {
    vec![("docs/reference/commands.md", commands()), ("docs/reference/models.md", models())]
}

fn heading(title: &str, about: &str) -> String {
    format!(
        "# {title}\n\n<!-- Written from the built command by {HOW}: change the command, not this page. -->\n\n{about}\n"
    )
}

/// Standard output of the command, which must not depend on the terminal.
fn say(arguments: &[&str]) -> String {
    Outcome::of(kindling().args(arguments).env_remove("COLUMNS")).succeeded().stdout
}

fn commands() -> String {
    let mut page = heading("Commands", "What each command says for `--help`. Flags of one group stand under its name.");
    add_command(&mut page, &[]);
    page
}

/// The help of a command, then that of the commands below it.
fn add_command(page: &mut String, path: &[&str]) {
    let help = say(&[path, &["--help"]].concat());
    let title = ["kindling"].iter().chain(path).copied().collect::<Vec<_>>().join(" ");
    let text = help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    let _ = write!(page, "\n## {title}\n\n```text\n{}\n```\n", text.trim());
    for name in below(&help) {
        add_command(page, &[path, &[name]].concat());
    }
}

/// The commands that a help lists.
fn below(help: &str) -> Vec<&str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // What goes on from the line before is set in further.
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

fn models() -> String {
    let listed = say(&["models", "--format", "json"]);
    let models: Vec<Value> =
        listed.lines().map(|line| serde_json::from_str(line).expect("a model is a JSON object")).collect();
    let (classifiers, others): (Vec<&Value>, Vec<&Value>) = models.iter().partition(|model| is_classifier(model));
    let (gans, segmenting): (Vec<&Value>, Vec<&Value>) = others.iter().partition(|model| model["family"] == "GAN");
    let names: usize = classifiers.iter().map(|model| 1 + texts(&model["aliases"]).len()).sum();
    let about = format!(
        "{} classifiers under {names} names, {} networks for segmentation, and {} GANs. Parameters are counted for 1000 classes, of \
         segmentation for 2, and three channels, multiply-adds for one image of 512x512. A GAN counts both of its networks, at its own image size. `kindling \
         models show NAME` counts for any size.\n\nA name decides whose details the model has. `timm.NAME` means timm's \
         details, where the bare name means torchvision's.",
        classifiers.len(),
        segmenting.len(),
        gans.len()
    );
    let mut page = heading("Models", &about);
    let mut families: Vec<&str> = Vec::new();
    for model in &models {
        let family = text(&model["family"]);
        if !families.contains(&family) {
            families.push(family);
        }
    }
    for family in families {
        let _ = write!(
            page,
            "\n## {family}\n\n| model | details of | parameters, millions | multiply-adds, billions | other names |\n\
             |---|---|---:|---:|---|\n"
        );
        for model in models.iter().filter(|model| text(&model["family"]) == family) {
            let others: Vec<String> = texts(&model["aliases"]).iter().map(|name| format!("`{name}`")).collect();
            let macs =
                model["macs_512"].as_f64().or_else(|| model["macs"].as_f64()).expect("a model has multiply-adds");
            let params = model["params"].as_f64().expect("a model has parameters");
            let _ = writeln!(
                page,
                "| `{}` | {} | {:.2} | {:.3} | {} |",
                text(&model["name"]),
                text(&model["reference"]),
                params / 1e6,
                macs / 1e9,
                others.join(", ")
            );
        }
    }
    page.push_str(&pretrained(&models));
    page
}

/// Whether a model, as `kindling models --format json` has it, gives images a class.
pub fn is_classifier(model: &Value) -> bool {
    model["family"] != "GAN" && model["family"] != "segmentation"
}

/// The weights that `scripts/fetch-weights.sh` brings.
fn pretrained(models: &[Value]) -> String {
    let mut rows = BTreeMap::new();
    for known in models.iter().filter_map(|model| model["pretrained"].as_array()).flatten() {
        let row = format!(
            "| `{}` | {} | {} | {} | {} |\n",
            text(&known["model"]),
            text(&known["data"]),
            known["classes"],
            known["input_size"],
            text(&known["licence"])
        );
        rows.insert(text(&known["model"]), row);
    }
    let rows: String = rows.into_values().collect();
    format!(
        "\n## Pretrained weights\n\n`scripts/fetch-weights.sh` brings them. `kindling models --pretrained --format json` \
         has origins and checksums.\n\n| model | trained on | classes | pixels | licence |\n|---|---|---:|---:|---|\n{rows}"
    )
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} should be a text"))
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().map(|values| values.iter().map(text).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn commands_below_are_found_and_their_descriptions_are_not() {
        let help = "About\n\nUsage: x <COMMAND>\n\nCommands:\n  train  Train a model, and\n             continue\n  help   Print\n\n\
                    Options:\n  -h  Print help\n";
        assert_eq!(below(help), ["train"]);
        assert!(below("Usage: x\n\nOptions:\n  -h  Print help\n").is_empty());
    }
}
