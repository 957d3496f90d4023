//! `rebuild` under another `max_gap`.

use serde_json::{Map, Value};
use tstar::internals::store::SideTables;

use super::{Row, SAMPLES_OF_A_KEYSPACE, rows_of_file, rows_of_keyspace};
use crate::chaos::expected::LIMITS;
use crate::cli::{Folder, Ran};
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::replay::rebuild::{BECAME, spans};
use crate::replay::{Site, same};
use crate::support::Dice;
use tstar_sim::model::literal::Limits;

/// The report of a rebuild, without what differs between runs.
fn report(ran: &Ran) -> Map<String, Value> {
    let mut report = ran.json().as_object().unwrap().clone();
    report.retain(|name, _| name != "into" && !BECAME.contains(&name.as_str()));
    report
}

/// Trips and report are those of an undisturbed rebuild.
pub struct File {
    site: Site,
    old: Vec<String>,
    report: Map<String, Value>,
    spans: Vec<Value>,
    rows: i64,
}

fn words(site: &Site, into: &str) -> String {
    let flags = site.flags("sqlite:old.db", true);
    format!("rebuild {flags} --into sqlite:{into} --max-gap 8m --json")
}

impl Row for File {
    const KILLS: u64 = 2;
    const KILLS_IN_A_ROW: usize = 2;

    fn new(_: &mut Dice) -> Option<Self> {
        let site = Site::new(6000)?;
        site.run_file("old.db", "");
        let old = site.dump("old.db");
        let report = report(&site.folder.run(&words(&site, "whole.db")).ends(0));
        let spans = spans(&site.folder, "sqlite:whole.db");
        let rows = site.count("whole.db", "trips");
        Some(Self { site, old, report, spans, rows })
    }

    fn begin(&mut self) {
        self.site.folder.remove_store("t.db");
    }

    fn command(&self) -> (&Folder, String) {
        (&self.site.folder, words(&self.site, "t.db"))
    }

    fn done(&self) -> i64 {
        rows_of_file(&self.site.folder.path("t.db"))
    }

    fn all(&self) -> i64 {
        self.rows
    }

    fn is_hit(&self, _: i64) -> bool {
        self.done() > 0 && spans(&self.site.folder, "sqlite:t.db") != self.spans
    }

    fn check(&mut self, ran: &Ran) {
        assert_eq!(report(ran), self.report);
        assert!(spans(&self.site.folder, "sqlite:t.db") == self.spans, "other trips");
        same(&self.site.dump("old.db"), &self.old, "the old store is only read");
    }
}

/// Trips are those of the literal model.
pub struct Table {
    site: Site,
    store: Keyspace,
    trips: i64,
}

impl Table {
    const LIMITS: Limits = Limits { max_gap: 8 * 60_000, ..LIMITS };
}

impl Row for Table {
    const KILLS_IN_A_ROW: usize = 4;

    fn new(_: &mut Dice) -> Option<Self> {
        let site = Site::new(SAMPLES_OF_A_KEYSPACE)?;
        let store = Keyspace::new(ClusteringOrder::Desc)?;
        site.run_file("old.db", "");
        // Their number is the same in any epoch.
        let trips = site.expected(Self::LIMITS, 1).trips().len();
        Some(Self { site, store, trips: i64::try_from(trips).unwrap() })
    }

    fn begin(&mut self) {
        if self.done() > 0 {
            self.store = Keyspace::new(ClusteringOrder::Desc).unwrap();
        }
    }

    fn command(&self) -> (&Folder, String) {
        let flags = self.site.flags("sqlite:old.db", true);
        let (url, group) = (&self.store.url, &self.store.url.keyspace);
        (
            &self.site.folder,
            format!("rebuild {flags} --into {url} --into-group {group} --max-gap 8m"),
        )
    }

    fn done(&self) -> i64 {
        rows_of_keyspace(&self.store, "trips")
    }

    fn all(&self) -> i64 {
        self.trips
    }

    fn check(&mut self, _: &Ran) {
        let store = self.store.store();
        self.store.runtime.block_on(async {
            let epochs = store.epochs().await.unwrap();
            assert_eq!(epochs.len(), 1);
            let expected = self.site.expected(Self::LIMITS, epochs[0].base.get());
            expected.assert_store(&store).await;
        });
    }
}
