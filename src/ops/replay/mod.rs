//! Replays: late or historic samples in files into a topic, and a topic into a store again.
//!
//! | file | what it does |
//! |---|---|
//! | [`files`] | sends samples of files to the topic, or previews their effect |
//! | `file_records` | converts lines of files to records of the topic |
//! | `preview` | counts the trips that the samples would change |
//! | `state` | the file that records which lines were sent |
//! | [`into_store`] | writes records of the topic to a store again, or compares them with it |

mod file_records;
pub mod files;
pub(crate) mod into_store;
mod overlay;
mod preview;
mod state;

pub(crate) use preview::TripChanges;
