//! Single records that once stopped a partition, took too much memory or erased something, each
//! between good samples.

use std::collections::BTreeSet;

use serde_json::Value;

use super::body::{self, Good, LAST_MS};
use super::daemon::Daemon;
use super::generate::{LOG_MS, Shape, TestRecord, partition_of, plain, well_behaved};
use super::site::Site;
use super::wire::{Codec, Record, Wire};
use super::{LIMIT, prove};
use crate::faults::until;
use crate::topic::Topic;

const SHAPE: Shape = Shape { seed: 0, partitions: 3, limit: LIMIT, records: 0 };

/// Samples before the record, and as many after it.
const AROUND: u64 = 60;

/// The kind of store that a run builds.
#[derive(Clone, Copy)]
enum Store {
    File,
    Keyspace,
}

/// Runs over these records between good ones.
#[track_caller]
fn stops_nothing(store: Store, records: &[TestRecord]) {
    let site = match store {
        Store::File => Site::new(SHAPE, None),
        Store::Keyspace => Site::in_keyspace(SHAPE),
    };
    let Some(mut site) = site else { return };
    let good = |nth| well_behaved(&SHAPE, nth);
    let before = (0..AROUND).map(good);
    site.send(before.chain(records.iter().cloned()).chain((AROUND..2 * AROUND).map(good)));
    prove(&site);
}

fn sample(device: &str, minute: i64) -> Good {
    let time_ms = body::DAY_MS + minute * 60_000;
    Good { device: device.to_owned(), time_ms, lat_e7: 520_000_000 }
}

