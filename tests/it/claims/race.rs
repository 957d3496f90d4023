//! Two processes that see a device in two partitions at once: one of them builds its trips.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};
use std::time::Instant;

use tstar::internals::kafka::record::{Record, RecordReader};
use tstar::internals::model::epoch::{Epoch, LogPartition, Versions};
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::reason::DeadReason;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::{DeviceTime, LogTime, Offset, Version};
use tstar::internals::pipeline::processor::{Processor, ProcessorConfig};
use tstar::internals::source::{Batch, Decoder};
use tstar::internals::store::memory::{ApplyRows as _, MemoryStore};
use tstar::internals::store::scylla::ScyllaStore;
use tstar::internals::store::{Forget, Kinds, Order, TripStore};

use super::{sample, send_to};
use crate::cli::Folder;
use crate::conformance::{at, trip};
use crate::keyspace::{ClusteringOrder, Keyspace, patient};
use crate::replay::Site;
use crate::topic::Topic;
use crate::topic::keyspace::until_committed;
use crate::topic::{drain, start};

/// Devices that arrive in two partitions.
const DEVICES: u32 = 24;

fn epoch() -> Epoch {
    Epoch {
        epoch: 1,
        topic: "samples".into(),
        partitions: 2,
        start_offsets: BTreeMap::new(),
        base: Version(1_000_000),
        rules: Rules::default(),
        partitioner: Partitioner::None,
        topic_id: None,
        keeps_positions: false,
    }
}

fn device(nth: u32) -> String {
    format!("racer-{nth}")
}

/// Absorbs all devices at once as the worker of a partition; returns the counts.
async fn absorb(store: ScyllaStore, partition: i32, loads: usize) -> (u64, u64) {
    let epoch = epoch();
    let log = LogPartition {
        partition,
        versions: Versions::of_partition(std::slice::from_ref(&epoch), partition),
    };
    let journal = MemoryStore::default();
    let pace = ProcessorConfig { loads, ..ProcessorConfig::default() };
    let mut processor =
        Processor::of_log((&store, &journal), log, &epoch.rules, pace).await.unwrap();
    let mut reader = RecordReader::new(Decoder::new(&epoch.rules).unwrap(), true);
    let mut batch = Batch { origin: Arc::from("samples"), ..Default::default() };
    for offset in 0..DEVICES {
        // In different orders, so that neither is first everywhere.
        let nth = if partition == 0 { offset } else { DEVICES - 1 - offset };
        let (key, value) = (device(nth), sample(&device(nth), 1));
        let record = Record {
            partition,
            offset: Offset(i64::from(offset)),
            log_time_ms: LogTime(1_750_000_000_000),
            key: Some(key.as_bytes()),
            value: Some(value.as_bytes()),
            ..Default::default()
        };
        assert!(reader.read(&record, &mut batch).is_none());
    }
    processor.absorb(&batch).await.unwrap();
    let counts = processor.counts();
    let letters = counts.dead_letters.get(&DeadReason::OtherPartition).copied();
    (counts.applied, letters.unwrap_or(0))
}

#[test]
fn of_two_claims_of_a_device_at_once_one_wins() {
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let barrier = Arc::new(Barrier::new(4));
    let claim = |nth: i32| {
        let (store, barrier) = (keyspace.store(), Arc::clone(&barrier));
        keyspace.runtime.spawn_blocking(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            barrier.wait();
            let all = (0..DEVICES).map(|device| (device, nth));
            runtime.block_on(async {
                let mut heard = Vec::new();
                for (of, own) in all {
                    heard.push(store.claim(&device(of), 1, own).await.unwrap());
                }
                heard
            })
        })
    };
    let heard: Vec<_> = (0..4).map(claim).collect();
    let heard: Vec<Vec<i32>> =
        heard.into_iter().map(|it| keyspace.runtime.block_on(it).unwrap()).collect();
    assert!(heard.iter().all(|one| *one == heard[0]), "{heard:?}");
    let store = keyspace.store();
    keyspace.runtime.block_on(async {
        for (of, &standing) in (0..DEVICES).zip(&heard[0]) {
            assert_eq!(store.claimed(&device(of), 1).await.unwrap(), Some(standing));
            assert_eq!(store.claim(&device(of), 1, 7).await.unwrap(), standing);
            assert_eq!(store.claimed(&device(of), 2).await.unwrap(), None);
        }
    });
}

#[test]
fn of_two_owners_that_see_a_device_at_once_one_builds_it() {
    for loads in [1, 8] {
        let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
        let (first, second) = (keyspace.store(), keyspace.store());
        let (first, second) = keyspace
            .runtime
            .block_on(async { tokio::join!(absorb(first, 0, loads), absorb(second, 1, loads)) });
        let devices = u64::from(DEVICES);
        assert_eq!(first.0 + second.0, devices, "each is built once: {first:?}, {second:?}");
        assert_eq!((first.0 + first.1, second.0 + second.1), (devices, devices));
    }
}

