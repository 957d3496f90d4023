//! Dead letters that are large, or many, of records made for that.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tstar::internals::kafka::producer::ProducerRecord;

use super::{PARTITIONS, Site, keyed, renamed, sample};
use crate::faults::until;
use crate::topic::{StoredRecord, Topic, drain, start};

impl Site {
    /// Whether everything in the topic was read and committed.
    fn is_read(&self) -> Option<()> {
        let committed = self.topic.committed(&self.topic.name, PARTITIONS);
        let ends = self.topic.ends(PARTITIONS);
        let read = |(at, end): (&i32, &i64)| *end == 0 || committed.get(at) == Some(end);
        ends.iter().all(read).then_some(())
    }
}

/// The size of a record in its topic, without its framing.
fn size(kept: &StoredRecord) -> usize {
    let headers = kept.headers.iter().map(|(name, value)| name.len() + value.len());
    kept.key.as_ref().map_or(0, Vec::len) + kept.value.len() + headers.sum::<usize>()
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}

const LONG_KEY: usize = 600_000;

/// Each is too large for a topic that takes 2000 bytes.
fn large_records() -> Vec<ProducerRecord> {
    let header = |name: &str, bytes| (name.to_owned(), Some(vec![7; bytes]));
    let no_key = |headers| ProducerRecord {
        headers,
        value: sample("truck-2", 1).into(),
        ..ProducerRecord::default()
    };
    vec![
        keyed(&"k".repeat(LONG_KEY), sample("truck-9", 1)),
        no_key(vec![header("trace", 400_000)]),
        no_key(vec![header(&"n".repeat(30_000), 0)]),
        no_key((0..5000).map(|nth| header(&nth.to_string(), 1)).collect()),
        keyed(&"k".repeat(300_000), format!("\"{}\"", "v".repeat(300_000))),
        ProducerRecord {
            headers: vec![header("both", 450_000)],
            ..keyed("truck-3", "v".repeat(450_000))
        },
    ]
}

#[test]
fn a_letter_fits_its_topic_and_its_neighbours_come_whole_and_once() {
    for limit in ["2000", "1000000"] {
        let Some(site) = Site::bare() else { return };
        let options = [("max.message.bytes", limit)];
        Topic::on(site.topic.brokers.clone(), site.letter_topic(), PARTITIONS, &options);
        let small = |nth| keyed("truck-1", renamed("truck-1", nth));
        let mut records: Vec<ProducerRecord> = (1..20).map(small).collect();
        records.extend(large_records());
        records.extend((20..40).map(small));
        records.push(keyed("truck-1", sample("truck-1", 41)));
        site.topic.send(&records);
        site.run_until("what was sent", || site.is_read());
        let kept = site.topic.records_of(&site.letter_topic());
        assert_eq!(kept.len(), 39 + 6, "{limit}");
        let most: usize = limit.parse().unwrap();
        assert!(kept.iter().all(|kept| size(kept) < most), "{limit}");
        // Nothing comes again, and nothing blocks what follows.
        site.topic.send(&[keyed("truck-1", sample("truck-1", 42))]);
        site.run_until("one more", || site.is_read());
        assert_eq!(site.topic.records_of(&site.letter_topic()), kept);
        assert_eq!(site.samples(), 2);

        let letters = site.ls("");
        let is_cut = |it: &&Value| {
            ["sha256", "key_sha256", "headers_sha256"].iter().any(|name| !it[*name].is_null())
        };
        let cut: Vec<_> = letters.iter().filter(is_cut).collect();
        assert_eq!(cut.len(), if limit == "2000" { 6 } else { 0 }, "{limit}: {cut:?}");
        if let Some(long) = cut.iter().find(|it| it["reason"] == "key_mismatch") {
            assert_eq!(long["key_bytes"], LONG_KEY);
            assert_eq!(long["key_sha256"], hex("k".repeat(LONG_KEY).as_bytes()));
            assert_eq!(long["value"], sample("truck-9", 1));
        }
        let replayed = site.run("replay --dry-run").ends(0).json();
        let never = if limit == "2000" { json!({"cut": 6}) } else { json!({}) };
        assert_eq!(replayed["never"], never, "{limit}");
    }
}

/// Memory for a record of half a megabyte in flight: the client has it twice, the batch once, its
/// dead letters a few times.
#[cfg(target_os = "linux")]
const RECORD_MEMORY: u64 = 64 << 20;

#[cfg(target_os = "linux")]
#[test]
fn an_array_of_very_many_bad_elements_costs_a_few_times_its_size() {
    let Some(site) = Site::bare() else { return };
    let array = |elements: usize| format!("[{}1]", "1,".repeat(elements - 1));
    let trace = ("trace".to_owned(), Some(vec![7; 400_000]));
    let with_header = ProducerRecord { headers: vec![trace], ..keyed("truck-1", array(10_000)) };
    let words = format!("run {} {} --from earliest --create-topics", site.log(), site.store());
    site.topic.send(&[keyed("truck-1", sample("truck-1", 1))]);
    let mut running = start(&site.folder, &words);
    until("the first sample", || site.is_read());
    let before = running.peak_memory();
    let good: Vec<_> = (2..12).map(|minute| sample("truck-1", minute)).collect();
    let mixed = format!("[{},{}]", good.join(","), "0,".repeat(149) + "0");
    site.topic.send(&[
        with_header,
        keyed("truck-1", array(450_000)),
        keyed("truck-1", mixed),
        keyed("truck-1", sample("truck-1", 12)),
    ]);
    until("the arrays", || site.is_read());
    let taken = running.peak_memory() - before;
    println!("{} MB more at the peak", taken >> 20);
    assert!(taken < RECORD_MEMORY, "{taken} bytes");
    let summary = drain(running, &words).ends(0).json();
    let bad = 10_000 + 450_000 + 150;
    assert_eq!(summary["dead_letters"], json!({ "bad_json": bad }));
    assert_eq!((&summary["delivered"], &summary["applied"]), (&json!(bad + 12), &json!(12)));
    let said = |kept: &StoredRecord| kept.header("__connect.errors.exception.message").to_owned();
    let letters = site.topic.records_of(&site.letter_topic());
    let heads: BTreeMap<_, _> = letters
        .iter()
        .map(|kept| (kept.value.len(), said(kept).split(';').next().unwrap().to_owned()))
        .collect();
    assert_eq!(letters.len(), 3, "{heads:?}");
    let message = "elements cannot be used";
    assert_eq!(heads[&20_001], format!("10000 of 10000 {message}"));
    assert_eq!(heads[&900_001], format!("450000 of 450000 {message}"));
    assert!(heads.values().any(|said| *said == format!("150 of 160 {message}")), "{heads:?}");
    // Its good elements are duplicates then, and its bad ones one dead letter again.
    let replayed = site.run("replay --dry-run").ends(0).json();
    assert_eq!(replayed["replayed"], 1);
    assert_eq!(replayed["still_failing"], json!({"bad_json": 2}));
}
