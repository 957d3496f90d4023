//! Hostile records from a seed: every axis is drawn independently, so that all combinations occur.
//! The expected result of a record follows from how it was made; nothing here parses one.

use std::collections::BTreeSet;

use super::body::{self, Body, DAY_MS, Good, MAX_VALUE_BYTES};
use super::draw::Draw;
use super::wire::Record;

/// Timestamp of ordinary records: a day after their samples begin.
pub const LOG_MS: i64 = DAY_MS + 86_400_000;

/// A record, its partition, and its expected result.
#[derive(Clone, Debug, Default)]
pub struct TestRecord {
    pub record: Record,
    pub partition: i32,
    /// Samples that have to be applied, or be duplicates, in this order.
    pub good: Vec<Good>,
    /// Samples that have to be dead letters; at least one if the whole record is a dead letter.
    pub bad: usize,
    /// The whole record is a dead letter, however many samples its value has.
    pub whole: bool,
    /// Reasons that its dead letters may have.
    pub why: BTreeSet<&'static str>,
    /// A description, and how to make the record again.
    pub what: String,
}

/// The topic for which records are made.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub seed: u64,
    pub partitions: i32,
    /// `max.message.bytes`: the maximum size of a batch of one record.
    pub limit: usize,
    /// Total number of hostile records.
    pub records: u64,
}

