use std::fs;
use std::io::{Cursor, Read, Write};

use proptest::prelude::*;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::*;
use crate::model::reason::DeadReason;
use crate::model::rules::Rules;
use crate::source::{Cut, SampleError};

/// An entry in a comparable form.
#[derive(Clone, Debug, PartialEq)]
struct EntrySummary {
    origin: String,
    offset: i64,
    line: u64,
    raw: Vec<u8>,
    content: Result<(String, i64), SampleError>,
}

impl EntrySummary {
    fn reason(&self) -> Option<DeadReason> {
        self.content.as_ref().err().map(|fault| fault.reason)
    }
}

fn options(format: Option<InputFormat>) -> Options {
    // Bytes that are not UTF-8 stay as they are.
    let rules = Rules { encoding: Some("utf-8".into()), ..Rules::default() };
    let decoder = Arc::new(Decoder::new(&rules).unwrap());
    Options {
        format,
        decoder,
        max_document: 1 << 16,
        log_time_ms: LogTime(5),
        first_offset: Offset(10),
        known: vec![],
        redelivers: false,
    }
}

fn small(chunk: usize, record: usize) -> Sizes {
    Sizes { chunk, record, head: 8, batch_entries: 3, batch_bytes: 100 }
}

fn drain(mut source: FileSource) -> (Vec<EntrySummary>, Option<SourceError>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut seen = Vec::new();
    loop {
        match runtime.block_on(source.next()) {
            Ok(None) => return (seen, None),
            Err(error) => return (seen, Some(error)),
            Ok(Some(batch)) => {
                // An empty list has no entries.
                let is_empty = batch.entries.is_empty() && batch.next_offset.is_none();
                assert!(!is_empty || batch.part.is_some(), "the batch is empty");
                for entry in &batch.entries {
                    assert_eq!(entry.log_time_ms, LogTime(5));
                    let content =
                        entry.content.as_ref().map_err(|none| none.error().unwrap().clone());
                    seen.push(EntrySummary {
                        origin: batch.origin.to_string(),
                        offset: entry.offset.get(),
                        line: entry.line,
                        raw: batch.raw(entry).to_vec(),
                        content: content.map(|good| {
                            (batch.text(&good.device).to_owned(), good.sample.time_ms.ms())
                        }),
                    });
                }
            }
        }
    }
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

fn read_with(
    bytes: impl AsRef<[u8]>,
    format: Option<InputFormat>,
    sizes: Sizes,
) -> (Vec<EntrySummary>, Option<SourceError>) {
    let folder = Folder::new();
    let path = folder.file("f", bytes);
    let (mut seen, error) = drain(FileSource::with_sizes(&[path], options(format), sizes).unwrap());
    seen.iter_mut().for_each(|seen| seen.origin.clear());
    (seen, error)
}

fn read(bytes: impl AsRef<[u8]>) -> Vec<EntrySummary> {
    let (seen, error) = read_with(bytes, None, SIZES);
    assert!(error.is_none(), "{error:?}");
    seen
}

fn json(device: &str, time: i64) -> String {
    format!("{{\"device_id\":\"{device}\",\"time\":{time},\"lat\":1,\"lon\":2}}")
}

fn gzip(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes.as_ref()).unwrap();
    writer.finish().unwrap()
}

/// The line of each entry, with its device or reason.
fn summarize(seen: &[EntrySummary]) -> Vec<(u64, Result<&str, &str>)> {
    let summaries = seen.iter().map(|seen| match &seen.content {
        Ok((device, _)) => (seen.line, Ok(device.as_str())),
        Err(fault) => (seen.line, Err(fault.reason.name())),
    });
    summaries.collect()
}

#[test]
fn lines_are_numbered_and_bytes_kept() {
    let bad = b"{\"device_id\":\"\xff\"} \t";
    let mut bytes = b"\xef\xbb\xbf".to_vec();
    bytes.extend(format!("{}\r\n\n  \t\r\n", json("a", 1)).as_bytes());
    bytes.extend(bad);
    bytes.extend(format!("\r\n{}", json("b", 2)).as_bytes());
    let seen = read(&bytes);
    assert_eq!(summarize(&seen), [(1, Ok("a")), (4, Err("bad_utf8")), (5, Ok("b"))]);
    assert_eq!(seen[0].raw, json("a", 1).as_bytes());
    assert_eq!(seen[1].raw, bad);
    assert_eq!(seen[2].raw, json("b", 2).as_bytes());
    assert_eq!(seen.iter().map(|seen| seen.offset).collect::<Vec<_>>(), [10, 11, 12]);
}

