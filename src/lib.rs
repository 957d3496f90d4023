//! tstar builds trips from out-of-order location samples. Each trip has the id
//! `<device, t_star>`, where `t_star` is the device time of the trip's first-arrived sample. Late
//! samples extend a trip at either end without changing its id. Only a sample that joins two trips
//! retires an id, and the retired id still resolves to the merged trip.
//!
//! The contract is `docs/design.md`.
//!
//! # Library
//! What decides trips is a library without clock, I/O or async:
//!
//! | item | what it does |
//! |---|---|
//! | [`Timeline`] | applies samples to the trips of a device, in any arrival order |
//! | [`Trip`], [`Arrival`], [`Outcome`] | the trips, and what a sample did to them |
//! | [`RawSample`], [`Sample`] | a sample as sent, and as trips keep it |
//! | [`DeviceTime`], [`Day`] | a time of a device's clock, and a UTC day |
//! | [`Version`], [`LogTime`] | place and time of a record in the log |
//! | [`id`] | writes and parses the forms of a trip id |
//! | [`path`] | a trip's samples as bytes, for column `path` of a row |
//! | [`rules`] | the settings that decide trips |
//!
//! Everything else is private: it may change in any version. Feature `internals` opens it to the
//! tests and benches of this repository, and to nothing else.
//!
//! tstar is not on crates.io: clone the repository, and `cargo add tstar --path PATH/TO/tstar`.
//! That builds everything that the program needs, librdkafka and SQLite included. Other languages
//! can use the HTTP API, or read the stores: `schema/` has the tables and the format of paths.
//!
//! ```
//! use tstar::id::TripId;
//! use tstar::path::{decode, encode};
//! use tstar::rules::Rules;
//! use tstar::{Arrival, DeviceTime, Outcome, RawSample, Sample, Timeline, Version};
//!
//! let limits = Rules::default().limits();
//! let mut timeline = Timeline::default();
//!
//! // Minutes after 20:00, in the order of arrival.
//! let mut last = None;
//! for (minute, version) in [10, 12, 0, 2, 6].into_iter().zip((0..).step_by(2)) {
//!     let time_ms = DeviceTime(1_795_204_800_000) + minute * 60_000;
//!     let raw = RawSample { time_ms, lat: 52.5, lon: 13.4, ..RawSample::default() };
//!     let sample = Sample::quantised(&raw)?;
//!     last = Some(timeline.absorb(&limits, Version(version), sample, None));
//! }
//! // Minute 6 joined two trips.
//! assert_eq!(last, Some(Outcome::Applied(Arrival::Merge)));
//!
//! let trip = timeline.trips().next().ok_or("there is a trip")?;
//! let id = TripId::new("truck-17", trip.t_star_ms)?;
//! assert_eq!(id.text()?, "truck-17~20261120T200000.000Z");
//!
//! // The bytes of column `path`, which any program can decode.
//! let blob = encode(trip.path());
//! assert_eq!(decode(&blob)?.len(), 5);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Timeline`] holds the trips of one device that are in memory. With a store behind it, each
//! record takes four steps:
//!
//! 1. [`Timeline::missing_days`] lists the UTC days to read before a sample is absorbed, and
//!    [`Timeline::insert_loaded`] takes their rows ([`Trip::loaded`] builds a trip from a row).
//! 2. [`Timeline::absorb`] applies the sample. The version must not decrease from record to
//!    record; a position in the log serves, times two.
//! 3. [`Timeline::trips_mut`] and [`Trip::take_unflushed`] find the trips to write.
//! 4. When the writes are acknowledged, [`Timeline::evict`] frees the memory.
//!
//! # Layers
//! The lowest layer comes first. A module depends only on its own layer and on layers above it in
//! this table; `tests/tidy` checks the imports.
//!
//! | layer | module | what it does |
//! |---|---|---|
//! | model and decide | `identity` | writes and parses the forms of a trip id |
//! | model and decide | `model` | types, rules and reasons shared by all layers |
//! | model and decide | `timeline` | applies a sample to the trips of its device |
//! | model and decide | `codec` | trips as rows, paths as bytes |
//! | I/O | `telemetry` | Prometheus metrics and logs |
//! | I/O | `views` | trips in output formats, and as events of the change feed |
//! | I/O | `tls` | TLS over TCP, as a client and as a server; certificates and keys |
//! | I/O | `web` | requests to HTTP servers |
//! | I/O | `registry` | asks a schema registry what the id of a schema means |
//! | I/O | `source` | decodes bytes to samples and dead letters |
//! | I/O | `store` | writes and reads rows |
//! | I/O | `kafka` | the log as a topic: consumer, producer, partition assignment |
//! | pipeline | `pipeline` | joins source, timeline and store, with one worker per partition |
//! | pipeline | `log` | the log of a store: its files, or its topic |
//! | operations | `simulate` | generates a fleet with late, repeated and malformed samples |
//! | operations | `ops` | the use cases behind the commands and the HTTP API |
//! | interfaces | `settings` | settings from flags, environment, file and defaults |
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