/// Java's producer hash of keys.
fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ key.len() as u32;
    let mut words = key.chunks_exact(4);
    for word in &mut words {
        let word = u32::from_le_bytes(word.try_into().unwrap()).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ (word ^ (word >> 24)).wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (nth, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * nth);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// The partition of a key.
pub fn partition_of(key: &[u8], partitions: i32) -> i32 {
    (murmur2(key) & 0x7fff_ffff) as i32 % partitions
}

/// The `nth` sample of the well-behaved devices: some are late, some join two trips.
pub fn well_behaved(shape: &Shape, nth: u64) -> TestRecord {
    let devices = 20 + shape.records / 200;
    let (device, nth) = (format!("good-{}", nth % devices), nth / devices);
    let slot = nth / 8 * 8 + [0, 2, 4, 1, 3, 7, 6, 5][(nth % 8) as usize];
    // Every second one is a trip of its own until the one in between arrives.
    let time_ms = DAY_MS + (slot * 200_000 + slot / 40 * 3_600_000) as i64 % 80_000_000;
    let good = Good { device, time_ms, lat_e7: 480_000_000 + nth as i32 };
    plain(shape, good)
}

/// A record of a sample as any producer sends it.
pub fn plain(shape: &Shape, good: Good) -> TestRecord {
    let record = Record {
        key: Some(good.device.as_bytes().to_vec()),
        value: Some(body::sample(&good, "").into_bytes()),
        headers: Vec::new(),
        timestamp_ms: LOG_MS,
    };
    let partition = partition_of(good.device.as_bytes(), shape.partitions);
    let what = format!("a good sample of {}", good.device);
    TestRecord { record, partition, good: vec![good], what, ..TestRecord::default() }
}

/// Device ids that are awkward in a table, a path, a terminal or a limit.
fn device(draw: &mut Draw, index: u64) -> String {
    const ODD: [&str; 14] = [
        ".",
        "..",
        "~",
        "~2e",
        "a/../b",
        "\u{202e}gnp.exe",
        "\u{1b}[2J\u{7}",
        "\n\r",
        "null",
        " ",
        "\u{feff}",
        "';--",
        "%00",
        "\u{1}\u{7f}\u{85}\u{2028}",
    ];
    match draw.below(8) {
        0 => draw.pick(&ODD).to_owned(),
        1 => format!("{}{}", "é".repeat(126), 1000 + draw.below(9000)),
        2 => format!("{}{:02}", "x".repeat(254), draw.below(100)),
        // As many as a model can handle, whatever the number of records.
        _ => format!("bad-{}", index / 2000 * 60 + draw.below(60)),
    }
}

fn key(draw: &mut Draw, device: &str, limit: usize) -> Option<Vec<u8>> {
    match draw.below(40) {
        0 => None,
        1 => Some(Vec::new()),
        2 => Some(b"good-1".to_vec()),
        3 => Some(vec![0xff, 0xfe, 0x80]),
        4 => Some([device.as_bytes(), b"\0"].concat()),
        5 => Some(vec![b'k'; 257]),
        6 if draw.one_in(10) => Some(vec![b'k'; 600_000]),
        7 if draw.one_in(40) => Some(vec![0xff; limit - 2000]),
        _ => Some(device.as_bytes().to_vec()),
    }
}

type Header = (Vec<u8>, Option<Vec<u8>>);

/// Names with a meaning to this program, or to Kafka Connect.
const NAMES: [&str; 10] = [
    "tstar-element",
    "tstar-sha256",
    "tstar-length",
    "tstar-fate",
    "tstar-fate-of",
    "tstar-dlq-origin",
    "tstar-dlq-reason",
    "__connect.errors.topic",
    "__connect.errors.offset",
    "__connect.errors.connector.name",
];

fn headers(draw: &mut Draw, room: usize) -> Vec<Header> {
    let name = |name: &str| name.as_bytes().to_vec();
    match draw.below(24) {
        0 => vec![(Vec::new(), None), (Vec::new(), Some(Vec::new()))],
        1 => vec![(name("trace"), Some(draw.bytes(64)))],
        2 | 3 => {
            let value = draw.pick(&["", "0", "-1", "99999999999999999999", "tstar", "x:0:0"]);
            NAMES.iter().map(|known| (name(known), Some(name(value)))).collect()
        }
        4 => vec![(vec![b'n'; draw.size(room.min(30_000))], None)],
        5 if draw.one_in(10) => vec![(name("long"), Some(draw.bytes(room.min(400_000))))],
        6 if draw.one_in(10) => vec![(Vec::new(), None); draw.size(room / 2)],
        7 if draw.one_in(10) => vec![(name("h"), None); draw.size(room / 3)],
        8 if draw.one_in(4) => {
            let count = draw.size(room / 8).min(20_000);
            (0..count).map(|nth| (name("h"), Some(vec![nth as u8; 4]))).collect()
        }
        9 => vec![(vec![0xff, b'n'], Some(vec![1])), (name("behind"), None)],
        _ => Vec::new(),
    }
}

/// The log timestamp, which under `CreateTime` the producer chooses.
fn timestamp(draw: &mut Draw) -> i64 {
    const TIMES: [i64; 12] = [
        i64::MIN,
        -1000,
        -1,
        0,
        1,
        DAY_MS - 86_400_000 * 30,
        body::LAST_MS,
        body::LAST_MS + 1,
        10 * body::LAST_MS,
        i64::MAX / 2,
        i64::MAX - 1,
        i64::MAX,
    ];
    if draw.one_in(10) { draw.pick(&TIMES) } else { LOG_MS }
}

/// The hostile record of an index.
pub fn hostile(shape: &Shape, index: u64) -> TestRecord {
    let mut draw = Draw::new(shape.seed, index);
    let draw = &mut draw;
    let device = device(draw, index);
    let own = partition_of(device.as_bytes(), shape.partitions);
    let elsewhere = (own + 1 + draw.below(shape.partitions as u64 - 1) as i32) % shape.partitions;
    let partition = if draw.one_in(10) { elsewhere } else { own };
    let key = key(draw, &device, shape.limit);
    let room = |headers: usize, key: &Option<Vec<u8>>| {
        shape.limit.saturating_sub(headers + key.as_ref().map_or(0, Vec::len) + 300)
    };
    let headers = headers(draw, room(0, &key));
    let taken =
        headers.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len) + 6);
    let room = room(taken.sum(), &key);
    let timestamp_ms = timestamp(draw);
    let mut made = if draw.one_in(25) {
        control(draw, &device, key, headers, timestamp_ms)
    } else {
        let body = body::body(draw, &device, room, timestamp_ms.max(0));
        let record = Record { key, value: body.bytes.clone(), headers, timestamp_ms };
        expected(record, body, &device, partition != own)
    };
    made.partition = partition;
    if partition != own {
        made.what += ", in another partition";
    }
    if draw.one_in(1000) {
        fill(&mut made, shape.limit);
    }
    made.what = format!("seed {} index {index}: {}", shape.seed, made.what);
    made
}

impl TestRecord {
    /// Marks its samples as bad, for this reason.
    fn fail(&mut self, reason: &'static str) {
        self.why.insert(reason);
        self.bad += self.good.len();
        self.good.clear();
    }

    /// Marks the whole record as a dead letter.
    fn fail_whole(&mut self, reason: &'static str) {
        self.fail(reason);
        (self.whole, self.bad) = (true, 1);
    }
}