#[test]
fn files_follow_each_other_and_empty_ones_have_no_entries() {
    let folder = Folder::new();
    let zstd = zstd::encode_all(Cursor::new("lat,lon,ts,device\n1,2,3,c\n"), 1).unwrap();
    let two = [gzip(format!("{}\n{}", json("a", 1), "{")), gzip(format!("}}\n{}", json("b", 2)))];
    let paths = [
        folder.file("1", ""),
        folder.file("2.gz", two.concat()),
        folder.file("3", "\n \n"),
        folder.file("4.zst", &zstd),
        folder.file("5", "\u{feff}"),
        folder.file("6", "lat,lon,ts,device\n"),
    ];
    let source = FileSource::open(&paths, options(None)).unwrap();
    let lengths = paths.iter().map(|path| fs::metadata(path).unwrap().len());
    assert_eq!(source.total_bytes(), Some(lengths.sum()));
    let (seen, error) = drain(source);
    assert!(error.is_none());
    let good = [(1, Ok("a")), (2, Err("missing_field")), (3, Ok("b")), (2, Ok("c"))];
    assert_eq!(summarize(&seen), good);
    assert_eq!(seen[3].origin, paths[3].display().to_string());
    assert_eq!(seen[3].offset, 13);
}

#[test]
fn bytes_read_are_compressed_bytes() {
    let folder = Folder::new();
    let packed = gzip(format!("{}\n", json("a", 1)).repeat(100));
    let path = folder.file("f", &packed);
    let mut source = FileSource::open(&[path], options(None)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let batch = runtime.block_on(source.next()).unwrap().unwrap();
    assert_eq!((batch.entries.len(), batch.bytes_read), (100, packed.len() as u64));
}

#[test]
fn a_truncated_input_keeps_the_records_before() {
    let text: String =
        (0..2000).map(|time| json(&format!("d{}", time * 7919 % 1000), time) + "\n").collect();
    let zstd = zstd::encode_all(Cursor::new(&text), 1).unwrap();
    for packed in [gzip(&text), zstd] {
        let folder = Folder::new();
        let cut = folder.file("cut", &packed[..packed.len() / 2]);
        let next = folder.file("next", json("z", 1));
        let (seen, error) = drain(FileSource::open(&[cut, next], options(None)).unwrap());
        assert!(error.is_none());
        let [before @ .., broken, after] = &seen[..] else { panic!("{} entries", seen.len()) };
        assert_eq!(after.content.as_ref().unwrap().0, "z");
        assert_eq!(broken.reason(), Some(DeadReason::TruncatedInput));
        let mut kept: Vec<u8> = Vec::new();
        for seen in before {
            assert!(seen.content.is_ok());
            kept.extend(&seen.raw);
            kept.push(b'\n');
        }
        kept.extend(&broken.raw);
        assert!(text.as_bytes().starts_with(&kept), "the text begins with what was read");
        assert_eq!(broken.line, before.len() as u64 + 1);
    }
    let mut corrupt = gzip(format!("{}\n", json("a", 1)));
    corrupt.extend(b"garbage");
    let seen = read(corrupt);
    assert_eq!(summarize(&seen), [(1, Ok("a")), (2, Err("truncated_input"))]);
    assert!(seen[1].raw.is_empty());
    assert_eq!(summarize(&read([0x1f, 0x8b])), [(1, Err("truncated_input"))]);
}

#[test]
fn a_long_line_becomes_head_length_and_hash() {
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(3 << 20));
    for end in ["\n", "\r\n"] {
        let text = format!("{}{end}{long}{end}{}{end}", json("a", 1), json("b", 2));
        let seen = read(text);
        assert_eq!(summarize(&seen), [(1, Ok("a")), (2, Err("oversize")), (3, Ok("b"))]);
        assert_eq!(seen[1].raw, &long.as_bytes()[..1024]);
        let cut = Cut { bytes: long.len() as u64, sha256: Sha256::digest(&long).into() };
        assert_eq!(seen[1].content.as_ref().unwrap_err().cut, Some(cut));
    }
}

