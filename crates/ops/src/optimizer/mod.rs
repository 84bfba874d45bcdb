//! What an optimizer's step does with the tensors of a network's state: AdamW's update, the gradients' norm, and a look at each.

mod adamw;
mod state;
#[cfg(feature = "cube")]
mod state_cube;

pub use adamw::{AdamWStep, adamw};
pub use state::{first_numbers, squared_norm};