/// Two daemons on one keyspace, whose partitions hold the same devices.
#[test]
fn replay_and_verify_agree_with_what_two_processes_decided() {
    let Some(topic) = Topic::new(4) else { return };
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let site = Site { topic, folder: Folder::new() };
    let names: Vec<String> = (0..DEVICES).map(device).collect();
    for minute in 0..5 {
        let both = names.iter().flat_map(|name| {
            (0..4).map(move |at| (Some(at), &**name, sample(name, 2 * minute + at as u32 % 2)))
        });
        send_to(&site.topic, "murmur2_random", both);
    }
    let (flags, group) = (site.topic.flags(), &site.topic.name);
    let words = format!(
        "run {flags} --key any --store {} --group {group} --from earliest --create-topics \
         --flush-interval 100ms --max-staleness 1s",
        keyspace.url
    );
    let running = [start(&site.folder, &words), start(&site.folder, &words)];
    until_committed(&site.topic, group);
    let mut dead = 0;
    for running in running {
        let summary = drain(running, &words).ends(0).json();
        dead += summary["dead_letters"]["other_partition"].as_u64().unwrap_or(0);
    }
    assert!(dead >= u64::from(DEVICES) * 5 * 3, "{dead}");
    let of = format!("--store {} --brokers {} --group {group}", keyspace.url, site.topic.brokers);
    site.folder.run(&format!("verify {of}")).ends(0);
    let replayed = site.folder.run(&format!("replay topic --from earliest {of}")).ends(0).json();
    assert_eq!(replayed["rows_that_differ"], 0);
    site.folder.run(&format!("rebuild {of} --into sqlite:n.db")).ends(0);
    let store = keyspace.store();
    keyspace.runtime.block_on(async {
        for name in &names {
            let trips = store
                .range(name, Kinds::All, DeviceTime::MIN, DeviceTime::MAX, Order::Asc, 9)
                .await
                .unwrap();
            let claimed = store.claimed(name, 1).await.unwrap();
            assert!(!trips.is_empty() && trips.iter().all(|trip| Some(trip.partition) == claimed));
        }
    });
}

fn claim_rows(keyspace: &Keyspace) -> usize {
    let select = "SELECT device_id FROM claims";
    let found = keyspace.runtime.block_on(keyspace.session.query_unpaged(select, ())).unwrap();
    found.into_rows_result().unwrap().rows_num()
}

#[test]
fn a_forget_that_leaves_nothing_leaves_the_decision_alone() {
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let store = keyspace.store();
    let row = |minute, version| trip("truck-17", &[minute], version);
    keyspace.runtime.block_on(async {
        assert_eq!(store.claim("truck-17", 1, 3).await.unwrap(), 3);
        assert_eq!(store.claim("truck-17", 2, 5).await.unwrap(), 5);
        store.apply(&[row(-1, 1_000_010), row(1, 1_000_012)]).await.unwrap();
        let forget = |version, minute| Forget { version, before_ms: at(minute) };
        store.forget("truck-17", &forget(Version(1_000_020), 0)).await.unwrap();
    });
    assert_eq!(claim_rows(&keyspace), 2, "a trip is left");
    keyspace.runtime.block_on(async {
        // Twice: another executor follows one that died.
        for _ in 0..2 {
            let forget = Forget { version: Version(1_000_022), before_ms: at(2 * 24 * 60) };
            store.forget("truck-17", &forget).await.unwrap();
        }
    });
    assert_eq!(claim_rows(&keyspace), 0);
    keyspace.runtime.block_on(async {
        for (epoch, partition) in [(1, Some(3)), (2, Some(5)), (3, None)] {
            assert_eq!(store.claimed("truck-17", epoch).await.unwrap(), partition);
        }
        // A process without either claims at last: the first decision still holds.
        assert_eq!(store.claim("truck-17", 1, 6).await.unwrap(), 3);
        assert_eq!(store.claimed("truck-17", 1).await.unwrap(), Some(3));
        assert_eq!(store.forgets("truck-17").await.unwrap().len(), 2);
        // A forget that finds this claim, new or old, erases it and keeps the first.
        for version in [1_000_022, 1_000_024] {
            store.claim("truck-17", 1, 6).await.unwrap();
            let forget = Forget { version: Version(version), before_ms: at(2 * 24 * 60) };
            store.forget("truck-17", &forget).await.unwrap();
            assert_eq!(store.claimed("truck-17", 1).await.unwrap(), Some(3));
        }
    });
    assert_eq!(claim_rows(&keyspace), 0);
}

#[test]
fn a_keyspace_gets_the_table_that_it_lacks() {
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let connect = || keyspace.runtime.block_on(ScyllaStore::connect(&keyspace.url, patient()));
    keyspace.run("DROP TABLE claims");
    let error = connect().unwrap_err().to_string();
    assert!(error.contains("no table claims") && error.contains("tstar schema apply"), "{error}");
    for _ in 0..2 {
        Folder::new().run(&format!("schema apply --store {}", keyspace.url)).ends(0);
    }
    connect().unwrap();
}

#[test]
fn a_keyspace_of_another_format_is_refused() {
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let folder = Folder::new();
    for (comment, why) in [
        ("", "its tables are from before 0.1.0 or of another program: import again"),
        ("tstar format 2", "has format 2, but this program supports formats up to 1"),
    ] {
        keyspace.run(&format!("ALTER TABLE trips WITH comment = '{comment}'"));
        for command in ["devices", "schema apply"] {
            folder.run(&format!("{command} --store {}", keyspace.url)).ends(78).says(&[why]);
        }
    }
}

/// Prints what claims cost on this server: the figures in `docs/kafka.md`.
#[test]
#[ignore = "it measures"]
fn what_a_claim_costs() {
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let store = keyspace.store();
    keyspace.runtime.block_on(async {
        for (what, inserts) in [("inserted", true), ("read", false)] {
            let began = Instant::now();
            for nth in 0..500 {
                let device = device(nth);
                let found = store.claimed(&device, 1).await.unwrap();
                if inserts {
                    assert_eq!((found, store.claim(&device, 1, 3).await.unwrap()), (None, 3));
                }
            }
            println!("{what}: {:?} each", began.elapsed() / 500);
        }
    });
}
