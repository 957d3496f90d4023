//! A keyspace: a forget of every device whose command and whose daemon are killed midway, and
//! started again, ends as the literal model says. A kill counts if the daemon had carried out some
//! of the forgets, and not all.

use tstar::internals::model::time::format_time;
use tstar::internals::store::EpochStore;

use super::{HASTE, fleet};
use crate::chaos::expected::Expected;
use crate::control_keys;
use crate::faults::until;
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::support::{Dice, kills};
use crate::topic::keyspace::until_committed;
use crate::topic::{Topic, drain, start};

const PARTITIONS: i32 = 4;

/// Rounds per kill that counts, at most.
const AT_MOST: u64 = 8;

/// The first time up to which is erased, 2025-01-01T01:00:00Z, and the step to the next, ms: so
/// short that nearly all devices keep something.
const BEFORE: (i64, i64) = (1_735_693_200_000, 1000);

/// How many forgets are waited for before a kill, at most; there are three times as many.
const WAITED_FOR: usize = 10;

/// The group notices soon that its member was killed.
const SESSION: &str = "--kafka session.timeout.ms=1500 --kafka heartbeat.interval.ms=300";

/// How many forgets were begun.
fn begun(keyspace: &Keyspace) -> i64 {
    let count = keyspace.session.query_unpaged("SELECT count(*) FROM forgets", ());
    let count = keyspace.runtime.block_on(count).unwrap().into_rows_result().unwrap();
    count.single_row::<(i64,)>().unwrap().0
}

/// The keyspace holds what the model says of the topic.
fn is_whole(topic: &Topic, keyspace: &Keyspace) -> Expected {
    let store = keyspace.store();
    keyspace.runtime.block_on(async {
        let epochs = store.epochs().await.unwrap();
        assert_eq!(epochs.len(), 1);
        let expected = Expected::new(&topic.records_of(&topic.name), epochs[0].base.get());
        expected.assert_store(&store).await;
        expected
    })
}

#[test]
fn a_forget_killed_again_and_again_ends_as_the_model_says() {
    let (Some(topic), Some(keyspace)) =
        (Topic::new(PARTITIONS), Keyspace::new(ClusteringOrder::Desc))
    else {
        return;
    };
    let folder = control_keys::folder();
    let store = format!("{} --store {}", topic.flags(), keyspace.url);
    let run = format!(
        "run {store} --group {0} --from earliest --create-topics {HASTE} {SESSION}",
        topic.name
    );
    topic.send_lines(&fleet(&folder, 6000), "no-device");
    let mut daemon = start(&folder, &run);
    until_committed(&topic, &topic.name);
    let (mut dice, min_parts) = (Dice::new(43), kills(5));
    let (mut all, mut parts, mut erased) = (0, 0, 0);
    for round in 0.. {
        assert!(round < AT_MOST * min_parts, "{parts} of {all} kills left a part");
        if parts >= min_parts {
            break;
        }
        let before = BEFORE.0 + i64::try_from(round).unwrap() * BEFORE.1;
        let forget = format!("forget --all-before {} --yes --wait {store}", format_time(before));
        let was = begun(&keyspace);
        let reaches = was + 1 + i64::try_from(dice.below(WAITED_FOR)).unwrap();
        let command = start(&folder, &forget);
        until("a forget to begin", || (begun(&keyspace) >= reaches).then_some(()));
        daemon.kill();
        command.kill();
        all += 1;
        let sent = requested(&topic);
        parts += u64::from((was + 1..sent).contains(&begun(&keyspace)));

        daemon = start(&folder, &run);
        folder.run(&forget).ends(0);
        until_committed(&topic, &topic.name);
        erased = is_whole(&topic, &keyspace).counts.erased;
    }
    drain(daemon, &run).ends(0);
    assert!(erased > 0);
    println!("forget, keyspace: {all} kills, {parts} left a part, {erased} trips erased");
}

/// How many control records the topic has.
fn requested(topic: &Topic) -> i64 {
    let records = topic.records_of(&topic.name);
    records.iter().filter(|record| record.headers.contains_key("tstar-control")).count() as i64
}
