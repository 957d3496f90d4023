//! tstar builds trips from out-of-order location samples and names each trip `<device, t_star>`,
//! `t_star` being the device time of the trip's first-arrived sample. Late samples grow a trip at
//! either end without touching its id; only a sample that joins two trips retires one, and the
//! retired id still finds the merged trip.
//!
//! # Layers
//! The lowest comes first. A module uses what stands above it in this table, and nothing below;
//! `tests/it/tidy.rs` holds the imports to it.
//!
//! | layer | module | what it does |
//! |---|---|---|
//! | model and decide | [`identity`] | the forms of a trip id, both ways |
//! | model and decide | [`model`] | types, rules and reasons that all layers share |
//! | model and decide | [`timeline`] | what a sample does to the trips of its device |
//! | model and decide | [`codec`] | a path as bytes, both ways |
//! | I/O | [`telemetry`] | what is counted and timed, as Prometheus reads it |
//! | I/O | [`source`] | bytes to samples, and to dead letters |
//! | I/O | [`store`] | rows in, rows out |
//! | I/O | [`views`] | trips as JSON, CSV, GeoJSON and GPX, and as events of the change feed |
//! | I/O | [`kafka`] | a topic as the log: records in and out, who holds what |
//! | pipeline | [`pipeline`] | source to timeline to store, for one partition and for many |
//! | operations | [`simulate`] | a fleet and its late, repeated and broken samples |
//! | operations | [`ops`] | verify, explain, samples by request, dead letters once more |
//! | interfaces | [`settings`] | what a user can set, from flags, environment, file and defaults |
//! | interfaces | [`http`] | trips over HTTP, as JSON and as a page |
//! | interfaces | `cli` (in `main.rs`) | flags, output, exit codes |
//!
//! # Invariants
//! Every test run may check them; the numbers are used in code and tests.
//! - I1 trips equal the reference model.
//! - I2 ids equal the model's; no id changes except by a merge; every published id resolves.
//! - I3 delivered = applied + duplicates + dropped + dead-lettered.
//! - I4 every bad sample is in the dead letters.
//! - I5 a device's trips are sorted, disjoint, and hold their `t_star`.
//! - I6 the committed position is never ahead of durable effect.
//! - I7 a time covered before and after an update is never "not found" during it.
//! - I8 lag returns to 0 after faults heal.
//! - I9 memory and files stay bounded.
//! - I10 SIGTERM: exit 0 within the drain limit, and nothing is read again.

pub mod codec;
pub mod http;
pub mod identity;
pub mod kafka;
pub mod model;
pub mod ops;
pub mod pipeline;
pub mod settings;
pub mod simulate;
pub mod source;
pub mod store;
pub mod telemetry;
pub mod timeline;
pub mod views;
