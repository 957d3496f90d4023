//! tstar builds trips from out-of-order location samples and names each trip `<device, t_star>`,
//! `t_star` being the device time of the trip's first-arrived sample. Late samples grow a trip at
//! either end without touching its id; only a sample that joins two trips retires one, and the
//! retired id still finds the merged trip.
//!
//! # The house
//! Three rings. Each line of code belongs in one of them.
//!
//! | ring | room | what happens there |
//! |---|---|---|
//! | decide | [`timeline`] | what a sample does to the trips of its device; pure |
//! | decide | [`identity`] | the forms of a trip id, both ways; pure |
//! | decide | [`blob`] | a path as bytes, both ways; pure |
//! | touch the world | [`source`] | bytes to samples, and to dead letters |
//! | touch the world | [`store`] | rows in, rows out |
//! | touch the world | [`kafka`] | a topic as the log: records in and out, who holds what |
//! | touch the world | [`http`] | trips over HTTP, as JSON and as a page |
//! | join | [`processor`] | source to timeline to store, for one partition |
//! | join | [`daemon`] | the partitions of a topic, each with an owner |
//! | join | [`verify`] | a store beside one that is built anew from its log |
//! | join | [`intake`] | samples that come by a request, into the log of a store |
//! | join | [`retry`] | a dead letter is tried again, under the rules of its store or a fix |
//! | join | [`explain`] | how a trip came to be: the records of it, and what each did |
//! | surface | [`settings`] | what a user can set, from flags, environment, file and defaults |
//! | surface | [`surface`] | trips as JSON, CSV, GeoJSON and GPX |
//! | surface | [`metrics`] | what is counted and timed, as Prometheus reads it |
//! | surface | `cli` (in `main.rs`) | flags, output, exit codes |
//!
//! [`rules`], [`epoch`], [`partitioner`], [`control`], [`reason`], [`moment`] and [`part`] are the
//! words they share. [`visible`] shows text from the outside, [`files`] opens files that are this
//! program's own.
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

pub mod blob;
mod column;
pub mod control;
pub mod daemon;
pub mod epoch;
pub mod explain;
pub mod feed;
pub mod files;
pub mod http;
pub mod identity;
pub mod intake;
pub mod kafka;
pub mod metrics;
pub mod moment;
pub mod part;
pub mod partitioner;
pub mod processor;
pub mod reason;
pub mod retry;
pub mod rules;
pub mod settings;
pub mod simulate;
pub mod source;
pub mod store;
pub mod surface;
pub mod timeline;
pub mod verify;
pub mod visible;