/// A record of a device, good except for one change.
fn modified(what: &str, why: &[&'static str], change: impl FnOnce(&mut TestRecord)) -> TestRecord {
    let mut made = plain(&SHAPE, sample("bad-1", 1));
    made.what = what.to_owned();
    change(&mut made);
    if !why.is_empty() {
        made.good.clear();
        made.bad = made.bad.max(1);
        made.why = why.iter().copied().collect::<BTreeSet<_>>();
    }
    made
}

/// Issue 15, item 1: the device of the key differs, and the dead letter says so with the key in it.
#[test]
fn a_key_of_600_kb_fits_into_no_letter() {
    let large = modified("a key of 600 kB", &["key_mismatch"], |made| {
        made.record.key = Some(vec![b'k'; 600_000]);
    });
    stops_nothing(Store::Keyspace, std::slice::from_ref(&large));
    stops_nothing(Store::File, &[large]);
}

/// The same with headers, a value, and all together, at the very limit.
#[test]
fn what_fills_a_record_fits_into_no_letter() {
    let headers = modified("a header up to the limit", &["bad_json"], |made| {
        made.record.value = Some(b"{".to_vec());
        made.record.headers = vec![(b"h".to_vec(), Some(vec![0; LIMIT - 300]))];
    });
    let name = modified("headers of long names", &["bad_json"], |made| {
        made.record.value = Some(b"{".to_vec());
        made.record.headers = vec![(vec![b'n'; 30_000], None); 34];
    });
    let value = modified("a value up to the limit", &["bad_json"], |made| {
        made.record.value = Some(b"{".to_vec());
        super::generate::fill(made, LIMIT);
    });
    let key = modified("a key up to the limit", &["key_mismatch"], |made| {
        made.record.key = Some(vec![0xff; LIMIT - 300]);
    });
    stops_nothing(Store::Keyspace, &[headers, name, value, key]);
}

/// As many headers as are read of a record, and more: those of the dead letter come after them.
#[test]
fn a_letter_of_many_headers_is_found_again() {
    let with_headers = |count: usize| {
        modified(&format!("{count} headers"), &["bad_json"], |made| {
            made.record.value = Some(b"{".to_vec());
            made.record.headers = vec![(b"h".to_vec(), None); count];
        })
    };
    let records = [9_980, 9_999, 10_000, 10_001, 40_000].map(with_headers);
    stops_nothing(Store::Keyspace, &records);
    stops_nothing(Store::File, &records);
}

/// Item 2: the year 10000 has no trip id.
#[test]
fn a_time_past_the_year_9999_mints_no_trip() {
    let beyond = |time_ms: i64| {
        let why: &[&'static str] = if time_ms > LAST_MS { &["out_of_range"] } else { &[] };
        modified(&format!("time {time_ms} ms"), why, |made| {
            made.record.timestamp_ms = i64::MAX;
            made.good[0].time_ms = time_ms;
            made.record.value = Some(body::sample(&made.good[0], "").into_bytes());
        })
    };
    let records = [LAST_MS, LAST_MS + 1, i64::MAX].map(beyond);
    stops_nothing(Store::File, &records);
    stops_nothing(Store::Keyspace, &records);
}

/// Item 3: one record of a device in another partition.
#[test]
fn a_device_in_another_partition_is_a_letter() {
    let first = modified("a device's first record", &[], |_| ());
    let elsewhere = |minute: i64| {
        modified("a device in another partition", &["other_partition"], |made| {
            made.record.value = Some(body::sample(&sample("bad-1", minute), "").into_bytes());
            made.partition = (made.partition + 1) % SHAPE.partitions;
        })
    };
    let records = [first, elsewhere(2), elsewhere(500)];
    stops_nothing(Store::File, &records);
    stops_nothing(Store::Keyspace, &records);
}

/// Item 4: each dead letter has the headers of its record.
#[test]
fn letters_of_one_record_share_its_headers() {
    let array = modified("10,000 bad elements, a header of 400 kB", &["bad_json"], |made| {
        made.record.headers = vec![(b"h".to_vec(), Some(vec![b'h'; 400_000]))];
        made.record.value = Some(format!("[{}1]", "1,".repeat(9_999)).into_bytes());
        made.bad = 10_000;
    });
    stops_nothing(Store::File, std::slice::from_ref(&array));
    stops_nothing(Store::Keyspace, &[array]);
}

/// Item 4: one dead letter per element would be half a million of them.
#[test]
fn half_a_million_bad_elements_are_bounded() {
    let array = modified("500,000 bad elements", &["bad_json"], |made| {
        made.record.value = Some(format!("[{}1]", "1,".repeat(499_999)).into_bytes());
        made.bad = 500_000;
    });
    stops_nothing(Store::File, std::slice::from_ref(&array));
    stops_nothing(Store::Keyspace, &[array]);
}

/// A header takes two bytes of a record, or three with a name.
#[test]
fn a_third_of_a_million_headers_is_bounded() {
    let headers = |why: &[&'static str], value: Option<&[u8]>| {
        modified("330,000 headers", why, |made| {
            made.record.headers = vec![(b"h".to_vec(), None); 330_000];
            if let Some(value) = value {
                made.record.value = Some(value.to_vec());
            }
        })
    };
    stops_nothing(Store::File, &[headers(&[], None)]);
    stops_nothing(Store::Keyspace, &[headers(&["bad_json"], Some(b"{"))]);
}

/// Item 5: it has no signature.
#[test]
fn an_unsigned_forget_erases_nothing() {
    let forget = |elsewhere: i32, before: &str| {
        let why = ["not_authorised", "other_partition"];
        modified(&format!("a forget of {before}"), &why[..1 + usize::from(elsewhere > 0)], |made| {
            let own = partition_of(b"good-1", SHAPE.partitions);
            made.partition = (own + elsewhere) % SHAPE.partitions;
            made.record.key = Some(b"good-1".to_vec());
            made.record.value = Some(before.as_bytes().to_vec());
            made.record.headers = vec![(b"tstar-control".to_vec(), Some(b"forget".to_vec()))];
            made.whole = true;
        })
    };
    let records = [
        forget(0, r#"{"before":"2024-05-02T00:00:00Z"}"#),
        forget(1, r#"{"before":9223372036854775807}"#),
        forget(0, r#"{"before":9223372036854775807}"#),
        forget(0, ""),
    ];
    stops_nothing(Store::File, &records);
    stops_nothing(Store::Keyspace, &records);
}

/// To a broker, a header's name is any bytes.
#[test]
fn a_header_name_that_is_no_utf8_is_no_panic() {
    let named = |why: &[&'static str], value: &[u8]| {
        modified("a header name that is not UTF-8", why, |made| {
            made.record.headers = vec![(vec![0xff, b'n'], Some(value.to_vec()))];
            if !why.is_empty() {
                made.record.value = Some(b"{".to_vec());
            }
        })
    };
    let records = [named(&[], b"x"), named(&["bad_json"], b"y")];
    stops_nothing(Store::File, &records);
    stops_nothing(Store::Keyspace, &records);
}

/// The input topic takes records of any time; its dead-letter topic takes none an hour ahead.
#[test]
fn a_letter_of_any_log_time_is_taken() {
    let times = [i64::MIN, -1, 0, LOG_MS, LAST_MS, i64::MAX];
    let records = times.map(|time_ms| {
        modified(&format!("log time {time_ms}"), &["bad_json"], |made| {
            made.record.timestamp_ms = time_ms;
            made.record.value = Some(b"{".to_vec());
        })
    });
    stops_nothing(Store::Keyspace, &records);
    stops_nothing(Store::File, &records);
}

/// Brokers that decompress batches count the decompressed size. Others leave it to the client: see
/// below.
#[test]
fn brokers_that_unpack_a_batch_refuse_what_is_too_large_in_it() {
    let Some(topic) = Topic::with(1, &[("compression.type", "uncompressed")]) else { return };
    let of_size = |bytes| Record { value: Some(vec![b' '; bytes]), ..Record::default() };
    let mut wire = Wire::to(&topic.brokers, &topic.name);
    // The topic may have no leader yet.
    until("a small one to be accepted", || wire.send(0, &[&of_size(1_000)], Codec::None).ok());
    for codec in [Codec::Gzip, Codec::Zstd] {
        assert!(wire.send(0, &[&of_size(1_000)], codec).is_ok(), "{codec:?}");
        // MESSAGE_TOO_LARGE, although only some kilobytes came.
        assert_eq!(wire.send(0, &[&of_size(8_000_000)], codec), Err(10), "{codec:?}");
    }
    topic.remove();
}

/// Elements of a record: a sample of a device each two seconds.
fn every_two_seconds(what: &str, from_ms: i64, more: &str) -> TestRecord {
    let element = |nth: usize| {
        let time_ms = from_ms + 2_000 * i64::try_from(nth).unwrap();
        body::object("bad-1", &time_ms.to_string(), "1", more)
    };
    let count = LIMIT / (element(0).len() + 1) - 10;
    let elements: Vec<String> = (0..count).map(element).collect();
    let value = format!("[{}]", elements.join(",")).into_bytes();
    modified(what, &[], |made| made.record.value = Some(value))
}

/// One record that switches the ignition off as often as fits into it, within a trip: a store takes
/// what became of the trip as a whole.
#[test]
#[ignore = "at night: tests/nightly/long"]
fn a_trip_that_is_cut_by_every_element_of_a_record_is_written() {
    for keyspace in [false, true] {
        let site = if keyspace { Site::in_keyspace(SHAPE) } else { Site::new(SHAPE, None) };
        let Some(mut site) = site else { return };
        let trip = every_two_seconds("a trip", body::DAY_MS, "");
        let cuts = every_two_seconds("its cuts", body::DAY_MS + 1, r#","ignition":false"#);
        let cut_count =
            cuts.record.value.as_ref().unwrap().iter().filter(|&&it| it == b'{').count();
        site.send([trip, cuts].into_iter());
        let mut daemon = Daemon::start(&site.folder, &site.words(super::MEMORY.0), "first");
        site.until_read(&mut daemon);
        let summary = daemon.drain().ends(0).json();
        assert_eq!(summary["dead_letters"], serde_json::json!({}));
        let trips = site.folder.run(&format!("export --store {}", site.store())).ends(0);
        assert_eq!(trips.objects().len(), cut_count + 1, "{summary}");
    }
}

/// A batch is as small as its producer compresses it, and its records are as large as they
/// decompress.
#[test]
fn a_batch_that_unpacks_to_300_mb_is_a_letter() {
    let bomb = modified("300 MB of blanks", &["oversize"], |made| {
        made.record.value = Some(vec![b' '; 300_000_000]);
    });
    let Some(mut site) = Site::new(SHAPE, None) else { return };
    site.send((0..AROUND).map(|nth| well_behaved(&SHAPE, nth)));
    site.codec = Codec::Gzip;
    site.send([bomb].into_iter());
    site.codec = Codec::None;
    site.send((AROUND..2 * AROUND).map(|nth| well_behaved(&SHAPE, nth)));
    prove(&site);
}

/// Blanks, more of them than the client decompresses in a batch: the first records of the batch
/// have no dead letter of their own, the last one covers all.
fn zstd_bomb(records: usize, partition: i32) -> Vec<TestRecord> {
    let blanks = |nth: usize| {
        let why: &[&'static str] = if nth + 1 == records { &["bad_record"] } else { &[] };
        modified(&format!("{nth} of {records} records of 300 MB"), why, |made| {
            made.partition = partition;
            made.good.clear();
            made.record.value = Some(vec![b' '; 300_000_000 / records]);
        })
    };
    (0..records).map(blanks).collect()
}

/// The client decompresses no zstd batch beyond its `receive.message.max.bytes`, and would retry it
/// for ever. Also two in a row, and one that nothing follows yet.
#[test]
fn a_batch_that_the_client_cannot_unpack_is_a_letter() {
    for keyspace in [false, true] {
        let site = if keyspace { Site::in_keyspace(SHAPE) } else { Site::new(SHAPE, None) };
        let Some(mut site) = site else { return };
        site.send((0..AROUND).map(|nth| well_behaved(&SHAPE, nth)));
        site.codec = Codec::Zstd;
        for (records, partition) in [(1, 0), (30, 0), (7, 1)] {
            site.send_refused(zstd_bomb(records, partition));
        }
        site.codec = Codec::None;
        let rest = (AROUND..2 * AROUND).map(|nth| well_behaved(&SHAPE, nth));
        site.send(rest.filter(|made| made.partition != 1));
        prove(&site);
        reads_alike(&site);
    }
}

/// A replay of the log passes the batch as well, and a trip behind it can be explained.
fn reads_alike(site: &Site) {
    let (folder, store, brokers) = (&site.folder, site.store(), &site.topic.brokers);
    let group = format!("--brokers {brokers} --group {}", site.topic.name);
    let group = if site.keyspace.is_some() { group } else { format!("--brokers {brokers}") };
    let report = folder.run(&format!("verify --store {store} {group} --json")).ends(0).json();
    assert_eq!(report["differences"], serde_json::json!({}));
    let trips = folder.run(&format!("export --store {store}")).ends(0).objects();
    let of_partition_0 = |trip: &&Value| {
        partition_of(trip["device_id"].as_str().unwrap().as_bytes(), SHAPE.partitions) == 0
    };
    let id = trips.iter().find(of_partition_0).unwrap()["id"].as_str().unwrap();
    let explain = format!("explain {id} --store {store} --log {group} --json");
    let explained = folder.run(&explain).ends(0).json();
    assert_eq!(explained["id"], *id);
}
