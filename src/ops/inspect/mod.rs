//! Inspects records: what reads them, what they hold, and the rules to choose. Writes nothing.

mod choose;
mod outcome;
mod proposals;
mod records;
mod rules_found;
mod tally;
mod unread;

use std::path::PathBuf;

pub(crate) use outcome::{
    FieldFound, FileFound, InputFound, InspectOutcome, IntervalBin, Proposal, Spread,
};

pub(crate) use rules_found::TripsUnder;

use crate::advice::System;
use crate::settings::Settings;

/// Maximum number of records that are looked at.
pub(crate) const MAX_RECORDS: u64 = 10_000;

/// Maximum size of what is read, after decompression, bytes.
const MAX_BYTES: usize = 64 << 20;

/// What to inspect, and how.
pub struct InspectRequest {
    /// Files, read in this order; `-` is stdin; none: the topic of the settings.
    pub files: Vec<PathBuf>,
    /// The settings. Rules that are given hold; the others are found.
    pub settings: Settings,
    /// The system whose rules are wanted; `None`: those that fit.
    pub system: Option<System>,
}

/// Looks at the first records of the input, at most [`MAX_RECORDS`].
///
/// # Errors
/// A file, the topic or the registry cannot be read, or the rules are not valid. Records that
/// cannot be read are part of the outcome.
pub async fn inspect(request: &InspectRequest) -> anyhow::Result<InspectOutcome> {
    let records = records::InputRecords::read(request).await?;
    let chosen = choose::Chooser::new(&records, request).choose().await?;
    Ok(outcome::outcome(&records, chosen, request))
}
