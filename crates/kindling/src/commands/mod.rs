//! One file per subcommand.

pub(crate) mod data;
pub(crate) mod devices;
pub(crate) mod eval;
pub(crate) mod models;
pub(crate) mod predict;
pub(crate) mod train;
