//! Every integration test, in one binary: a single link step and shared helpers.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]
#![recursion_limit = "256"] // futures of tests that process records

mod away;
mod backup;
mod blob_real;
mod chaos;
mod claims;
mod cli;
mod compose;
mod conformance;
mod containers;
mod control_keys;
mod cql;
mod docs;
mod doctor;
mod explain;
mod export_readers;
mod faults;
mod forget;
mod formats;
mod fuzz;
mod hostile;
mod http;
mod ids;
mod keyspace;
mod kill;
mod letters;
mod live;
mod metrics;
mod mistakes;
mod outage;
mod packages;
mod page;
mod private;
mod readme;
mod reads;
mod real_data;
mod replay;
mod replay_files;
mod run_mistakes;
mod schemas;
mod scylla;
mod serve_mistakes;
mod servers;
mod sql;
mod store_file;
mod support;
mod tags;
mod terminal;
mod tls;
mod topic;
mod verify;
mod verify_trip;
mod wasm;
