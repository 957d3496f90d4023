//! Replays: late or historic samples in files into a topic, and a topic into a store again.
//!
//! | file | what happens there |
//! |---|---|
//! | [`files`] | samples of files are sent to the topic, or previewed |
//! | `file_records` | lines of files become records of the topic |
//! | `preview` | counts the trips that the samples would change |
//! | `state` | the file that records how far files were sent |
//! | [`topic`] | records of the topic are written to a store again, or compared with it |

mod file_records;
pub mod files;
mod preview;
mod state;
pub mod topic;

pub use preview::TripChanges;