/// The expected result of a record whose value, key, partition and time were chosen independently.
fn expected(record: Record, body: Body, device: &str, is_elsewhere: bool) -> TestRecord {
    let Body { good, bad, why, what, bytes } = body;
    let is_empty = good.is_empty() && bad == 0;
    let key = record.key.as_ref().map_or(-1, |key| key.len() as i64);
    let what = format!(
        "{what}; {} headers, a key of {key}, log time {}",
        record.headers.len(),
        record.timestamp_ms
    );
    // A record without a timestamp counts as 1970.
    let log_ms = if record.timestamp_ms == -1 { 0 } else { record.timestamp_ms };
    let key = record.key.clone();
    let mut made = TestRecord { record, good, bad, why, what, ..TestRecord::default() };
    // The samples share a day, or there is only one.
    let is_late = made.good.iter().any(|it| body::why_time(it.time_ms, log_ms).is_some());
    if is_late {
        made.fail("time_in_future");
    }
    if !is_empty && key.as_deref() != Some(device.as_bytes()) {
        made.fail("key_mismatch");
    }
    if !is_empty && is_elsewhere {
        made.fail("other_partition");
    }
    if key.is_none_or(|key| key.is_empty()) {
        made.fail_whole("no_key");
    }
    if bytes.is_some_and(|bytes| bytes.len() > MAX_VALUE_BYTES) {
        made.fail_whole("oversize");
    }
    made
}

/// Control records: none has the operator's signature.
fn control(
    draw: &mut Draw,
    device: &str,
    key: Option<Vec<u8>>,
    mut headers: Vec<Header>,
    timestamp_ms: i64,
) -> TestRecord {
    const BODIES: [&str; 10] = [
        "",
        "{}",
        r#"{"before":9223372036854775807}"#,
        r#"{"before":"9999-12-31T23:59:59.999Z"}"#,
        r#"{"before":-1}"#,
        r#"{"before":null}"#,
        r#"{"before":1e400}"#,
        r#"{"before":1714600000000,"signature":"AAAA"}"#,
        r#"{"before"#,
        "\u{feff}[]",
    ];
    // Mostly of a well-behaved device: nothing of it may be erased.
    let key = match key {
        Some(own) if own == device.as_bytes() && draw.one_in(2) => {
            Some(format!("good-{}", draw.below(20)).into_bytes())
        }
        other => other,
    };
    let kind: &[u8] = draw.pick(&[b"forget", b"forget", b"forget", b"FORGET", b"", b"\xff\0"]);
    let kind = if draw.one_in(20) { None } else { Some(kind.to_vec()) };
    headers.push((b"tstar-control".to_vec(), kind.clone()));
    if draw.one_in(2) {
        let signature = draw.bytes(32);
        for name in ["tstar-signature", "tstar-control-signature", "tstar-control-key"] {
            headers.push((name.into(), Some(signature.clone())));
        }
    }
    let value = draw.pick(&BODIES).as_bytes().to_vec();
    let value = if draw.one_in(10) { vec![0xff] } else { value };
    let why = BTreeSet::from([
        "not_authorised",
        // With an unreadable header name it is an ordinary sample.
        "missing_field",
        "bad_type",
        "bad_json",
        "bad_utf8",
        "no_key",
        "other_partition",
        "out_of_range",
        "bad_device_id",
    ]);
    let what = format!(
        "control {:?} of {:?}: {}",
        kind.map(|kind| String::from_utf8_lossy(&kind).into_owned()),
        key.as_ref().map(|key| String::from_utf8_lossy(&key[..key.len().min(40)]).into_owned()),
        String::from_utf8_lossy(&value)
    );
    let record = Record { key, value: Some(value), headers, timestamp_ms };
    TestRecord { record, bad: 1, whole: true, why, what, ..TestRecord::default() }
}

/// Blanks after the value, or a header, fill a record up to the limit.
pub fn fill(made: &mut TestRecord, limit: usize) {
    let Some(value) = &mut made.record.value else { return };
    let before = value.len();
    if limit.saturating_sub(made.record.batch_bytes()) + before > MAX_VALUE_BYTES {
        made.record.headers.push((b"fill".to_vec(), Some(Vec::new())));
    }
    for _ in 0..4 {
        let free = limit as i64 - made.record.batch_bytes() as i64;
        let record = &mut made.record;
        let filler = match record.headers.last_mut() {
            Some((name, Some(filler))) if name == b"fill" => filler,
            _ => record.value.as_mut().unwrap(),
        };
        filler.resize((filler.len() as i64 + free).max(0) as usize, b' ');
    }
    made.what += ", filled to the limit";
}

#[test]
fn keys_go_where_java_sends_them() {
    // From the tests of Kafka's own hash.
    for (key, hash) in
        [("21", -973_932_308), ("foobar", -790_332_482), ("a-little-bit-long-string", -985_981_536)]
    {
        assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
    }
}
