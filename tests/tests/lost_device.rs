//! No finished step is lost with a device: what is saved, what is reported, and how the run goes on.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use kindling_tests::{
    Outcome, assert_same_bits, checkpoints, events, picture_folder, resume, steps, toml_value, train,
};
use tempfile::tempdir;

const FLAGS: &str = "--model mobilenet_v3_small --batch-size 8 --max-steps 5 --workers 1 --quiet";

fn losing(data: &Path, out: &Path, faults: &str, flags: &str) -> Command {
    let mut command = train(data, out, &format!("{FLAGS} {flags}"));
    command.env_remove("RUST_BACKTRACE").env("KINDLING_FAULT", faults);
    command
}

#[test]
fn a_lost_device_loses_no_finished_step_and_the_sentence_says_how_to_go_on() {
    let folder = tempdir().unwrap();
    let [data, straight, lost] = ["data", "straight", "lost"].map(|name| folder.path().join(name));
    picture_folder(&data, 24);
    Outcome::of(&mut losing(&data, &straight, "", "")).succeeded();
    let sentence = Outcome::of(&mut losing(&data, &lost, "lost@step=4,phase=backward", "")).refused();
    for part in ["lost at step 4", "status 700 (illegal address)", "saved as it was after step 3", "--resume"] {
        assert!(sentence.contains(part), "{sentence}");
    }
    let last = checkpoints(&lost).pop().unwrap();
    assert_eq!(toml_value(&last.join("state.toml"), "step"), "3");
    Outcome::of(&mut resume(&lost)).succeeded();
    assert_same_bits(&straight, &lost, "after the device was lost");
}

#[test]
fn restarts_on_device_loss_end_with_the_same_bits_and_are_counted() {
    let folder = tempdir().unwrap();
    let [data, straight, twice, once] = ["data", "straight", "twice", "once"].map(|name| folder.path().join(name));
    picture_folder(&data, 24);
    Outcome::of(&mut losing(&data, &straight, "", "")).succeeded();
    let faults = "lost@step=4,phase=backward;lost@step=5,phase=finite-check";
    let outcome = Outcome::of(&mut losing(&data, &twice, faults, "--restart-on-device-loss 2")).succeeded();
    assert_eq!(outcome.result()["steps"], 5, "the last process prints the result");
    assert_same_bits(&straight, &twice, "after two restarts");
    assert_eq!(steps(&twice), [1, 2, 3, 4, 5]);
    assert_eq!(events(&twice).iter().filter(|event| event["event"] == "resumed").count(), 2);
    // One restart fewer than needed: the run is saved and ends with the loss.
    let sentence = Outcome::of(&mut losing(&data, &once, faults, "--restart-on-device-loss 1")).refused();
    assert!(sentence.contains("lost at step 5") && sentence.contains("after step 4"), "{sentence}");
    assert_eq!(steps(&once), [1, 2, 3, 4]);
    // Any other failure is no reason to begin again.
    let other = folder.path().join("other");
    let sentence =
        Outcome::of(&mut losing(&data, &other, "error@step=2,phase=finite-check", "--restart-on-device-loss 5"))
            .refused();
    assert!(sentence.contains("failed at step 2"), "{sentence}");
}
