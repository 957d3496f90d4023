//! Hundreds of thousands of malformed lines among as many good ones, each judged by a reader that
//! shares nothing with the program's.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde_json::{Value, json};

use super::judge::{AS_JUDGED, Verdict, judge};
use super::{Letter, by_reason, letters, summary};
use crate::cli::{Folder, number};

/// Minimum number of malformed lines, and of good ones.
const EACH: usize = 300_000;

/// Values of the wrong type, or of the right type and not valid in a sample.
const VALUES: [&[u8]; 16] = [
    b"null",
    b"true",
    b"[1]",
    b"{}",
    b"\"\"",
    b"\"x\"",
    b"91",
    b"-181",
    b"1e999",
    b"-1e308",
    b"NaN",
    b"0",
    b"1.5",
    b"\"1980-01-06T00:00:00Z\"",
    b"\"2999-01-01T00:00:00Z\"",
    b"\"a\\u0000b\"",
];

/// Members that a good line may contain twice.
const MEMBERS: [&[u8]; 9] = [
    b"\"lat\":1,",
    b"\"deviceId\":\"x\",",
    b"\"latitude\":1,",
    b"\"ts\":1,\"timestamp\":2,",
    b"\"ignition\":\"half\",",
    b"\"driver\":7,",
    b"\"x\":[{\"lat\":[]}],",
    b"\"heading\":361,",
    b"\"altitude\":null,",
];

/// Bytes that are significant in JSON, and some that are valid nowhere.
const BYTES: &[u8] = b"\"{}[]:,\\-+.e0159 \t\r\nuntx\x00\x01\x7f\x80\xc3\xe2\xed\xff";

struct Mutator(ChaCha8Rng);

impl Mutator {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound as u64) as usize
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Changes a line in one way.
    fn change(&mut self, line: &mut Vec<u8>) {
        let at = self.below(line.len().max(1)).min(line.len());
        let end = (at + 1 + self.below(8)).min(line.len());
        match self.below(9) {
            0 if at < line.len() => line[at] ^= 1 << self.below(8),
            1 if at < line.len() => line[at] = self.pick(BYTES),
            2 => line.truncate(at),
            3 => line.insert(at, self.pick(BYTES)),
            4 => drop(line.drain(at..end)),
            5 => {
                let again = line[at..end].to_vec();
                line.splice(end..end, again);
            }
            6 => self.replace_value(line),
            7 => {
                let member = self.pick(&MEMBERS);
                line.splice(1.min(line.len())..1.min(line.len()), member.iter().copied());
            }
            _ => self.repeat_member(line),
        }
    }

    /// Replaces the value after one of the colons that end a name.
    fn replace_value(&mut self, line: &mut Vec<u8>) {
        let ends: Vec<_> = line.windows(2).enumerate().filter(|(_, pair)| pair == b"\":").collect();
        let Some(start) = (!ends.is_empty()).then(|| ends[self.below(ends.len())].0 + 2) else {
            return;
        };
        let length = line[start..].iter().position(|byte| b",}".contains(byte));
        let value = self.pick(&VALUES);
        line.splice(start..start + length.unwrap_or(0), value.iter().copied());
    }

    /// Repeats one of the members at the end.
    fn repeat_member(&mut self, line: &mut Vec<u8>) {
        let Some(inner) = line.strip_prefix(b"{").and_then(|line| line.strip_suffix(b"}")) else {
            return;
        };
        let members: Vec<_> = inner.split(|byte| *byte == b',').collect();
        let again = [b",".as_slice(), self.pick(&members), b"}"].concat();
        line.pop();
        line.extend_from_slice(&again);
    }
}

