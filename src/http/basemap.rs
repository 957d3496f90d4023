//! The base map of the page: a `PMTiles` archive, served by ranges. The page finds its way in it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;

use super::problem::Problem;

/// Maximum size of an answer, in bytes.
const MAX_RANGE: u64 = 4 << 20;

/// Maximum concurrent reads of the file; more wait.
const MAX_READS: usize = 4;

/// Size of the header of an archive, in bytes.
const HEADER: u64 = 127;

/// A file with an archive. It is opened again for each request, as it may be replaced.
#[derive(Debug)]
pub struct Basemap {
    path: PathBuf,
    reads: Arc<Semaphore>,
}

/// Length and `ETag` of a file.
type Version = (u64, String);

impl Basemap {
    /// Checks the header of a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not an archive of vector tiles that the page can read.
    pub fn new(path: &str) -> Result<Self, String> {
        let path = PathBuf::from(path);
        let read = || -> io::Result<_> {
            let (mut file, (length, _)) = open(&path)?;
            Ok((read(&mut file, &(0..length.min(HEADER)))?, length))
        };
        let (header, length) = read().map_err(|error| error.to_string())?;
        check(&header, length)?;
        Ok(Self { path, reads: Arc::new(Semaphore::new(MAX_READS)) })
    }

    /// Answers a request for the file or a range of it.
    pub(super) async fn serve(self: Arc<Self>, headers: HeaderMap) -> Result<Response, Problem> {
        let permit = Arc::clone(&self.reads).acquire_owned().await.expect("it is never closed");
        // Reads to its end even if the request is cancelled.
        let read = move || {
            let _permit = permit;
            self.answer(&headers)
        };
        tokio::task::spawn_blocking(read).await.expect("the work does not panic")
    }

    /// Answers a request. Blocks on the file system.
    fn answer(&self, headers: &HeaderMap) -> Result<Response, Problem> {
        let unreadable = |error| {
            tracing::warn!(%error, "cannot read the file of the base map");
            no_basemap("the file of the base map cannot be read now; see the log of the server")
        };
        let (mut file, version) = open(&self.path).map_err(unreadable)?;
        let (length, tag) = &version;
        if headers.get(header::IF_MATCH).is_some_and(|it| !names(it, tag)) {
            return Err(changed());
        }
        let fields =
            [(header::ETAG, tag.as_str()), (header::CONTENT_TYPE, "application/vnd.pmtiles")];
        if headers.get(header::IF_NONE_MATCH).is_some_and(|it| names(it, tag)) {
            return Ok((StatusCode::NOT_MODIFIED, fields).into_response());
        }
        let whole = 0..*length;
        let (status, range) = match wanted(headers, &version) {
            Wanted::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
            Wanted::Whole if *length <= MAX_RANGE => (StatusCode::OK, whole),
            Wanted::Whole => return Err(too_long(*length)),
            Wanted::Nothing => {
                let range = format!("bytes */{length}");
                return Ok(([(header::CONTENT_RANGE, range)], no_range(*length)).into_response());
            }
        };
        let bytes = read(&mut file, &range).map_err(unreadable)?;
        // Bytes of two versions of the file are never mixed.
        if version_of(&file).ok().as_ref() != Some(&version) {
            return Err(changing());
        }
        let more: (HeaderName, String) = match status {
            StatusCode::OK => (header::CONTENT_ENCODING, "identity".into()),
            _ => {
                let last = range.end.saturating_sub(1);
                (header::CONTENT_RANGE, format!("bytes {}-{last}/{length}", range.start))
            }
        };
        let ranges = (header::ACCEPT_RANGES, "bytes");
        Ok((status, fields, [ranges], [more], bytes).into_response())
    }
}

pub(super) fn no_basemap(detail: &str) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no_basemap", detail)
}

pub(super) fn changed() -> Problem {
    let detail = "the file of the base map has changed; read it from its header again";
    Problem::new(StatusCode::PRECONDITION_FAILED, "changed", detail)
}

