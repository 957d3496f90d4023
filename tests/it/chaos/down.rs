//! The broker that has the dead letters of one topic and the feed of another is killed, while the
//! broker that has everything else runs on.

use std::collections::BTreeSet;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::check::{Erasure, Event, Findings, feed, nothing_is_ahead_of};
use super::expected::Place;
use super::log::Size;
use super::outcome::is_whole;
use super::{Instance, PARTITIONS, Site};
use crate::cli::Folder;
use crate::faults::until;
use crate::servers::{LIMIT, Server, free_port, start_kafka, start_kafka_beside};
use crate::support::times;
use crate::topic::Topic;

/// Records of each topic per outage.
const RECORDS: usize = 2000;

/// Brokers, by number.
const STAYS: i32 = 1;
const FAILS: i32 = 2;

/// Two brokers. What the cluster keeps for groups is on the first.
struct Cluster {
    first: Server,
    second: Server,
}

impl Cluster {
    fn start(folder: &Folder) -> Option<Self> {
        let mut first = start_kafka(&folder.path("first"), free_port())?;
        first.wait_until_ready(LIMIT);
        // This creates the topic of committed offsets.
        let any = Topic::on(first.address(), "any".into(), 1, &[]);
        assert_eq!(any.committed("any", 1).len(), 0);
        let mut second = start_kafka_beside(&first, &folder.path("second"), free_port())?;
        second.wait_until_ready(LIMIT);
        let config = ClientConfig::new().set("bootstrap.servers", first.address()).create();
        let watch: BaseConsumer = config.unwrap();
        until("two brokers", || {
            let metadata = watch.fetch_metadata(None, LIMIT).ok()?;
            (metadata.brokers().len() == 2).then_some(())
        });
        Some(Self { first, second })
    }

    /// A topic, its feed and its dead letters, the two on these brokers.
    fn topics(&self, name: &str, feed: i32, letters: i32) -> [Topic; 3] {
        [("", STAYS), (".trips", feed), (".dlq", letters)].map(|(end, broker)| {
            Topic::placed(self.first.address(), format!("{name}{end}"), PARTITIONS, broker)
        })
    }
}

/// A daemon, and which of its topics fails.
struct Case {
    site: Site,
    instance: [Instance; 1],
    is_feed: bool,
    /// What was written before the outage.
    written: (BTreeSet<Place>, (Vec<Event>, Vec<Erasure>)),
    /// How often the daemon said that it waits.
    said: usize,
    /// Records that were not committed during outages, and those that were and were checked.
    held: i64,
    checked: usize,
}

impl Case {
    fn new(cluster: &Cluster, is_feed: bool, size: Size, seed: u64) -> Option<Self> {
        let topics = match is_feed {
            true => cluster.topics("feed-fails", FAILS, STAYS),
            false => cluster.topics("letters-fail", STAYS, FAILS),
        };
        let site = Site::on(topics, size, seed)?;
        // The client reports a record after this time, not after 30 s.
        let words = format!("{} --kafka message.timeout.ms=2000", site.words());
        let instance = [Instance::start(&site.folder, &words, "instance")];
        let written = (BTreeSet::new(), (vec![], vec![]));
        Some(Self { site, instance, is_feed, written, said: 0, held: 0, checked: 0 })
    }

    /// The `nth` part of the log, in two halves.
    fn lines(&self, nth: u64, of: u64) -> [std::ops::Range<usize>; 2] {
        let at = |half: u64| self.site.lines.len() * usize::try_from(half).unwrap();
        let at = |half: u64| at(half) / usize::try_from(2 * of).unwrap();
        [at(2 * nth)..at(2 * nth + 1), at(2 * nth + 1)..at(2 * nth + 2)]
    }

    fn says_it_waits(&self) -> usize {
        let fails = if self.is_feed { &self.site.feed } else { &self.site.letters };
        self.instance[0].times(&format!("topic `{}` accepts no records", fails.name))
    }

    fn until_committed(&mut self) {
        self.site.until_committed(&self.site.topic.name, &mut self.instance);
    }

    /// Before the outage: everything sent is written and committed.
    fn settle(&mut self, nth: u64, of: u64) {
        self.site.send(&self.site.lines[self.lines(nth, of)[0].clone()]);
        self.until_committed();
        self.written = (self.site.dead_letters(), feed(&self.site));
        self.said = self.says_it_waits();
    }

    /// During the outage: what needs the topic that fails is not committed.
    fn waits(&mut self, nth: u64, of: u64) {
        self.site.send(&self.site.lines[self.lines(nth, of)[1].clone()]);
        until("a daemon to wait for a topic", || {
            self.instance[0].must_run();
            (self.says_it_waits() > self.said).then_some(())
        });
        let committed = self.site.committed(&self.site.topic.name);
        let (letters, events) = std::mem::take(&mut self.written);
        let found = match self.is_feed {
            true => Findings::new(&self.site, self.site.dead_letters(), events),
            false => Findings::new(&self.site, letters, feed(&self.site)),
        };
        self.checked += nothing_is_ahead_of(&found, &committed);
        let ends: i64 = self.site.topic.ends(PARTITIONS).values().sum();
        let left = ends - committed.values().sum::<i64>();
        assert!(left > 0, "all {ends} records are committed");
        self.held += left;
    }

    fn ends(self) {
        let Self { site, instance: [mut instance], is_feed, held, checked, .. } = self;
        instance.stop();
        instance.drains();
        let log = is_whole(&site);
        let what = if is_feed { "feed" } else { "dead letters" };
        println!(
            "{what} down: {held} records were held back, {checked} committed ones checked; {log:?}"
        );
    }
}

#[test]
fn dead_letters_or_a_feed_that_are_down_hold_the_commits_back() {
    let outages = times("TSTAR_TEST_TOPIC_OUTAGES", 1);
    let seed = u64::from(fastrand::u32(..));
    println!("{outages} outages of a broker, logs of seed {seed}");
    let folder = Folder::new();
    let Some(mut cluster) = Cluster::start(&folder) else { return };
    let samples = usize::try_from(outages).unwrap() * RECORDS;
    let mut cases = Vec::new();
    for is_feed in [true, false] {
        let size = Size { devices: 20, samples };
        let Some(case) = Case::new(&cluster, is_feed, size, seed) else { return };
        cases.push(case);
    }
    for nth in 0..outages {
        cases.iter_mut().for_each(|case| case.settle(nth, outages));
        cluster.second.kill();
        cases.iter_mut().for_each(|case| case.waits(nth, outages));
        cluster.second.restart();
        cluster.second.wait_until_ready(LIMIT);
        cases.iter_mut().for_each(Case::until_committed);
    }
    cases.into_iter().for_each(Case::ends);
}
