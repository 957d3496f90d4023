//! The log of a store: the files or the topic that it was built from, in order.
//!
//! Only this room knows which of both it is; the rooms above it ask [`Log`].
//!
//! | file | what it does |
//! |---|---|
//! | [`files`] | a log of imported files |
//! | [`topic_log`] | a log that is a topic |
//! | [`topic_replay`] | reads spans of a topic again, up to their ends |
//! | [`device`] | reads the records of a device |
//! | [`device_partition`] | the partition of a device's records |
//! | [`mod@reference`] | rebuilds a store from its log, to compare both |
//! | [`copy`] | reads a log into another store |
//! | [`append`] | appends the samples of a request |
//! | [`target`] | a topic that samples are sent to |
//! | [`forget`] | appends the control records that erase trips |
//! | [`changes`] | the change feed from a cursor |
//! | [`letters`] | dead letters: opened, filtered, found and removed |
//! | [`redecode`] | decodes dead letters again |
//! | [`retry`] | appends dead letters to the log |
//! | [`positions`] | how far a log was read, and who keeps that |
//! | `bounds` | where reading of a log ended |
//! | `stop` | how a signal stops a use case |

pub mod append;
mod bounds;
pub mod changes;
pub mod copy;
pub mod device;
pub(crate) mod device_partition;
pub mod files;
pub mod forget;
pub mod letters;
pub mod positions;
pub(crate) mod redecode;
pub mod reference;
pub mod retry;
mod stop;
pub mod target;
pub(crate) mod topic_log;
pub(crate) mod topic_replay;

use std::io;
use std::path::PathBuf;

pub use self::bounds::Bounds;
use self::files::FilesLog;
pub(crate) use self::stop::{Cancel, SignalListener};
pub use self::stop::{Notify, PartialResult, Stopped};
use self::topic_log::{TopicLog, no_epoch};
use crate::model::failure::InvalidRequest;
use crate::model::visible::visible;
use crate::pipeline::processor::SampleCounts;
use crate::settings::Settings;
use crate::source::Batch;
use crate::store::{AnyStore, SideTables};

/// Receives the progress of reading files.
pub trait ReadProgress {
    /// Reading starts. `total_bytes` is the size of all files; `None` if one has no length.
    fn start(&mut self, total_bytes: Option<u64>) {
        let _ = total_bytes;
    }

    /// A batch was processed; `counts` include it.
    fn update(&mut self, batch: &Batch, counts: &SampleCounts) {
        let _ = (batch, counts);
    }

    /// Reading ended, also if it failed.
    fn finish(&mut self) {}
}

/// Shows no progress.
impl ReadProgress for () {}

/// Maximum number of imported files that an error lists.
const MAX_LISTED: usize = 10;

/// The log that a store was built from.
pub enum Log {
    /// Imported files.
    Files(FilesLog),
    /// A topic.
    Topic(Box<TopicLog>),
}

impl Log {
    /// Opens the log of a store, which messages call `name`. `files` are named exactly if it was
    /// built from files; `access` is asked for only if it was built from a topic.
    ///
    /// # Errors
    /// The store cannot be read, files are missing, or files are named for a store of a topic;
    /// brokers do not respond, or the topic is not that of the epochs.
    pub async fn open(
        store: &AnyStore,
        files: &[PathBuf],
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let is_of_topic = !store.epochs().await?.is_empty();
        match (is_of_topic, files.is_empty()) {
            (true, true) => Ok(Self::Topic(Box::new(TopicLog::open(store, settings).await?))),
            (false, false) => Ok(Self::Files(FilesLog::new(store, files)?)),
            (true, false) => {
                let problem =
                    "the store was built from a topic, which is replayed; do not name files";
                Err(InvalidRequest(problem.into()).into())
            }
            (false, true) => Err(no_files(store, &settings.store)),
        }
    }

    /// Listens for signals while the log is read. Reading files leaves nothing behind, so that a
    /// signal ends the process.
    ///
    /// # Errors
    /// The system refuses.
    pub fn listen(&self, listen: SignalListener<'_>, partial: PartialResult) -> io::Result<Cancel> {
        match self {
            Self::Files(_) => Ok(Cancel::never()),
            Self::Topic(_) => listen(partial),
        }
    }
}

/// The error of a store without an epoch if no files are named.
fn no_files(store: &AnyStore, name: &str) -> anyhow::Error {
    match store.is_of_topic() {
        Ok(true) => no_epoch(name).into(),
        Ok(false) => {
            let files = store.embedded().map_or(Ok(Vec::new()), |store| store.imported_files());
            match files {
                Ok(files) => InvalidRequest(name_files(name, &files)).into(),
                Err(error) => error.into(),
            }
        }
        Err(error) => error.into(),
    }
}

fn name_files(store: &str, files: &[String]) -> String {
    let problem = format!("store `{store}` was built from files: name all that were imported");
    let listed = files.iter().take(MAX_LISTED).map(|file| visible(file)).collect::<Vec<_>>();
    match files.len().saturating_sub(MAX_LISTED) {
        _ if files.is_empty() => problem,
        0 => format!("{problem}: {}", listed.join(" ")),
        more => format!("{problem}: {} and {more} more", listed.join(" ")),
    }
}
