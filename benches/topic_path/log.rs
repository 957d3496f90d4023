//! The topic that a run reads.

use serde::{Deserialize, Serialize};

/// A topic, up to where it is read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Log {
    /// Addresses of the brokers.
    pub brokers: String,
    /// Name of the topic.
    pub topic: String,
    /// End offset of each partition.
    pub ends: Vec<i64>,
}

impl Log {
    /// Number of samples: each record is one sample.
    pub fn samples(&self) -> u64 {
        self.ends.iter().map(|end| end.unsigned_abs()).sum()
    }
}
