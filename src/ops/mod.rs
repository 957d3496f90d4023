//! The use cases behind the commands and the HTTP API: request in, outcome out, progress by
//! callback. Flags, settings and printing belong to the layers above.

pub mod backup;
pub mod demo;
pub(crate) mod demo_live;
pub(crate) mod demo_map;
pub mod dlq;
pub mod doctor;
pub mod epoch;
pub mod explain;
pub mod export;
pub mod forget;
pub mod ingest;
mod ingest_problems;
mod ingest_warnings;
pub mod inspect;
pub mod lookup;
pub(crate) mod position_backup;
pub mod readiness;
pub mod rebuild;
pub mod replay;
pub(crate) mod row_check;
pub mod run;
pub mod schema;
pub mod serve;
pub(crate) mod silence;
pub mod simulate;
pub mod summary;
pub mod tags;
pub mod trip_filter;
pub mod trip_list;
pub(crate) mod trip_page;
pub mod verify;

pub(crate) use crate::log::{Cancel, SignalListener};

pub use crate::log::{Notify, PartialResult, Stopped};
pub use crate::model::failure::{BadData, InvalidRequest, NoResult, PreconditionFailed};
