//! Allocations that the driver of a GPU refuses, one after the other: the run recovers and ends with the undisturbed run's
//! losses. Nothing is injected into Kindling here; the refusals come from the driver (of the stand-in for CUDA).

use std::path::Path;
use std::process::{Command, ExitCode};

use kindling_tests::{
    Outcome, ShortRuns, Started, Test, cuda_on_cpu, events, json_of, kindling, losses, on_cuda, record,
    run_optional_and_nightly, same_bits, step_numbers, steps_apart,
};
use serde_json::{Value, json};

/// How far losses may be apart where a recovery computed a step otherwise.
const ROUNDING: f64 = 1e-6;

fn main() -> ExitCode {
    let tests = vec![
        Test::new(
            "a_run_that_is_refused_memory_in_its_steps_ends_with_the_same_losses",
            a_run_that_is_refused_memory_in_its_steps_ends_with_the_same_losses,
        ),
        Test::new("the_driver_gives_what_the_plan_says", the_driver_gives_what_the_plan_says),
        Test::new("a_run_takes_no_more_at_its_end_than_it_tells", a_run_takes_no_more_at_its_end_than_it_tells),
        Test::new("a_budget_leaves_a_run_what_it_names_of_a_card", a_budget_leaves_a_run_what_it_names_of_a_card),
        Test::new(
            "a_benchmark_that_cannot_fit_is_refused_before_anything_is_computed",
            a_benchmark_that_cannot_fit_is_refused_before_anything_is_computed,
        ),
        Test::new("steps_of_no_run_take_what_is_planned", steps_of_no_run_take_what_is_planned),
    ];
    let nightly = vec![
        Test::new("each_allocation_of_a_run_may_be_refused", each_allocation_may_be_refused),
        Test::new("networks_on_cards_that_are_too_small_end_the_same", cards_that_are_too_small),
    ];
    run_optional_and_nightly(cuda_on_cpu(), tests, nightly, "some hours")
}

/// CubeCL asks once more when it is refused memory, after it has given back what it does not need. So two calls fail.
fn refused_at(places: impl IntoIterator<Item = u64>) -> String {
    let faults = places.into_iter().map(|place| format!("alloc:{place}=2,alloc:{}=2", place + 1));
    faults.collect::<Vec<_>>().join(",")
}

fn a_run_that_is_refused_memory_in_its_steps_ends_with_the_same_losses() {
    let runs = ShortRuns::new();
    // Just too small for a run to take in advance what it is planned to need: memory is asked for while steps are computed.
    let planned = planned("mobilenet_v3_small", 32);
    let card = Some(planned + planned / 16);
    let command = on_card(runs.train("undisturbed"), &runs.path("stats"), card);
    let undisturbed = Started::new(command, &runs.path("undisturbed"));
    // The first ten allocations or so hold the weights and what the warm-up makes, five more what the first step makes. Once one
    // is refused, the next ones are those of the state, which moves out of the way.
    let disturbed = [("first", refused_at([11, 14, 20])), ("second", refused_at([16]))].map(|(name, faults)| {
        let mut command = on_card(runs.train(name), &runs.path(&format!("{name}-stats")), card);
        command.env("CUDASIM_FAULTS", faults);
        Started::new(command, &runs.path(name))
    });
    let undisturbed = ShortRuns::finished(undisturbed);
    for run in disturbed.map(ShortRuns::finished) {
        let recovered = recoveries(&run);
        assert!(recovered.iter().any(|(during, _)| during == "training"), "memory ran out in no step: {recovered:?}");
        let told = same_losses(&undisturbed, &run).unwrap_or_else(|difference| panic!("{difference}"));
        println!("{recovered:?}: {told}");
    }
    // And a card that has four fifths of what the run took on a large one.
    let peak = peak_of(&runs.path("stats"));
    let small = on_card(runs.train("small"), &runs.path("small-stats"), Some(peak * 4 / 5));
    let run = ShortRuns::finished(Started::new(small, &runs.path("small")));
    assert!(!recoveries(&run).is_empty(), "{peak} bytes are not what it takes");
    let told = same_losses(&undisturbed, &run).unwrap_or_else(|difference| panic!("{difference}"));
    println!("on four fifths of {peak} bytes: {told}");
    tells_what_it_took(&run, &runs.path("small-stats"));
}