fn changing() -> Problem {
    let detail = "the file of the base map is being written; retry";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail)
}

pub(super) fn too_long(length: u64) -> Problem {
    let problem = format!(
        "the file has {length} bytes, and an answer at most {MAX_RANGE}; send \
         `Range: bytes=FIRST-LAST`"
    );
    Problem::fault("range", problem)
}

pub(super) fn no_range(length: u64) -> Problem {
    let detail = format!("write one range of the {length} bytes, such as `bytes=0-16383`");
    Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "no_range", detail)
}

/// Opens a regular file: others could block, or never end.
fn open(path: &Path) -> io::Result<(File, Version)> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let file = File::open(path)?;
    let version = version_of(&file)?;
    Ok((file, version))
}

fn version_of(file: &File) -> io::Result<Version> {
    let metadata = file.metadata()?;
    let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok((metadata.len(), format!("\"{:x}-{:x}\"", metadata.len(), modified.as_nanos())))
}

/// Reads a range of at most [`MAX_RANGE`] bytes.
fn read(file: &mut File, range: &Range<u64>) -> io::Result<Vec<u8>> {
    let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    let mut bytes = vec![0; length];
    file.seek(SeekFrom::Start(range.start))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Checks the header of a file of `length` bytes: an archive that the page can read.
fn check(header: &[u8], length: u64) -> Result<(), String> {
    if !header.starts_with(b"PMTiles") {
        return Err("it is not a PMTiles file; `pmtiles convert` and tippecanoe write one".into());
    }
    if let Some(version) = header.get(7).filter(|version| **version != 3) {
        return Err(format!(
            "it has version {version} of PMTiles, not 3; convert it with `pmtiles convert`"
        ));
    }
    let number = |at: usize| {
        let bytes = header.get(at..at + 8).and_then(|it| it.try_into().ok());
        bytes.map_or(u64::MAX, u64::from_le_bytes)
    };
    // Root directory, metadata, leaf directories, tiles.
    let ends = [8, 24, 40, 56].map(|at| number(at).saturating_add(number(at + 8)));
    let end = ends.into_iter().fold(HEADER, u64::max);
    if end > length {
        return Err(format!("it is cut off: {length} bytes of {end}; copy it again"));
    }
    if !header[97..99].iter().all(|compression| [1, 2].contains(compression)) {
        return Err("its compression is neither gzip nor none, which are all that the page can \
                    read; write it with gzip"
            .into());
    }
    match header[99] {
        1 => Ok(()),
        2..=5 => Err("its tiles are pictures, not vector tiles (MVT); serve them from a tile \
                      server, and name that with --tiles"
            .into()),
        kind => Err(format!(
            "its tiles are of type {kind}, not vector tiles (MVT, type 1); write it as such"
        )),
    }
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    Part(Range<u64>),
    /// No byte of the file, or more than one range.
    Nothing,
}

/// Whether a condition names the `ETag`.
fn names(condition: &HeaderValue, tag: &str) -> bool {
    let listed = condition.to_str().unwrap_or_default().split(',').map(str::trim);
    listed.into_iter().any(|it| it == tag || it == "*")
}

fn wanted(headers: &HeaderMap, (length, tag): &Version) -> Wanted {
    let is_current = headers.get(header::IF_RANGE).is_none_or(|it| it == tag);
    let mut values = headers.get_all(header::RANGE).iter();
    match (values.next(), values.next()) {
        (Some(value), None) if is_current => parse_range(value.to_str().unwrap_or(""), *length),
        (Some(_), Some(_)) => Wanted::Nothing,
        _ => Wanted::Whole,
    }
}

/// Reads a `Range`, and shortens it to [`MAX_RANGE`]. One that is not valid counts as absent
/// (RFC 9110, 14.2).
fn parse_range(value: &str, length: u64) -> Wanted {
    let Some((unit, ranges)) = value.split_once('=') else { return Wanted::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Wanted::Whole;
    }
    if ranges.contains(',') {
        return Wanted::Nothing;
    }
    let Some((first, last)) = ranges.trim().split_once('-') else { return Wanted::Whole };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // More than any file has.
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (start, end) = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => (first, last.saturating_add(1).min(length)),
        (Some(first), None) if last.is_empty() => (first, length),
        (None, Some(count)) if first.is_empty() => (length.saturating_sub(count), length),
        _ => return Wanted::Whole,
    };
    if start >= end {
        return Wanted::Nothing;
    }
    Wanted::Part(start..end.min(start + MAX_RANGE))
}

