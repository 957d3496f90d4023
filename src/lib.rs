//! tstar builds trips from out-of-order location samples. Each trip has the id
//! `<device, t_star>`, where `t_star` is the device time of the trip's first-arrived sample. Late
//! samples extend a trip at either end without changing its id. Only a sample that joins two trips
//! retires an id, and the retired id still resolves to the merged trip.
//!
//! The contract is `docs/design.md`.
//!
//! # Library
//! What decides trips is the crate `tstar-core`, without clock, I/O or async; it has examples. Its
//! main types are here as well, and more of it in [`id`], [`path`] and [`rules`]. Everything else
//! is private: it may change in any version. Feature `internals` opens it to the tests and benches
//! of this repository, and to nothing else.
//!
//! Neither is on crates.io: clone the repository, and `cargo add tstar-core --path
//! PATH/TO/tstar/crates/tstar-core`. Other languages can use the HTTP API, or read the stores:
//! `schema/` has the tables and the format of paths.
//!
//! # Layers
//! The lowest layer comes first. A module depends only on its own layer and on layers above it in
//! this table; `tests/tidy` checks the imports.
//!
//! | layer | module | what it does |
//! |---|---|---|
//! | decide | `tstar-core` | `identity` `model` `timeline` `segment` `advice` `codec`: decides |
//! | decide | `model` | types, rules and reasons of the program, and those of the core |
//! | I/O | `telemetry` | Prometheus metrics and logs |
//! | I/O | `views` | trips in output formats, and as events of the change feed |
//! | I/O | `tls` | TLS over TCP, as a client and as a server; certificates and keys |
//! | I/O | `web` | requests to HTTP servers |
//! | I/O | `registry` | asks a schema registry what the id of a schema means |
//! | I/O | `source` | decodes bytes to samples and dead letters |
//! | I/O | `store` | writes and reads rows |
//! | I/O | `kafka` | the log as a topic: consumer, producer, partition assignment |
//! | settings | `settings` | settings from flags, environment and file; opens what they name |
//! | pipeline | `sink` | writes rows, table topic, change feed, dead letters and position |
//! | pipeline | `pipeline` | joins source, timeline and store, with one worker per partition |
//! | pipeline | `log` | the log of a store: its files, or its topic |
//! | operations | `simulate` | generates a fleet with late, repeated and malformed samples |
//! | operations | `ops` | the use cases behind the commands and the HTTP API |
//! | interfaces | `http` | JSON API and web page |
//! | interfaces | `cli` | flags, output, exit codes |
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

// What tests and benches do not need is visible in the crate alone.
#![cfg_attr(feature = "internals", warn(unreachable_pub))]

#[doc(hidden)]
pub mod cli;
mod http;
mod kafka;
mod log;
mod model;
mod ops;
mod pipeline;
mod registry;
mod settings;
mod simulate;
mod sink;
mod source;
mod store;
mod telemetry;
mod tls;
mod views;
mod web;

pub use tstar_core::{
    Arrival, Day, DeviceTime, LogTime, OutOfRange, Outcome, RawSample, Reading, ReadingKind,
    Sample, Segment, Timeline, Version,
};
use tstar_core::{advice, codec, identity, segment, timeline};

/// The forms of a trip id.
pub mod id {
    pub use tstar_core::identity::{
        AnyId, DeviceId, IdError, MAX_DEVICE_ID_BYTES, TEXT_TIMES_MS, TripId, UuidId,
        check_device_id, date_range, device_of_token, prefix, prefix_range, token_of_device,
    };
}

/// A trip's samples, sorted by device time, and their encoding as bytes.
pub mod path {
    pub use tstar_core::codec::{BlobError, MAX_MESSAGE_BYTES, decode, encode};
    pub use tstar_core::timeline::{Jumps, Path, PathStats};
}

/// The settings that decide trips.
pub mod rules {
    pub use tstar_core::model::limits::{
        ClockGuard, ClockViolation, FilterReason, FixFilter, Leg, LegFilter, SegmentRules,
    };
    pub use tstar_core::model::rules::{Rules, SpeedUnit, TimeUnit, UnknownRules};
}

/// All modules, for the tests and benches of this repository. Not part of the public API.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    macro_rules! open {
        ($($module:ident)*) => {
            $(pub mod $module { pub use crate::$module::*; })*
        };
    }
    open! {
        codec http identity kafka log model ops pipeline registry segment settings simulate sink
        source store telemetry timeline views
    }
}
