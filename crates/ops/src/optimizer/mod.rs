//! What an optimizer's step does with the tensors of a network's state: AdamW's update, the gradients' norm, the move of running
//! averages, and a look at each.

mod adamw;
#[cfg(feature = "cube")]
mod cube;
mod state;

pub use adamw::{AdamWStep, AdamWTensors, adamw, adamw_serves};
pub use state::{first_numbers, lerp, squared_norm};