#[doc(hidden)]
pub mod cli;
mod codec;
mod http;
mod identity;
mod kafka;
mod log;
mod model;
mod ops;
mod pipeline;
mod registry;
mod settings;
mod simulate;
mod source;
mod store;
mod telemetry;
mod timeline;
mod tls;
mod views;
mod web;

pub use model::reading::{Reading, ReadingKind};
pub use model::sample::{OutOfRange, RawSample, Sample};
pub use model::scalar::{Day, DeviceTime, LogTime, Version};
pub use timeline::{Arrival, Driver, Outcome, Timeline, Trip};

/// Writes and parses the forms of a trip id: text, key, UUID, and prefixes that select by time.
///
/// | form | example | range of `t_star` |
/// |---|---|---|
/// | text | `truck-17~20261120T213800.123Z` | years 0000 to 9999 |
/// | key, as bytes or base32hex | `ehp7aorb5koje040000q3un52stg` | every `i64` |
/// | UUID version 8 | `01a1fae5-173b-8152-8ed4-88d4aacc8ddd` | 1970 to the year 10889 |
///
/// Each form has one canonical spelling, and parsers accept no other.
///
/// ```
/// use tstar::DeviceTime;
/// use tstar::id::{AnyId, TripId, prefix_range};
///
/// let id = TripId::new("truck-17", DeviceTime(1_795_210_680_123))?;
/// assert_eq!(id.text()?, "truck-17~20261120T213800.123Z");
/// assert_eq!(AnyId::parse("ehp7aorb5koje040000q3un52stg")?, AnyId::Trip(id.clone()));
///
/// // The UUID form has only a hash of the device id.
/// let AnyId::Uuid(uuid) = AnyId::parse("01a1fae5-173b-8152-8ed4-88d4aacc8ddd")? else { panic!() };
/// assert!(uuid.matches("truck-17", id.t_star_ms));
///
/// let (device_id, from_ms, upto_ms) = prefix_range("truck-17~20261120")?;
/// assert_eq!(device_id, id.device_id);
/// assert!((from_ms..=upto_ms).contains(&id.t_star_ms));
/// # Ok::<_, tstar::id::IdError>(())
/// ```
pub mod id {
    pub use crate::identity::{
        AnyId, DeviceId, IdError, MAX_DEVICE_ID_BYTES, TEXT_TIMES_MS, TripId, UuidId,
        check_device_id, date_range, device_of_token, prefix, prefix_range, token_of_device,
    };
}

/// A trip's samples, sorted by device time, and their encoding as bytes.
///
/// The bytes are those of column `path` of a row. `schema/path.proto` documents their format for
/// readers in any language. The same samples always give the same bytes.
///
/// ```
/// use tstar::path::{Path, PathStats, decode, encode};
/// use tstar::rules::LegFilter;
/// use tstar::{DeviceTime, RawSample, Sample};
///
/// let raw = |time_ms, lat| RawSample { time_ms, lat, lon: 13.4, ..RawSample::default() };
/// let samples = [raw(DeviceTime(0), 52.5), raw(DeviceTime(60_000), 52.51)];
/// let samples = samples.map(|raw| Sample::quantised(&raw).expect("every field is in range"));
/// let path = Path::from_sorted(samples).expect("there are samples, and their times rise");
///
/// let read = decode(&encode(&path))?;
/// assert!(read.iter().eq(samples));
/// assert_eq!(PathStats::from_path(&read, LegFilter::default()).distance_m.round(), 1112.0);
/// # Ok::<_, tstar::path::BlobError>(())
/// ```
pub mod path {
    pub use crate::codec::{BlobError, MAX_MESSAGE_BYTES, decode, encode};
    pub use crate::timeline::{Jumps, Path, PathStats};
}

/// The settings that decide trips.
///
/// [`Rules`](rules::Rules) holds all of them and has one hash. The parts that decide are
/// [`Limits`](rules::Limits) for the timeline, two checks of a single sample,
/// [`ClockGuard`](rules::ClockGuard) and [`MovementFilter`](rules::MovementFilter), and one of the
/// way between two samples, [`LegFilter`](rules::LegFilter).
///
/// ```
/// use tstar::{DeviceTime, LogTime};
/// use tstar::rules::{ClockViolation, Rules};
///
/// let rules = Rules { max_gap_ms: 600_000, ..Rules::default() };
/// assert_eq!(rules.limits().max_gap_ms, 600_000);
/// // A device whose clock starts at 1970.
/// let log_time_ms = LogTime(1_795_210_680_123);
/// let judged = rules.guard().judge(DeviceTime(0), log_time_ms);
/// assert_eq!(judged, Err(ClockViolation::BeforeMin));
/// // Other rules have another hash.
/// assert_ne!(rules.hash(), Rules::default().hash());
/// ```
pub mod rules {
    pub use crate::model::limits::{
        ClockGuard, ClockViolation, FilterReason, LegFilter, Limits, MovementFilter,
    };
    pub use crate::model::rules::{Rules, SpeedUnit, TimeUnit, UnknownRules};
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
        codec http identity kafka log model ops pipeline registry settings simulate source store
        telemetry timeline views
    }
}
