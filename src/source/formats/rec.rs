//! Lines of the OwnTracks recorder: time, tab, kind, tab, JSON.

/// Whether a line begins with a time and has at least two more cells.
pub(super) fn is_line(line: &[u8]) -> bool {
    let mut cells = line.split(|byte| *byte == b'\t');
    let time = cells.next().and_then(|time| std::str::from_utf8(time).ok());
    let is_time = time.is_some_and(|time| chrono::DateTime::parse_from_rfc3339(time).is_ok());
    is_time && cells.count() >= 2
}

/// The JSON of a line: what follows the last tab.
pub(super) fn body(line: &[u8]) -> &[u8] {
    line.rsplit(|byte| *byte == b'\t').next().unwrap_or(line)
}
