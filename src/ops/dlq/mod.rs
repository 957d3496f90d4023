//! Dead letters of a store: read, find, replay, delete.

mod batch;
mod json;
mod letters;
mod purge;
mod redecode;
mod replay;
mod to_files;
mod to_topic;

pub use json::LetterJson;
pub use letters::{DlqAccess, LetterFilter, Letters, StoredLetter, parse_reason};
pub use purge::purge;
pub use redecode::DecodeOverrides;
pub use replay::{ReplayRequest, replay};

use crate::kafka::KafkaError;
use crate::kafka::client::Brokers;
use crate::kafka::topic_names::dlq_transactional_id;
use crate::kafka::transactions::Transactions;

/// Opens the producer that changes the dead letters of the log `input`. All commands have one
/// transactional id, so of two at once the first is fenced.
fn init_transactions(brokers: &Brokers, input: &str) -> Result<Transactions, KafkaError> {
    Transactions::init(brokers, &dlq_transactional_id(input))
}