/// Why a server has no base map.
pub(super) const UNSET: &str = "this server has no base map; start it with --basemap FILE.pmtiles";

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of an archive of 200 bytes.
    fn header() -> Vec<u8> {
        let mut header = b"PMTiles\x03".to_vec();
        for (offset, length) in [(127_u64, 10_u64), (137, 13), (150, 0), (150, 50)] {
            header.extend(offset.to_le_bytes());
            header.extend(length.to_le_bytes());
        }
        header.resize(97, 0);
        header.extend([2, 2, 1]);
        header.resize(127, 0);
        header
    }

    #[test]
    fn headers_that_the_page_cannot_read_are_refused() {
        assert_eq!(check(&header(), 200), Ok(()));
        let with = |at: usize, value: u8| {
            let mut header = header();
            header[at] = value;
            check(&header, 200).unwrap_err()
        };
        assert!(with(0, b'p').starts_with("it is not a PMTiles file"));
        assert!(with(7, 2).starts_with("it has version 2 of PMTiles, not 3"));
        assert!(with(97, 3).contains("neither gzip nor none"));
        assert!(with(98, 4).contains("neither gzip nor none"));
        assert!(with(99, 2).contains("are pictures"));
        assert!(with(99, 6).contains("of type 6"));
        // An offset of 2^63.
        assert!(with(63, 0x80).starts_with("it is cut off"));
        let cut = check(&header(), 199).unwrap_err();
        assert_eq!(cut, "it is cut off: 199 bytes of 200; copy it again");
        for length in 0..127 {
            let cut = &header()[..length];
            assert!(check(cut, length as u64).is_err(), "{length}");
        }
    }

    #[test]
    fn ranges_are_within_the_file_and_bounded() {
        let long = 1 << 40;
        for (value, length, expected) in [
            ("bytes=0-0", 10, Wanted::Part(0..1)),
            ("Bytes=2-5", 10, Wanted::Part(2..6)),
            ("bytes=2-", 10, Wanted::Part(2..10)),
            ("bytes=2-99", 10, Wanted::Part(2..10)),
            ("bytes=-3", 10, Wanted::Part(7..10)),
            ("bytes=-99", 10, Wanted::Part(0..10)),
            ("bytes=0-18446744073709551616", 10, Wanted::Part(0..10)),
            ("bytes=0-", long, Wanted::Part(0..MAX_RANGE)),
            ("bytes=-5000000", long, Wanted::Part(long - 5_000_000..long - 5_000_000 + MAX_RANGE)),
            ("bytes=10-", 10, Wanted::Nothing),
            ("bytes=99999999999999999999-", 10, Wanted::Nothing),
            ("bytes=-0", 10, Wanted::Nothing),
            ("bytes=0-", 0, Wanted::Nothing),
            ("bytes=0-1,4-5", 10, Wanted::Nothing),
            ("bytes=5-2", 10, Wanted::Whole),
            ("bytes=--2", 10, Wanted::Whole),
            ("bytes=+1-2", 10, Wanted::Whole),
            ("bytes=", 10, Wanted::Whole),
            ("bytes=-", 10, Wanted::Whole),
            ("lines=0-1", 10, Wanted::Whole),
            ("", 10, Wanted::Whole),
        ] {
            assert_eq!(parse_range(value, length), expected, "{value} of {length}");
        }
    }
}
