//! `dlq replay` killed at random moments and run again: each dead letter is sent.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tstar::internals::kafka::producer::ProducerRecord;
use tstar::internals::model::epoch::Epoch;
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::Version;
use tstar::internals::store::EpochStore;

use super::{PARTITIONS, Site, renamed};
use crate::faults::{Running, until};
use crate::support::{self, block_on};
use crate::topic::Topic;
use tstar_sim::counts;

/// Dead letters that are added when none is left: several batches.
const LETTERS: i64 = 4000;

/// A dead letter as the daemon writes it, of a record that does not exist.
fn letter(topic: &str, nth: i64) -> ProducerRecord {
    let header = |name: &str, value: &str| (name.to_owned(), Some(value.as_bytes().to_vec()));
    let error = |name: &str, value: &str| header(&format!("__connect.errors.{name}"), value);
    let device = format!("truck-{}", nth % 50);
    ProducerRecord {
        key: Some(device.clone().into_bytes()),
        value: renamed(&device, u32::try_from(nth % 60).unwrap()).into_bytes(),
        headers: vec![
            error("topic", topic),
            error("partition", &(nth % i64::from(PARTITIONS)).to_string()),
            error("offset", &nth.to_string()),
            error("connector.name", "tstar"),
            error("exception.class.name", "missing_field"),
            error("exception.message", "time is absent"),
        ],
        timestamp_ms: None,
    }
}

#[test]
fn a_replay_killed_again_and_again_sends_each_letter() {
    let Some(site) = Site::bare() else { return };
    let (name, letters) = (site.topic.name.clone(), site.letter_topic());
    let start_offsets = (0..PARTITIONS).map(|partition| (partition, 0)).collect();
    let (rules, topic, partitions) = (Rules::default(), name.clone(), PARTITIONS);
    let epoch = Epoch {
        epoch: 1,
        topic,
        partitions,
        start_offsets,
        base: Version(1),
        rules,
        partitioner: Partitioner::None,
        topic_id: None,
        keeps_positions: false,
    };
    let store = site.keyspace.store();
    assert!(site.keyspace.runtime.block_on(store.add_epoch(&epoch)).unwrap());
    let letter_topic = Topic::on(site.topic.brokers.clone(), letters.clone(), PARTITIONS, &[]);
    let producer = letter_topic.producer();
    let sent = || site.topic.ends(PARTITIONS).values().sum::<i64>();

    let mut random = ChaCha8Rng::seed_from_u64(20_261_121);
    let min_kills = support::kills(10);
    let (mut made, mut kills, mut between) = (0_i64, 0, 0);
    let words = site.words("replay --map time=when");
    // A kill counts if letters are left.
    while between < min_kills {
        assert!(kills < 4 * min_kills, "{between} of {kills} kills fell into the sending");
        if site.ls("--limit 1").is_empty() {
            let more: Vec<ProducerRecord> =
                (made..made + LETTERS).map(|nth| letter(&name, nth)).collect();
            block_on(producer.send(&letters, &more)).unwrap();
            made += LETTERS;
        }
        let (before, target) = (sent(), i64::try_from(random.next_u64() % 900).unwrap());
        let mut running = Running::start(&mut site.folder.command(&words));
        until("records", || (running.has_ended() || sent() > before + target).then_some(()));
        if running.has_ended() {
            running.ran(&words).ends(0);
            continue;
        }
        running.kill();
        kills += 1;
        between += u64::from(!site.ls("--limit 1").is_empty());
    }
    site.run("replay --map time=when").ends(0);
    assert_eq!(site.ls("--limit 5").len(), 0);
    let sent = site.sent_back();
    assert_eq!(i64::try_from(sent.len()).unwrap(), made);
    let copies: usize = sent.values().map(|copies| copies.len() - 1).sum();
    println!("letters: {kills} kills, {between} of them between; {made} letters, {copies} copies");
    counts::LETTERS.print(between);
}
