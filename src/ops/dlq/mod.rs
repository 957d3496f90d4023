//! Dead letters of a store: read, find, replay, delete.

mod json;
mod letters;
mod purge;
mod redecode;
mod remover;
mod replay;
mod to_files;
mod to_topic;

pub use json::LetterJson;
pub use letters::{DlqAccess, LetterFilter, Letters, StoredLetter, parse_reason};
pub use purge::purge;
pub use redecode::DecodeOverrides;
pub use replay::{ReplayRequest, replay};
