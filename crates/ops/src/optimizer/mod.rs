//! Operations of an optimizer's step on the tensors of a network's state: AdamW's update, and reductions over all tensors.

mod adamw;
mod state;
#[cfg(feature = "cube")]
mod state_cube;

pub use adamw::{AdamWStep, adamw};
pub use state::{first_numbers, squared_norm};