#[test]
fn the_size_limit_is_exact() {
    for (length, end) in [(20, "\n"), (20, "\r\n"), (21, "\n"), (21, "\r\n"), (20, ""), (21, "")] {
        for chunk in [1, 7, 1000] {
            let line = "x".repeat(length);
            let text = format!("{line}{end}");
            let (seen, _) = read_with(&text, Some(InputFormat::Ndjson), small(chunk, 20));
            let reason = if length > 20 { DeadReason::Oversize } else { DeadReason::BadJson };
            assert_eq!(seen.len(), 1);
            assert_eq!(seen[0].reason(), Some(reason), "{length} {end:?} {chunk}");
        }
    }
}

#[test]
fn a_long_record_includes_every_cr_except_that_of_its_line_end() {
    for (text, whole) in [
        ("aaaaaaaaaa\rbbbbbbbbbbb\r\r\n{}", "aaaaaaaaaa\rbbbbbbbbbbb\r"),
        ("aaaaaaaaaa\rbbbbbbbbbbb\r", "aaaaaaaaaa\rbbbbbbbbbbb\r"),
    ] {
        for chunk in [1, 2, 11, 1000] {
            let (seen, _) = read_with(text, Some(InputFormat::Ndjson), small(chunk, 20));
            let cut = Cut { bytes: whole.len() as u64, sha256: Sha256::digest(whole).into() };
            assert_eq!(seen[0].raw, b"aaaaaaaa");
            assert_eq!(seen[0].content.as_ref().unwrap_err().cut, Some(cut), "{text:?} {chunk}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_fifo_delivers_records_at_once() {
    let folder = Folder::new();
    let path = folder.0.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut source = FileSource::open(std::slice::from_ref(&path), options(None)).unwrap();
    assert_eq!(source.total_bytes(), None);
    let mut writer = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for time in 1..3 {
        // The writer stays open: if batches were only sent when full, this would block forever.
        writer.write_all(format!("{}\n", json("a", time)).as_bytes()).unwrap();
        let batch = runtime.block_on(source.next()).unwrap().unwrap();
        assert_eq!(batch.entries.len(), 1);
    }
    drop(writer);
    assert!(runtime.block_on(source.next()).unwrap().is_none());
}

/// A reader that returns only quotes and counts them.
struct Endless(Arc<std::sync::atomic::AtomicU64>, u64);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.fetch_add(buffer.len() as u64, std::sync::atomic::Ordering::Relaxed);
        buffer.fill(b'"');
        Ok(if read > self.1 { 0 } else { buffer.len() })
    }
}

#[test]
fn a_line_of_100_mb_needs_no_more_memory_than_the_limit() {
    for ends in [splitter::Ends::Lines, splitter::Ends::Rows { delimiter: b',' }] {
        let input = Endless(Arc::default(), 100_000_000);
        let mut records = splitter::Records::new(Box::new(input), SIZES, true);
        records.set_ends(ends);
        let mut count = 0;
        while !records.ended() {
            records.fill().unwrap();
            assert!(records.capacity() <= 2 * (MAX_RECORD_BYTES + SIZES.chunk));
            count += usize::from(records.next_record().is_some());
        }
        assert_eq!(count, 1);
    }
}

#[test]
fn csv_is_read() {
    let text = "\u{feff}\"device_id\",time,lat,lon,driver,ignition,speed\r\n\
                a,1,1,2,\"Zoë \"\"Z\"\"\r\nsecond line\",on,\r\n\
                \r\n\
                b,2,1,2,x\r\n\
                c,3,91,2,,,\r\n\
                d,4,nan,2,,,\r\n\
                e,5,\"1\"x,2,,,\r\n\
                f,6,x,2,,,\r\n\
                ,7,1,2,,,\r\n\
                \"h\",2026-11-20T21:38:00Z,1,2,,0,1e999\r\n\
                17,9.5,1,2,,,\r\n\
                18,10,1,2,,maybe,\r\n\
                19,\"11\",1,2,,,";
    let seen = read(text);
    let expected = [
        (2, Ok("a")),
        (5, Err("bad_csv")),
        (6, Err("out_of_range")),
        (7, Err("out_of_range")),
        (8, Err("bad_csv")),
        (9, Err("bad_type")),
        (10, Err("missing_field")),
        (11, Err("out_of_range")),
        (12, Ok("17")),
        (13, Ok("18")),
        (14, Ok("19")),
    ];
    assert_eq!(summarize(&seen), expected);
    assert_eq!(seen[0].raw, "a,1,1,2,\"Zoë \"\"Z\"\"\r\nsecond line\",on,".as_bytes());
    assert_eq!(seen[1].raw, b"b,2,1,2,x");
    assert_eq!(seen[4].raw, b"e,5,\"1\"x,2,,,");
    for delimiter in [";", "\t"] {
        let text = "lat,lon,ts,device\n1,2,3,a\n,,,\n".replace(',', delimiter);
        let seen = read(text);
        assert_eq!(summarize(&seen), [(2, Ok("a")), (3, Err("missing_field"))]);
    }
    let seen = read("lat,lon,ts,timestamp,device\n1,2,3,4,a\n1,2,3,,b\n");
    assert_eq!(summarize(&seen), [(2, Err("ambiguous_field")), (3, Ok("b"))]);
    let bad_bytes = b"lat,lon,ts,device\n1,2,3,\xff\n1,2,3,b\n";
    assert_eq!(summarize(&read(bad_bytes)), [(2, Err("bad_utf8")), (3, Ok("b"))]);
}

#[test]
fn an_unclosed_quote_only_affects_its_own_line() {
    let text = "lat,lon,ts,device\n1,2,3,a\n1,2,3,\"b\n1,2,3,c\n1,2,3,d";
    for chunk in [1, 10, 1000] {
        let (seen, _) = read_with(text, None, small(chunk, 1000));
        let expected = [(2, Ok("a")), (3, Err("bad_csv")), (4, Ok("c")), (5, Ok("d"))];
        assert_eq!(summarize(&seen), expected);
        assert_eq!(seen[1].raw, b"1,2,3,\"b");
    }
    let many = format!("{text}{}", "\n1,2,3,e".repeat(300_000));
    let seen = read(&many);
    assert_eq!(seen.len(), 300_004);
    assert_eq!(seen.iter().filter(|seen| seen.content.is_err()).count(), 1);
    let long = format!("lat,lon,ts,device\n1,2,3,\"{}\n1,2,3,c\n", "b".repeat(2 << 20));
    assert_eq!(summarize(&read(long)), [(2, Err("oversize")), (3, Ok("c"))]);
}

#[test]
fn a_file_of_unknown_format_is_rejected() {
    for (text, why) in [
        ("hello\nworld\n", "device_id is absent"),
        ("device,lat,lon\na,1,2\n", "time is absent"),
        ("device,lat,lat,lon,ts\n", "two columns are named `lat`"),
        ("\"device,lat", "a quote is not closed"),
        ("\"device,lat\n1,2\n", "its header has no end"),
    ] {
        let (seen, error) = read_with(text, None, SIZES);
        assert!(seen.is_empty());
        let message = error.unwrap().to_string();
        assert!(message.contains(why), "{text}: {message}");
    }
    let (_, error) = read_with([0xff, 0xfd, 0, 0, b'\n'], None, SIZES);
    assert!(error.unwrap().to_string().contains("neither NDJSON nor CSV"));
    let (seen, error) = read_with("hello\n", Some(InputFormat::Ndjson), SIZES);
    assert_eq!(summarize(&seen), [(1, Err("bad_json"))]);
    assert!(error.is_none());
    let rules =
        Rules { fields: crate::source::parse_map("lat=/gps/lat").unwrap(), ..Rules::default() };
    let decoder = Arc::new(Decoder::new(&rules).unwrap());
    let folder = Folder::new();
    let path = folder.file("f", "device,lat,lon,ts\n");
    let forced = Options { decoder, ..options(Some(InputFormat::Csv)) };
    let found = Options { format: None, ..forced.clone() };
    let error = FileSource::open(std::slice::from_ref(&path), forced).unwrap_err();
    assert!(error.to_string().contains("/gps/lat"), "{error}");
    let (_, error) = drain(FileSource::open(&[path], found).unwrap());
    assert!(error.unwrap().to_string().contains("/gps/lat"));
}

#[test]
fn inputs_are_checked_before_reading() {
    let folder = Folder::new();
    let good = folder.file("good", json("a", 1));
    let (none, dir) = (folder.0.path().join("none"), folder.0.path().to_owned());
    let error = FileSource::open(&[good.clone(), none.clone()], options(None)).unwrap_err();
    assert!(
        matches!(error, SourceError::Read { origin, .. } if origin == none.display().to_string())
    );
    let error = FileSource::open(&[dir, good, none], options(None)).unwrap_err().to_string();
    assert!(
        error.contains("it is a directory") && error.contains("none`: No such file"),
        "{error}"
    );
    let stdin = PathBuf::from("-");
    let error = FileSource::open(&[stdin.clone(), stdin], options(None)).unwrap_err();
    assert!(error.to_string().contains("name it once"));
}

#[test]
fn a_dropped_source_ends_its_thread() {
    let folder = Folder::new();
    let path = folder.file("f", format!("{}\n", json("a", 1)).repeat(100_000));
    let mut source = FileSource::with_sizes(&[path], options(None), small(100, 100)).unwrap();
    let thread = source.thread.take().unwrap();
    drop(source);
    thread.join().unwrap();
}

#[test]
fn a_panic_of_the_thread_is_an_error() {
    let (sender, batches) = channel(1);
    let thread = std::thread::spawn(move || {
        let _sender: tokio::sync::mpsc::Sender<BatchResult> = sender;
        panic!("on purpose");
    });
    let source = FileSource { batches, thread: Some(thread), total_bytes: None, inputs: vec![] };
    let (_, error) = drain(source);
    assert!(error.unwrap().to_string().contains("on purpose"));
}

fn lines_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let last = lines.pop().unwrap_or_default();
    let ended = lines.into_iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let all = ended.chain([last]);
    let spaces = |line: &[u8]| line.iter().all(|byte| b" \t\r".contains(byte));
    all.filter(|line| !spaces(line)).map(<[u8]>::to_vec).collect()
}

