//! Simulated CQL nodes below the real `ScyllaStore`: three replicas, quorums, a network that
//! delays, repeats and loses, and conditional writes in one order.
//!
//! The nodes interpret the text of each statement and the bytes of its values, and answer in bytes,
//! so that nothing of the store is written a second time here. What they do with them follows the
//! rules of Cassandra, which `rules` lists and `cql::differential` compares with a real server.

mod connection;
mod data;
mod network;
mod plan;
mod read;
#[cfg(test)]
mod repairs;
#[cfg(test)]
mod rules;
mod statement;
mod syntax;

pub use connection::{Connection, SharedNodes, store};
pub use data::{Partition, Replica};
pub use network::{Nodes, PAIRS};