/// A log, and its expected result.
#[derive(Default)]
struct Log {
    bytes: Vec<u8>,
    lines: u64,
    /// Line and reason.
    bad: Vec<(u64, &'static str)>,
    good: usize,
    kept: HashSet<(String, i64)>,
}

impl Log {
    /// Appends the lines of a mutated line, unless one of them depends on the clock.
    fn push(&mut self, line: &[u8], now_ms: i64) {
        let pieces: Vec<_> = line.split(|byte| *byte == b'\n').collect();
        // The program drops one CR at the end of a line.
        let bare = |piece: &[u8]| judge(piece.strip_suffix(b"\r").unwrap_or(piece), now_ms);
        let verdicts: Vec<_> = pieces.iter().map(|piece| bare(piece)).collect();
        if verdicts.contains(&Verdict::Unsure) {
            return;
        }
        for verdict in verdicts {
            self.lines += 1;
            match verdict {
                Verdict::Good(device, time_ms) => {
                    self.good += 1;
                    self.kept.insert((device, time_ms));
                }
                Verdict::Bad(reason) => self.bad.push((self.lines, reason)),
                Verdict::Blank | Verdict::Unsure => {}
            }
        }
        self.bytes.extend_from_slice(line);
        self.bytes.push(b'\n');
    }
}

/// The fleet's lines, a sixth of them malformed, each followed by a line mutated from it.
fn make(folder: &Folder) -> Log {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now_ms = i64::try_from(now.as_millis()).unwrap();
    let fleet = folder
        .run("simulate --mix 46,34,19,1 --devices 60 --samples 360000 --seed 12 --bad 0.15")
        .ends(0);
    let mut mutator = Mutator(ChaCha8Rng::seed_from_u64(12));
    let mut log = Log::default();
    for line in fleet.stdout.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap();
        log.push(line, now_ms);
        let mut changed = line.to_vec();
        for _ in 0..1 + mutator.below(3) {
            mutator.change(&mut changed);
        }
        log.push(&changed, now_ms);
    }
    assert!(log.bad.len() >= EACH && log.good >= EACH, "{} and {}", log.bad.len(), log.good);
    log
}

fn check_letters(log: &Log, letters: &[Letter]) {
    let lines: Vec<_> = log.bytes.split(|byte| *byte == b'\n').collect();
    let shown = |line: u64| String::from_utf8_lossy(lines[line as usize - 1]).into_owned();
    let each = letters.iter().flat_map(|letter| (0..letter.count).map(move |nth| (nth, letter)));
    let each: Vec<_> = each.collect();
    for ((nth, letter), (line, reason)) in each.iter().zip(&log.bad) {
        let found = (if *nth == 0 { letter.line } else { *line }, letter.reason.as_str());
        assert_eq!(found, (*line, *reason), "{}: {}", shown(*line), letter.message);
        let whole = lines[*line as usize - 1];
        let whole = whole.strip_suffix(b"\r").unwrap_or(whole);
        assert!(letter.bytes() == whole, "other bytes than line {line}: {}", shown(*line));
        assert_eq!((letter.value_bytes, &letter.sha256), (whole.len() as u64, &None));
    }
    assert_eq!(each.len(), log.bad.len());
}

#[test]
fn every_malformed_line_is_kept_and_every_good_one_counts() {
    let folder = Folder::new();
    let log = make(&folder);
    folder.write("log", &log.bytes);
    let ran = folder.run(&format!("ingest log --json {AS_JUDGED}"));
    let problems = ran.stderr.lines().filter(|line| !line.starts_with("tstar: warning: "));
    assert_eq!(problems.count(), 4, "three reasons, and where all are\n{ran}");
    let summary = summary(ran, 0);
    let letters = letters(&folder, "trips.db");
    check_letters(&log, &letters);
    let reasons = by_reason(&letters);
    assert_eq!(json!(reasons), summary["dead_letters"]);
    assert_eq!(number(&summary["delivered"]), (log.good + log.bad.len()) as u64);
    assert_eq!(number(&summary["applied"]), log.kept.len() as u64);
    assert_eq!(number(&summary["duplicates"]), (log.good - log.kept.len()) as u64);
    assert_eq!(summary["dropped"], json!({}));

    let mut stored: BTreeMap<String, u64> = BTreeMap::new();
    for line in folder.text("export --kind all").lines() {
        let trip: Value = serde_json::from_str(line).unwrap();
        let device = trip["device_id"].as_str().unwrap().to_owned();
        *stored.entry(device).or_default() += number(&trip["samples"]);
    }
    let mut kept: BTreeMap<String, u64> = BTreeMap::new();
    for (device, _) in &log.kept {
        *kept.entry(device.clone()).or_default() += 1;
    }
    assert!(stored == kept, "samples of each device");

    let mut counts = String::new();
    for (reason, count) in &reasons {
        write!(counts, ", {reason} {count}").unwrap();
    }
    let (bad, delivered) = (log.bad.len(), &summary["delivered"]);
    println!("hostile: {bad} malformed of {delivered} lines: {}", &counts[2..]);
}
