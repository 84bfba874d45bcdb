//! What the end-to-end tests share. The tests are in `tests/`, one file a topic; each runs the built command as a user
//! would and looks only at what a user sees: exit code, standard output, standard error, and the files of a run.
//!
//! The command is the one of the same build (`cargo test --workspace` builds it), or that in `KINDLING_BIN`.
//!
//! | module | holds |
//! |---|---|
//! | `command`, `flags`, `run`, `watch` | running the command, what it answered, the files of a run, its memory while it runs |
//! | `bench`, `pictures`, `volumes`, `short_run` | a folder with images and room for runs; short runs that several tests share |
//! | `same` | every comparison of runs; `tests/mutations.rs` shows which wrong results each of them sees |
//! | `cuda`, `beside` | the stand-in for CUDA (`cuda-on-cpu/`), built once for all tests; a network on it beside the CPU's |
//! | `optional`, `tasks` | tests that need what a machine may lack; tests of each task |
//! | `random`, `fill` | random numbers; numbers that a reference computes, too |
//! | `record` | figures of tests, for `benchmarks/` |
//! | `tensors` | reading and writing safetensors |
//! | `reference` | the book's pages on commands and models, as the command says them |

mod bench;
mod beside;
mod command;
mod cuda;
mod fill;
mod flags;
mod mounts;
mod optional;
mod pictures;
mod random;
mod record;
mod reference;
mod run;
mod same;
mod short_run;
mod tasks;
mod tensors;
mod volumes;
mod watch;

pub use bench::Bench;
pub use beside::{
    Beside, Distances, Moved, StepDistances, forward_beside_cpu, registry, step_beside_cpu, step_beside_moved,
};
pub use command::{Outcome, assert_says, kindling, sentence_of, train};
pub use cuda::{cuda_folder, cuda_on_cpu, on_cuda, train_on_cuda};
pub use fill::numbers_of;
pub use flags::Flags;
pub use mounts::private_mounts;
pub use optional::{
    Optional, Suite, Test, is_nightly, repeat_what_was_not_run, run_optional, run_optional_and_nightly,
};
pub use pictures::{CLASSES, disc, mask_folder, picture, picture_folder};
pub use random::{Rng, rng};
pub use record::record;
pub use reference::{is_classifier, reference_pages};
pub use run::{
    Started, checkpoints, columns, copy_folder, events, files_differ, iterations, json_of, losses, newest_step,
    step_numbers, steps, toml_value,
};
pub use same::{
    Apart, GRADIENTS, ONE_STEP, STILL, assert_near, assert_same_bits, gradients_apart, resume, same_bits, same_scores,
    steps_apart,
};
pub use short_run::{SHORT_STEPS, ShortRuns};
pub use tasks::{CLASSIFICATION, OfEachTask, SEGMENTATION, Task, When};
pub use tensors::{Stored, Tensors, read_tensors, write_tensors};
pub use volumes::{SPACING, VOLUME, VolumeFile, empty_planes, volume_folder};
pub use watch::{budget_with_room_for, sizes_along, watched};
