//! The state file: records each chunk that brokers acknowledged, one per line.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use serde::{Deserialize, Serialize};

use crate::model::input_part::{Part, StoredPart};
use crate::ops::{BadData, PreconditionFailed};
use crate::store::files::{self, with_suffix};

/// A line of the state file, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// Cluster, topic and rules: the `log` of [`ReplayState::open`].
    log: String,
    /// Number of lines of all files that were sent or counted as bad.
    lines: i64,
    part: Part,
}

/// Prefix of every line; identifies a last line that a crash truncated.
const PREFIX: &[u8] = b"{\"log\":";

/// Records how far files were sent to a topic. One process at a time has it open.
pub(super) struct ReplayState {
    path: PathBuf,
    file: File,
    /// Holds the lock until it is dropped.
    _lock: File,
    log: String,
    /// Number of lines that were sent or counted as bad.
    lines: i64,
    known: Vec<StoredPart>,
}

impl ReplayState {
    /// Opens or creates the file. `log` names the cluster, the topic and the rules by which lines
    /// are decoded: other rules may accept other lines.
    ///
    /// # Errors
    /// Another process has it open, or it is malformed or cannot be read or written.
    pub(crate) fn open(path: &Path, log: String) -> anyhow::Result<Self> {
        let shown = path.display();
        let lock = with_suffix(path, ".lock");
        let lock_file = files::open_lock(&lock);
        let lock_file = lock_file.with_context(|| format!("lock `{}`", lock.display()))?;
        match lock_file.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => {
                let problem = format!(
                    "another replay uses the state file `{shown}`: wait for it to end, or name \
                     another file with --state"
                );
                return Err(PreconditionFailed(problem).into());
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let bytes = match files::read_state(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(anyhow!(error).context(format!("state `{shown}`"))),
        };
        let latest = latest_lines(&bytes).map_err(|problem| {
            BadData(format!(
                "`{shown}` is not a valid state of a replay: {problem}; name another file with \
                 --state"
            ))
        })?;
        let written = replace_file(path, latest.values());
        let file = written.with_context(|| format!("state `{shown}` cannot be written"))?;
        let of_log: Vec<_> = latest.values().filter(|line| line.log == log).collect();
        let lines = of_log.iter().map(|line| line.lines).max().unwrap_or(0);
        // A file that was sent whole is not read again.
        let known = of_log.iter().map(|line| line.part.clone());
        let known = known.map(|part| StoredPart { part, import_finished: false }).collect();
        Ok(Self { path: path.to_owned(), file, _lock: lock_file, log, lines, known })
    }

    /// Number of lines that earlier runs sent or counted as bad.
    pub(crate) fn lines(&self) -> i64 {
        self.lines
    }

    /// Parts of files that earlier runs sent.
    pub(crate) fn known(&self) -> Vec<StoredPart> {
        self.known.clone()
    }

    /// Appends a part that was sent, and syncs the file. `lines` counts from the first line of all
    /// files.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn record(&mut self, part: &Part, lines: i64) -> anyhow::Result<()> {
        let line = Line { log: self.log.clone(), lines, part: part.clone() };
        let bytes = encode(&line)?;
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        written.with_context(|| format!("state `{}` cannot be written", self.path.display()))
    }
}

/// The last line of each part of each log. Ignores a truncated last line.
///
/// # Errors
/// A whole line is malformed.
fn latest_lines(bytes: &[u8]) -> Result<BTreeMap<(String, i64, u64), Line>, String> {
    let mut latest = BTreeMap::new();
    for text in bytes.split_inclusive(|&byte| byte == b'\n') {
        let is_whole = text.ends_with(b"\n");
        if !is_whole && (text.starts_with(PREFIX) || PREFIX.starts_with(text)) {
            continue;
        }
        let line: Line = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let (first, from) = line.part.key();
        latest.insert((line.log.clone(), first, from), line);
    }
    Ok(latest)
}

fn encode(line: &Line) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Replaces the file with one that has these lines, and leaves it open for appending.
fn replace_file<'a>(path: &Path, lines: impl Iterator<Item = &'a Line>) -> io::Result<File> {
    files::replace(path, |file| {
        for line in lines {
            file.write_all(&encode(line)?)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_state_is_private_and_follows_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let [state, foreign] = ["state", "foreign"].map(|name| folder.path().join(name));
        drop(ReplayState::open(&state, "log".into()).unwrap());
        for path in [&state, &with_suffix(&state, ".lock")] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
            fs::remove_file(path).unwrap();
        }
        fs::write(&foreign, "not ours").unwrap();
        for suffix in [".lock", ""] {
            symlink(&foreign, with_suffix(&state, suffix)).unwrap();
            let error = ReplayState::open(&state, "log".into()).err().expect("a link is refused");
            assert!(format!("{error:#}").contains("symbolic link"), "{error:#}");
            assert_eq!(fs::read(&foreign).unwrap(), b"not ours");
            fs::remove_file(with_suffix(&state, suffix)).unwrap();
        }
        symlink(&foreign, with_suffix(&state, ".new")).unwrap();
        ReplayState::open(&state, "log".into()).unwrap();
        assert_eq!(fs::read(&foreign).unwrap(), b"not ours");
    }
}