fn contents() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(json("a", 1).into_bytes()),
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\"".to_vec()),
        Just(b",".to_vec()),
        Just(b"1,2,3,a\n".to_vec()),
        Just(b"1,2,3,\"a\"\r\n".to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_line_is_one_entry_with_its_bytes(bytes in contents(), chunk in 1usize..50) {
        // The format is set and the first bytes are a line, so that random bytes are never taken
        // for another format or compressed data.
        let bytes = [b"{}\n", &bytes[..]].concat();
        let (seen, error) = read_with(&bytes, Some(InputFormat::Ndjson), small(chunk, 1 << 16));
        prop_assert!(error.is_none());
        let raw: Vec<_> = seen.iter().map(|seen| seen.raw.clone()).collect();
        prop_assert_eq!(raw, lines_of(&bytes));
        let (whole, _) = read_with(&bytes, None, SIZES);
        prop_assert_eq!(seen, whole);
    }

    #[test]
    fn sizes_of_reads_do_not_matter(bytes in contents(), chunk in 1usize..20, csv: bool) {
        let (head, format): (&[u8], _) = match csv {
            true => (b"lat,lon,ts,device\n", InputFormat::Csv),
            false => (b"{}\n", InputFormat::Ndjson),
        };
        let bytes = [head, &bytes[..]].concat();
        let (small_reads, _) = read_with(&bytes, Some(format), small(chunk, 40));
        let (large_reads, _) = read_with(&bytes, Some(format), small(10_000, 40));
        prop_assert_eq!(&small_reads, &large_reads);
        // Every byte except line ends and blanks is in a record, in order.
        if csv && small_reads.iter().all(|seen| seen.reason() != Some(DeadReason::Oversize)) {
            let non_blank = |bytes: &[u8]| -> Vec<u8> {
                bytes.iter().copied().filter(|byte| !b" \r\n".contains(byte)).collect()
            };
            let kept: Vec<u8> = small_reads.iter().flat_map(|seen| non_blank(&seen.raw)).collect();
            prop_assert_eq!(kept, non_blank(&bytes[head.len()..]));
        }
    }
}

#[path = "format_tests.rs"]
mod formats;
