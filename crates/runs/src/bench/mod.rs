//! Benchmarks: what was measured, on what, and how two measurements compare.
//!
//! A [`Row`] is one configuration measured in one process. It carries everything that is needed to repeat it: what was
//! computed ([`Configuration`], with a hash that other engines compute alike), how it was timed ([`Protocol`]) and what it
//! ran on. A row that failed is a row with its reason. Files hold several ([`Rows`]).

mod comparison;
mod configuration;
mod row;
mod rows;
mod tables;

pub use comparison::{Comparison, Pair, Verdict};
pub use configuration::{Configuration, What};
pub use row::{Conditions, Energy, Failure, FailureKind, Measured, MemoryUsed, Outcome, Protocol, Row, Window};
pub use rows::Rows;
pub use tables::{comparison_table, csv, machine, markdown, table};
