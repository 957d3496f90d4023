//! Inputs that are broken, wrong or malicious, read by the real program: bad samples become dead
//! letters with their bytes, and the good ones around them are unaffected.

#[cfg(target_os = "linux")]
mod documents;
mod files;
pub mod judge;
mod kinds;
mod log;
mod many;
#[cfg(target_os = "linux")]
mod memory;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::cli::{Folder, Ran, number, sum};

/// A dead letter as `dlq ls` lists it.
#[derive(Debug, Deserialize)]
struct Letter {
    reason: String,
    message: String,
    line: u64,
    /// A run of equal samples is one letter.
    count: u64,
    value: Option<String>,
    value_base64: Option<String>,
    value_bytes: u64,
    sha256: Option<String>,
}

impl Letter {
    /// The bytes of the record, or their head.
    fn bytes(&self) -> Vec<u8> {
        match (&self.value, &self.value_base64) {
            (Some(text), None) => text.clone().into_bytes(),
            (None, Some(text)) => data_encoding::BASE64.decode(text.as_bytes()).unwrap(),
            _ => panic!("neither text nor bytes: {self:?}"),
        }
    }
}

fn letters(folder: &Folder, store: &str) -> Vec<Letter> {
    let listed = folder.run(&format!("dlq ls --json --store sqlite:{store}")).ends(0);
    serde_json::from_slice(&listed.stdout).unwrap_or_else(|error| panic!("{error}\n{listed}"))
}

/// The summary of an import that ended with this code; checks its sums.
#[track_caller]
fn summary(ran: Ran, code: i32) -> Value {
    assert!(!ran.stderr.contains("internal error"), "{ran}");
    let ran = ran.ends(code);
    let summary = ran.json();
    let left_out = sum(&summary["dropped"]) + sum(&summary["dead_letters"]);
    let taken = number(&summary["applied"]) + number(&summary["duplicates"]);
    assert_eq!(number(&summary["delivered"]), taken + left_out, "{ran}");
    summary
}

/// Dead letters per reason, as in the summary.
fn by_reason(letters: &[Letter]) -> BTreeMap<&str, u64> {
    let mut reasons = BTreeMap::new();
    for letter in letters {
        *reasons.entry(letter.reason.as_str()).or_default() += letter.count;
    }
    reasons
}
