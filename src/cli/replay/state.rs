//! How far files were sent: a small file that gets a line for each chunk that brokers acknowledged.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use tstar::ops::{BadData, PreconditionFailed};

use anyhow::{Context as _, anyhow};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use tstar::model::input_part::{Part, StoredPart};
use tstar::store::files::{self, with_suffix};

/// A part of a file, as it is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    first: i64,
    from_bytes: u64,
    upto_bytes: u64,
    line: u64,
    head: String,
    hash: String,
    is_csv: bool,
    by_end: bool,
    finished: bool,
    log_time_ms: i64,
}

/// A line of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// Cluster, topic and form.
    log: String,
    /// Lines of files that were dealt with.
    lines: i64,
    part: Sent,
}

/// With what every line begins, by which one that a crash cut short is known.
const BEGIN: &[u8] = b"{\"log\":";

/// Keeps how far files were sent to a topic. One at a time does.
pub struct State {
    path: PathBuf,
    file: File,
    /// Held until the end.
    _lock: File,
    key: String,
    /// Lines that were dealt with.
    lines: i64,
    known: Vec<StoredPart>,
}

impl Sent {
    fn from_part(part: &Part) -> Self {
        Self {
            first: part.first_offset,
            from_bytes: part.from_bytes,
            upto_bytes: part.upto_bytes,
            line: part.line,
            head: HEXLOWER.encode(&part.head),
            hash: HEXLOWER.encode(&part.hash),
            is_csv: part.is_csv,
            by_end: part.by_end,
            finished: part.finished,
            log_time_ms: part.log_time_ms,
        }
    }

    fn part(&self) -> Option<StoredPart> {
        let hash = |text: &str| HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok();
        let part = Part {
            first_offset: self.first,
            from_bytes: self.from_bytes,
            upto_bytes: self.upto_bytes,
            line: self.line,
            head: hash(&self.head)?,
            hash: hash(&self.hash)?,
            is_csv: self.is_csv,
            by_end: self.by_end,
            finished: self.finished,
            log_time_ms: self.log_time_ms,
        };
        // One that was sent whole does not come again.
        Some(StoredPart { part, import_finished: false })
    }
}

impl State {
    /// Opens the file, or begins one. `key` tells the cluster, the topic, and in which form lines
    /// are read: read in another form, other ones may be samples.
    pub fn open(path: &Path, key: String) -> anyhow::Result<Self> {
        let place = path.display();
        let lock = with_suffix(path, ".lock");
        let file = files::open_lock(&lock);
        let file = file.with_context(|| format!("lock `{}`", lock.display()))?;
        match file.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => {
                let problem = format!(
                    "another replay keeps its state in `{place}`: wait for it to end, or name \
                     another file with --state"
                );
                return Err(PreconditionFailed(problem).into());
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let bytes = match files::read_state(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(anyhow!(error).context(format!("state `{place}`"))),
        };
        let latest = latest(&bytes).map_err(|why| {
            BadData(format!("`{place}` is no state of a replay: {why}; name another file"))
        })?;
        let write = || write_anew(path, latest.values());
        let written = write().with_context(|| format!("state `{place}` cannot be written"))?;
        let of_log = || latest.values().filter(|line| line.log == key);
        let lines = of_log().map(|line| line.lines).max().unwrap_or(0);
        let known = of_log().filter_map(|line| line.part.part()).collect();
        Ok(Self { path: path.to_owned(), file: written, _lock: file, key, lines, known })
    }

    /// Lines that were dealt with before.
    pub fn lines(&self) -> i64 {
        self.lines
    }

    /// What was sent before.
    pub fn known(&self) -> Vec<StoredPart> {
        self.known.clone()
    }

    /// Notes what was sent, so that it outlives a crash. `lines` were dealt with in all.
    pub fn record(&mut self, part: &Part, lines: i64) -> anyhow::Result<()> {
        let line = Line { log: self.key.clone(), lines, part: Sent::from_part(part) };
        let bytes = text(&line)?;
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        written.with_context(|| format!("state `{}` cannot be written", self.path.display()))
    }
}

/// What the lines say last of each part of each log.
fn latest(bytes: &[u8]) -> Result<BTreeMap<(String, i64, u64), Line>, String> {
    let mut latest = BTreeMap::new();
    for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
        let is_whole = piece.ends_with(b"\n");
        if !is_whole && (piece.starts_with(BEGIN) || BEGIN.starts_with(piece)) {
            continue;
        }
        let line: Line = serde_json::from_slice(piece).map_err(|error| error.to_string())?;
        line.part.part().ok_or("a hash in it is none")?;
        latest.insert((line.log.clone(), line.part.first, line.part.from_bytes), line);
    }
    Ok(latest)
}

fn text(line: &Line) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Writes the lines into a new file in the place of the old one, and leaves it open.
fn write_anew<'a>(path: &Path, lines: impl Iterator<Item = &'a Line>) -> io::Result<File> {
    files::replace(path, |file| {
        for line in lines {
            file.write_all(&text(line)?)?;
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
    fn a_state_is_for_its_owner_alone_and_follows_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let [state, theirs] = ["state", "theirs"].map(|it| folder.path().join(it));
        drop(State::open(&state, "log".into()).unwrap());
        for path in [&state, &with_suffix(&state, ".lock")] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
            fs::remove_file(path).unwrap();
        }
        fs::write(&theirs, "somebody else's").unwrap();
        for suffix in [".lock", ""] {
            symlink(&theirs, with_suffix(&state, suffix)).unwrap();
            let error = State::open(&state, "log".into()).err().expect("a link is refused");
            assert!(format!("{error:#}").contains("symbolic link"), "{error:#}");
            assert_eq!(fs::read(&theirs).unwrap(), b"somebody else's");
            fs::remove_file(with_suffix(&state, suffix)).unwrap();
        }
        symlink(&theirs, with_suffix(&state, ".new")).unwrap();
        State::open(&state, "log".into()).unwrap();
        assert_eq!(fs::read(&theirs).unwrap(), b"somebody else's");
    }
}
