//! Inspects records: what reads them, what they hold, and the rules to choose. Writes nothing.

mod advice;
mod choose;
mod outcome;
mod proposals;
mod records;
mod tally;

use std::path::PathBuf;
use std::sync::Arc;

pub use advice::about;
pub use outcome::{
    FieldFound, FileFound, InputFound, InspectOutcome, IntervalBin, Proposal, Spread,
};

use crate::kafka::client::Brokers;
use crate::model::rules_request::RulesRequest;
use crate::registry::Registry;
use crate::source::file::InputFormat;

/// Maximum number of records that are looked at.
pub const MAX_RECORDS: u64 = 10_000;

/// Maximum size of what is read, after decompression, bytes.
const MAX_BYTES: usize = 64 << 20;

/// What to inspect, and how.
pub struct InspectRequest {
    /// Where the records are.
    pub source: InspectSource,
    /// Rules that are given; the others are found.
    pub rules: RulesRequest,
    /// Whether the rules given say where the values of samples are.
    pub is_fixed: bool,
    /// Log timestamp of the records of files, ms since 1970.
    pub now_ms: i64,
}

/// Where records are.
pub enum InspectSource {
    /// In files.
    Files {
        /// The files, read in this order; `-` is stdin.
        files: Vec<PathBuf>,
        /// Format of every file; `None`: detected from each file's content.
        format: Option<InputFormat>,
    },
    /// In a topic.
    Topic {
        /// Its name.
        topic: String,
        /// Its brokers.
        brokers: Box<Brokers>,
        /// Where to ask for schemas.
        registry: Option<Arc<Registry>>,
    },
}

/// Looks at the first records of the input, at most [`MAX_RECORDS`].
///
/// # Errors
/// A file, the topic or the registry cannot be read, or the rules are not valid. Records that
/// cannot be read are part of the outcome.
pub async fn inspect(request: &InspectRequest) -> anyhow::Result<InspectOutcome> {
    let records = records::Records::read(request).await?;
    let chosen = choose::Chooser::new(&records, request).choose().await?;
    Ok(outcome::outcome(&records, chosen))
}