/// From the first weight to the last image of the test split. Kernels do nothing here.
fn the_driver_gives_what_the_plan_says() {
    let runs = ShortRuns::new();
    for (model, side) in [("mobilenet_v3_small", 64), ("resnet18", 64)] {
        let mut command = on_card(runs.train_model(model, model, side), &runs.path("stats"), None);
        command.env("CUDASIM_KERNELS", "none").env("CUDASIM_FILL", "2");
        let run = ShortRuns::finished(Started::new(command, &runs.path(model)));
        let (planned, taken) = (planned(model, side), peak_of(&runs.path("stats")));
        println!("{model} at {side} px: {planned} planned, {taken} taken");
        assert!(planned * 100 >= taken * 98 && planned * 100 <= taken * 105, "{planned} planned, {taken} taken");
        let told = json_of(&run.join("metrics.json"))["peak_memory_bytes"].as_u64();
        assert_eq!(told, Some(taken), "what is told is what the driver gave");
    }
}

/// A frozen backbone has nearly no state: the best weights, read at the end, would not fit beside it into what the steps took.
/// Kernels do nothing here, since only bytes are compared.
fn a_run_takes_no_more_at_its_end_than_it_tells() {
    let runs = ShortRuns::new();
    let of = |name: &str| {
        let mut command = on_card(runs.train_model(name, "efficientnet_lite3", 64), &runs.path("stats"), None);
        // Memory that nobody has written reads as the answer to 1 + 1, with which a device is tried.
        command.env("CUDASIM_KERNELS", "none").env("CUDASIM_FILL", "2");
        command
    };
    let whole = ShortRuns::finished(Started::new(of("whole"), &runs.path("whole")));
    let mut command = of("frozen");
    command.args(["--optimizer", "sgd", "--freeze", "backbone", "--weights"]).arg(whole.join("weights.safetensors"));
    let run = ShortRuns::finished(Started::new(command, &runs.path("frozen")));
    tells_what_it_took(&run, &runs.path("stats"));
}

/// On a card the peak is what the run takes plus what a budget keeps from it. Kernels do nothing here.
fn a_budget_leaves_a_run_what_it_names_of_a_card() {
    const CARD: u64 = 2 << 30;
    const CONTEXT: u64 = 120 << 20;
    let runs = ShortRuns::new();
    let peak = |name: &str, budget: Option<u64>| {
        let mut command = on_card(runs.train(name), &runs.path("stats"), Some(CARD));
        command.env("CUDASIM_KERNELS", "none").env("CUDASIM_FILL", "2").env("CUDASIM_CONTEXT", CONTEXT.to_string());
        command.args(["--micro-batch", "4", "--activation-checkpointing", "none"]);
        if let Some(bytes) = budget {
            command.args(["--memory-budget", &bytes.to_string()]);
        }
        ShortRuns::finished(Started::new(command, &runs.path(name)));
        peak_of(&runs.path("stats"))
    };
    let free = peak("free", None);
    for budget in [700_000_001, 300 << 20] {
        let held = peak(&format!("budget-{budget}"), Some(budget)) - free;
        let left = CARD - CONTEXT - held;
        println!("of {CARD} bytes with a context of {CONTEXT} a budget of {budget} keeps {held}: {left} are left");
        assert!(left.abs_diff(budget) * 50 <= budget, "{left} bytes are left of a card for a budget of {budget}");
    }
}

