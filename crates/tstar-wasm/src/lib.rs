//! `tstar-core` as a WebAssembly module that imports nothing: any host runs it.
//!
//! A host writes bytes into the buffer of [`abi::input`], calls a function, and reads the answer
//! from [`abi::output`]. `npm/tstar.js` does that for JavaScript; README.md describes it for other
//! hosts.
//!
//! | module | what it does |
//! |---|---|
//! | `abi` | the exported functions |
//! | `module` | what they do: the buffers, and the trackers of a host |
//! | `rules` | rules as JSON, and what is a valid rule |
//! | `batch` | samples in columns, as a host sends them |
//! | `tracker` | a fleet, and how much memory it may use |
//! | `trip_json` | trips and events as JSON, with the fields of tstar's HTTP API |
//! | `sums` | sums of trips and stops over a span |
//! | `points` | the samples of a path as columns |
//! | `ids` | the forms of a trip id |

pub mod abi;
mod batch;
mod error;
mod ids;
mod module;
mod points;
mod rules;
mod sums;
mod tracker;
mod trip_json;

#[cfg(test)]
mod tests;
