//! Every integration test, in one binary: a single link step and shared helpers.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod arrivals;
mod away;
mod blob_real;
mod chaos;
mod claims;
mod cli;
mod conformance;
mod containers;
mod control_keys;
mod cql;
mod docs;
mod doctor;
mod explain;
mod faults;
mod forget;
mod formats;
mod fuzz;
mod hostile;
mod http;
mod ids;
mod keyspace;
mod letters;
mod metrics;
mod model;
mod nodes;
mod outage;
mod page;
mod private;
mod processing;
mod protocol;
mod readme;
mod reads;
mod real_data;
mod replay;
mod replay_files;
mod schemas;
mod scylla;
mod servers;
mod store_file;
mod support;
mod tidy;
mod tls;
mod topic;
mod verify;