/// Opening a device adds two numbers on it. That is all that may happen: the weights alone would be made by a hundred launches, and the
/// budget would be held in pieces of 256 MiB.
fn a_benchmark_that_cannot_fit_is_refused_before_anything_is_computed() {
    const OPENING: u64 = 8;
    let runs = ShortRuns::new();
    let [stats, out] = [runs.path("stats"), runs.path("rows.json")];
    for (what, budget) in [("train", "10MiB"), ("infer", "4MiB")] {
        let mut command = kindling();
        command.args(["bench", what, "--device", "cuda", "--image-size", "64", "--batch-size", "4", "--no-isolate"]);
        command.args(["--models", "mobilenet_v3_small", "--activation-checkpointing", "auto"]);
        command.args(["--memory-budget", budget, "--out"]).arg(&out);
        on_cuda(&mut command, "6.1").env_remove("RUST_BACKTRACE");
        let outcome = Outcome::of(&mut on_card(command, &stats, None));
        assert_eq!(outcome.code, Some(1), "{}", outcome.all());
        let failed = &json_of(&out)["rows"][0]["failed"];
        assert_eq!(failed["kind"], "out-of-memory", "{failed}");
        let reason = failed["reason"].as_str().expect("a reason");
        assert!(reason.contains("do not fit") && reason.contains("by the planner"), "{reason}");
        let counted = json_of(&stats);
        let [launches, peak] = ["launches", "peak"].map(|name| counted[name].as_u64().expect("the stand-in counts"));
        println!("{what}: {launches} launches, {peak} bytes at most");
        assert!(launches <= OPENING && peak < 64 << 20, "{what} computed first: {counted}");
    }
}

/// What steps need is there before their networks are: the driver is asked for it once, and the same is taken by a measurement and by a
/// search for a learning rate as by a run. Kernels do nothing here.
fn steps_of_no_run_take_what_is_planned() {
    let runs = ShortRuns::new();
    let stats = runs.path("stats");
    let (model, side) = ("mobilenet_v3_small", 64);
    let planned = planned(model, side);
    let mut measuring = kindling();
    measuring.args(["bench", "train", "--device", "cuda", "--models", model, "--image-size", &side.to_string()]);
    measuring.args("--batch-size 4 --classes 3 --windows 1 --window-seconds 0.01 --warmup 1 --no-isolate".split(' '));
    let mut searching = kindling();
    searching.arg("find-lr").arg("--data").arg(runs.path("data")).args(["--device", "cuda", "--model", model]);
    searching.args(["--image-size", &side.to_string(), "--batch-size", "4", "--steps", "10", "--workers", "1"]);
    for (what, mut command) in [("bench", measuring), ("find-lr", searching)] {
        on_cuda(&mut command, "6.1").env("CUDASIM_KERNELS", "none").env("CUDASIM_FILL", "2");
        Outcome::of(&mut on_card(command, &stats, None)).succeeded();
        let taken = peak_of(&stats);
        println!("{what}: {planned} planned, {taken} taken");
        assert!(
            planned * 100 >= taken * 98 && planned * 100 <= taken * 105,
            "{what}: {planned} planned, {taken} taken"
        );
    }
}

/// The memory that a run reports is what the driver handed out.
fn tells_what_it_took(run: &Path, stats: &Path) {
    let told = json_of(&run.join("metrics.json"))["peak_memory_bytes"].as_u64().expect("a number of bytes");
    let taken = peak_of(stats);
    assert!(taken.abs_diff(told) * 20 <= taken, "{told} bytes are told, {taken} were taken");
}

/// The command on a card of so many bytes, or a large one, which counts in the file `stats`.
fn on_card(mut command: Command, stats: &Path, bytes: Option<u64>) -> Command {
    command.env("CUDASIM_STATS", stats);
    if let Some(bytes) = bytes {
        command.env("CUDASIM_MEMORY", bytes.to_string());
    }
    command
}

/// The most bytes that the driver gave away, by its counters.
fn peak_of(stats: &Path) -> u64 {
    json_of(stats)["peak"].as_u64().expect("the stand-in counts bytes")
}

