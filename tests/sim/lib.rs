//! Simulations of tstar, and what they share with the suites of servers (`tests/it`): reference
//! models, and the nodes of a simulated CQL cluster.
//!
//! A package of its own, so that what computes is optimised and what waits for servers is not, and
//! so that the private modules of tstar are open to tests alone: this package turns on their
//! feature `internals`.

// The futures of a worker lie deep in one another.
#![recursion_limit = "256"]
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]
#![allow(missing_docs)]

pub mod counts;
pub mod model;
pub mod nodes;
pub mod support;

#[cfg(test)]
mod allocator;
#[cfg(test)]
mod arrivals;
#[cfg(test)]
mod fresh;
#[cfg(test)]
mod mock;
#[cfg(test)]
mod processing;
#[cfg(test)]
mod protocol;
#[cfg(test)]
mod random_ids;
#[cfg(test)]
mod vectors;
