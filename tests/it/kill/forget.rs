//! A keyspace: a forget of every device whose command and whose daemon are killed ends as the
//! literal model says.

use tstar::internals::model::time::format_time;
use tstar::internals::store::SideTables;

use super::{Row, rows_of_keyspace};
use crate::chaos::expected::Expected;
use crate::cli::{Folder, Ran};
use crate::control_keys;
use crate::faults::{Running, until};
use crate::forget::{HASTE, fleet};
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::support::Dice;
use crate::topic::keyspace::until_committed;
use crate::topic::{PARTITIONS, Topic, start};

/// The first time up to which is erased, 2025-01-01T01:00:00Z, and the step to the next, ms: so
/// short that nearly all devices keep something.
const BEFORE: (i64, i64) = (1_735_693_200_000, 1000);

/// How many forgets are waited for before a kill, at most; there are three times as many.
const WAITED_FOR: usize = 10;

/// The group notices soon that its member was killed.
const SESSION: &str = "--kafka session.timeout.ms=1500 --kafka heartbeat.interval.ms=300";

pub struct Forget {
    folder: Folder,
    topic: Topic,
    keyspace: Keyspace,
    daemon: Option<Running>,
    rounds: i64,
}

impl Forget {
    fn store(&self) -> String {
        format!("{} --store {}", self.topic.flags(), self.keyspace.url)
    }

    fn start(&mut self) {
        let (store, group) = (self.store(), &self.topic.name);
        let flags = format!("--from earliest --create-topics {HASTE} {SESSION}");
        self.daemon = Some(start(&self.folder, &format!("run {store} --group {group} {flags}")));
    }

    /// How many control records the topic has.
    fn requested(&self) -> i64 {
        let records = self.topic.records_of(&self.topic.name);
        records.iter().filter(|it| it.headers.contains_key("tstar-control")).count() as i64
    }
}

impl Row for Forget {
    fn new(_: &mut Dice) -> Option<Self> {
        let topic = Topic::new(PARTITIONS)?;
        let keyspace = Keyspace::new(ClusteringOrder::Desc)?;
        let folder = control_keys::folder();
        topic.send_lines(&fleet(&folder, 6000), "no-device");
        let mut site = Self { folder, topic, keyspace, daemon: None, rounds: 0 };
        site.start();
        until_committed(&site.topic, &site.topic.name);
        Some(site)
    }

    fn begin(&mut self) {
        self.rounds += 1;
    }

    fn command(&self) -> (&Folder, String) {
        let before = format_time(BEFORE.0 + self.rounds * BEFORE.1);
        (&self.folder, format!("forget --all-before {before} --yes --wait {}", self.store()))
    }

    /// How many forgets were begun.
    fn done(&self) -> i64 {
        rows_of_keyspace(&self.keyspace, "forgets")
    }

    fn all(&self) -> i64 {
        // Each round requests more.
        i64::MAX
    }

    fn until_works(&self, before: i64, running: &mut Running, dice: &mut Dice) {
        let target = before + i64::try_from(dice.below(WAITED_FOR)).unwrap();
        until("a forget to begin", || (running.has_ended() || self.done() > target).then_some(()));
    }

    fn kill(&mut self, running: Running) {
        self.daemon.take().unwrap().kill();
        running.kill();
    }

    /// The daemon carried out some of the forgets, and not all.
    fn is_hit(&self, before: i64) -> bool {
        (before + 1..self.requested()).contains(&self.done())
    }

    fn finish(&mut self) -> Ran {
        if self.daemon.is_none() {
            self.start();
        }
        self.run()
    }

    fn check(&mut self, _: &Ran) {
        until_committed(&self.topic, &self.topic.name);
        let store = self.keyspace.store();
        self.keyspace.runtime.block_on(async {
            let epochs = store.epochs().await.unwrap();
            assert_eq!(epochs.len(), 1);
            let records = self.topic.records_of(&self.topic.name);
            let expected = Expected::new(&records, epochs[0].base.get());
            expected.assert_store(&store).await;
            assert!(expected.counts.erased > 0);
        });
    }
}