fn each_allocation_may_be_refused() {
    let runs = ShortRuns::new();
    let mut command = runs.train("undisturbed");
    Outcome::of(command.env("CUDASIM_STATS", runs.path("stats"))).succeeded();
    let (undisturbed, stats) = (runs.path("undisturbed"), json_of(&runs.path("stats")));
    let all = stats["allocations"].as_u64().expect("the stand-in counts allocations");
    let mut wrong = Vec::new();
    for place in 1..=all {
        let name = format!("refused-{place}");
        let outcome = Outcome::of(runs.train(&name).env("CUDASIM_FAULTS", refused_at([place])));
        let run = runs.path(&name);
        let begun = run.join("events.jsonl").exists() && !losses_or_none(&run).is_empty();
        let found = match outcome.code {
            Some(0) => same_losses(&undisturbed, &run),
            // A device without room for anything is reported before a run begins.
            _ if !begun => Ok(format!("refused: {}", outcome.refused())),
            _ => Err(outcome.all()),
        };
        println!("allocation {place} of {all}: {found:?}");
        wrong.extend(found.err().map(|difference| format!("allocation {place}: {difference}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Networks of the sweep over small cards, with sides of images, cheapest first.
const SWEEP: [(&str, u32); 12] = [
    ("mobilenet_v3_small", 64),
    ("ghostnet_100", 64),
    ("mixnet_s", 64),
    ("mobilenet_v2", 64),
    ("efficientnet_b0", 64),
    ("resnet18", 64),
    ("mobilenet_v3_small", 112),
    ("mobilenet_v3_small", 160),
    ("mobilenet_v3_small", 224),
    ("resnet18", 112),
    ("resnet18", 160),
    ("resnet18", 224),
];

/// Ghost batches of the sweep: its batches of four have two of them, so that there is a smaller micro-batch.
const SWEPT_GROUP: usize = 2;

/// A card of the sweep.
struct Card {
    /// As a part of a run's name.
    name: String,
    bytes: u64,
    /// Whether a run must end well on it. Otherwise it may be refused if the planner says that it does not fit.
    is_enough: bool,
}

/// Networks on cards with smaller and smaller shares of what each takes on a large one, and at last on one that has a tenth more than the
/// planner says of the smallest step there is. `KINDLING_SWEEP=mobilenet_v2-64,resnet18` takes one network at one side and another at all
/// of its sides. What came out is added to the file that `KINDLING_RECORD` names, a line of JSON a run.
fn cards_that_are_too_small() {
    let wrong: Vec<String> = swept().into_iter().flat_map(|(model, side)| wrong_on_small_cards(model, side)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The part of [`SWEEP`] that is asked for.
fn swept() -> Vec<(&'static str, u32)> {
    let Ok(asked) = std::env::var("KINDLING_SWEEP") else { return SWEEP.to_vec() };
    let names: Vec<&str> = asked.split(',').map(str::trim).collect();
    let is_of = |name: &str, (model, side): (&str, u32)| name == model || name == format!("{model}-{side}");
    let unknown = names.iter().find(|name| !SWEEP.iter().any(|of| is_of(name, *of)));
    assert!(unknown.is_none(), "KINDLING_SWEEP: there is no `{}` in the sweep", unknown.unwrap_or(&""));
    SWEEP.into_iter().filter(|of| names.iter().any(|name| is_of(name, *of))).collect()
}

/// What is wrong with runs of a network, one after the other.
fn wrong_on_small_cards(model: &str, side: u32) -> Vec<String> {
    let runs = ShortRuns::new();
    let stats = runs.path("stats");
    let train = |name: &str, card: Option<u64>| {
        let mut command = runs.train_model(name, model, side);
        command.args(["--ghost-batch-size", &SWEPT_GROUP.to_string()]);
        Outcome::of(&mut on_card(command, &stats, card))
    };
    train("large", None).succeeded();
    let (peak, smallest) = (peak_of(&stats), smallest_step(model, side));
    let shares = [90, 75, 60, 45];
    let of_share = |share: u64| Card { name: format!("{share}-percent"), bytes: peak * share / 100, is_enough: false };
    let least = Card { name: "smallest-and-a-tenth".to_string(), bytes: smallest + smallest / 10, is_enough: true };
    let mut wrong = Vec::new();
    for Card { name, bytes, is_enough } in shares.into_iter().map(of_share).chain([least]) {
        let outcome = train(&name, Some(bytes));
        let found = match outcome.code {
            Some(0) => same_losses(&runs.path("large"), &runs.path(&name)),
            Some(1) if !is_enough && !fits_by_the_plan(model, side, bytes) => {
                Ok("refused, as by the planner".to_string())
            }
            _ => Err(outcome.all()),
        };
        println!("{model} at {side} px on {name}, {bytes} bytes of {peak}: {found:?}");
        record(&json!({
            "model": model, "image_size": side, "card": name, "memory_bytes": bytes, "peak_on_a_large_card": peak,
            "smallest_step_by_the_planner": smallest, "finished": outcome.code == Some(0), "as_promised": found.is_ok(),
            "found": found.as_ref().map_or_else(|text| text.lines().last().unwrap_or_default(), String::as_str),
        }));
        wrong.extend(found.err().map(|difference| format!("{model} at {side} px, {name}: {difference}")));
    }
    wrong
}

/// Whether, according to `kindling plan`, any form of a run of the sweep fits into so many bytes.
fn fits_by_the_plan(model: &str, side: u32, bytes: u64) -> bool {
    rows_of_plan(model, side, SWEPT_GROUP, bytes).iter().any(|row| !row["micro_batch"].is_null())
}

/// The bytes that a single normalisation group of the sweep takes according to `kindling plan`, with activations computed again by blocks:
/// the plan says what the largest micro-batch takes that fits, so it is asked for less and less.
fn smallest_step(model: &str, side: u32) -> u64 {
    let within = |bytes| {
        let rows = rows_of_plan(model, side, SWEPT_GROUP, bytes);
        let row = rows.iter().find(|row| row["recompute"] == "blocks").expect("a row by blocks");
        row["prediction"]["peak"].as_u64()
    };
    let mut least = within(1 << 40).expect("all fits into a terabyte");
    while let Some(less) = within(least - 1) {
        least = less;
    }
    least
}

/// The bytes that a short run needs according to `kindling plan`.
fn planned(model: &str, side: u32) -> u64 {
    let rows = rows_of_plan(model, side, 4, 1 << 40);
    let row = rows.iter().find(|row| row["recompute"] == "none").expect("a row without recomputation");
    row["prediction"]["peak"].as_u64().expect("a number of bytes")
}

/// The forms of the short run in float32, with ghost batches of so many samples on a card of so many bytes.
fn rows_of_plan(model: &str, side: u32, group: usize, bytes: u64) -> Vec<Value> {
    let mut command = kindling();
    command.args(["plan", "--device", "cuda", "--format", "json", "--batch-size", "4", "--classes", "3"]);
    command.args(["--model", model, "--image-size", &side.to_string(), "--memory", &bytes.to_string()]);
    command.args(["--ghost-batch-size", &group.to_string()]);
    let plan = Outcome::of(&mut command).succeeded().result();
    let rows = plan["rows"].as_array().expect("rows");
    rows.iter().filter(|row| row["precision"] == "f32").cloned().collect()
}

fn losses_or_none(run: &Path) -> Vec<f64> {
    if events(run).iter().any(|event| event["event"] == "step") { losses(run) } else { Vec::new() }
}

/// What was going on at each recovery, and how many steps were done.
fn recoveries(run: &Path) -> Vec<(String, u64)> {
    let events = events(run).into_iter().filter(|event| event["event"] == "recovered");
    let told = |event: Value| (event["during"].as_str().unwrap_or_default().to_string(), event["step"].as_u64());
    events.map(told).map(|(during, step)| (during, step.expect("a recovery belongs to a step"))).collect()
}

/// Whether two runs are the same: bit for bit where every step was computed in the same way, otherwise to within [`ROUNDING`].
/// Returns which of the two it was.
fn same_losses(undisturbed: &Path, run: &Path) -> Result<String, String> {
    let levers: Vec<String> = events(run)
        .into_iter()
        .filter(|event| event["event"] == "recovered")
        .filter_map(|event| event["lever"].as_str().map(str::to_string))
        .collect();
    let as_before = step_numbers(undisturbed, "micro_batch") == step_numbers(run, "micro_batch")
        && !levers.iter().any(|lever| lever.contains("recomputation"));
    if as_before {
        return same_bits(undisturbed, run).map(|()| format!("the same bits after {levers:?}"));
    }
    let (loss, norm) = steps_apart(undisturbed, run)?;
    let told = format!("losses {loss:.1e} and norms {norm:.1e} apart after {levers:?}");
    if loss <= ROUNDING { Ok(told) } else { Err(told) }
}
