//! tstar builds trips from out-of-order location samples. Each trip has the id
//! `<device, t_star>`, where `t_star` is the device time of the trip's first-arrived sample. Late
//! samples extend a trip at either end without changing its id. Only a sample that joins two trips
//! retires an id, and the retired id still resolves to the merged trip.
//!
//! # Layers
//! The lowest layer comes first. A module depends only on its own layer and on layers above it in
//! this table; `tests/it/tidy.rs` checks the imports.
//!
//! | layer | module | what it does |
//! |---|---|---|
//! | model and decide | [`identity`] | writes and parses the forms of a trip id |
//! | model and decide | [`model`] | types, rules and reasons shared by all layers |
//! | model and decide | [`timeline`] | applies a sample to the trips of its device |
//! | model and decide | [`codec`] | trips as rows, paths as bytes |
//! | I/O | [`telemetry`] | Prometheus metrics and logs |
//! | I/O | [`views`] | trips as JSON, CSV, GeoJSON and GPX, and as events of the change feed |
//! | I/O | [`source`] | decodes bytes to samples and dead letters |
//! | I/O | [`store`] | writes and reads rows |
//! | I/O | [`kafka`] | the log as a topic: consumer, producer, partition assignment |
//! | pipeline | [`pipeline`] | joins source, timeline and store, with one worker per partition |
//! | operations | [`simulate`] | generates a fleet with late, repeated and malformed samples |
//! | operations | [`ops`] | the use cases behind the commands and the HTTP API |
//! | interfaces | [`settings`] | settings from flags, environment, file and defaults |
//! | interfaces | [`http`] | JSON API and web page |
//! | interfaces | [`cli`] | flags, output, exit codes |
//!
//! # Invariants
//! Every test run may check them. Code and tests refer to them by number.
//! - I1 trips equal the reference model.
//! - I2 ids equal the model's; no id changes except by a merge; every published id resolves.
//! - I3 delivered = applied + duplicates + dropped + skipped + dead-lettered.
//! - I4 every bad sample is in the dead letters.
//! - I5 a device's trips are sorted, disjoint, and contain their `t_star`.
//! - I6 the committed offset is never ahead of durable effect.
//! - I7 a time covered before and after an update is never "not found" during it.
//! - I8 lag returns to 0 after faults heal.
//! - I9 memory and files stay bounded.
//! - I10 SIGTERM: exit 0 within the drain limit, and nothing is read again.

#[doc(hidden)]
pub mod cli;
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

/// All modules, for the tests and benches of this repository. Not part of the public API.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    macro_rules! open {
        ($($module:ident)*) => {
            $(pub mod $module { pub use crate::$module::*; })*
        };
    }
    open! { codec http identity kafka model ops pipeline settings simulate source store telemetry timeline views }
}
