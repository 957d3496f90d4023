//! `replay topic` into empty stores with the epochs of one: to the byte what that one has.

use super::{Row, SAMPLES_OF_A_KEYSPACE, rows_of_file, rows_of_keyspace};
use crate::chaos::replay::{assert_same, everything};
use crate::cli::{Folder, Ran};
use crate::keyspace::Keyspace;
use crate::replay::{Site, same};
use crate::support::Dice;

fn words(site: &Site, store: &str) -> String {
    format!("replay topic --from earliest {} --apply", site.flags(store, false))
}

pub struct File {
    site: Site,
    once: Vec<String>,
    rows: i64,
}

impl Row for File {
    const KILLS: u64 = 2;
    const KILLS_IN_A_ROW: usize = 2;

    fn new(_: &mut Dice) -> Option<Self> {
        let site = Site::new(6000)?;
        site.run_file("full.db", "");
        let (once, rows) = (site.dump("full.db"), site.count("full.db", "trips"));
        Some(Self { site, once, rows })
    }

    fn begin(&mut self) {
        self.site.folder.remove_store("t.db");
        self.site.import("sqlite:full.db", "sqlite:t.db");
    }

    fn command(&self) -> (&Folder, String) {
        (&self.site.folder, words(&self.site, "sqlite:t.db"))
    }

    fn done(&self) -> i64 {
        rows_of_file(&self.site.folder.path("t.db"))
    }

    fn all(&self) -> i64 {
        self.rows
    }

    fn is_hit(&self, _: i64) -> bool {
        self.done() > 0 && self.site.dump("t.db") != self.once
    }

    fn check(&mut self, _: &Ran) {
        same(&self.site.dump("t.db"), &self.once, "after a kill");
    }
}

pub struct Table {
    site: Site,
    full: Keyspace,
    once: Vec<String>,
    rows: i64,
    store: Keyspace,
}

impl Row for Table {
    const KILLS_IN_A_ROW: usize = 4;

    fn new(_: &mut Dice) -> Option<Self> {
        let site = Site::new(SAMPLES_OF_A_KEYSPACE)?;
        let full = site.run_keyspace()?;
        let (once, rows) = (everything(&full), rows_of_keyspace(&full, "trips"));
        // Into the store that has it all, it changes nothing.
        full.read_as(&format!("{}-unread", site.topic.name));
        site.folder.run(&words(&site, &full.url.to_string())).ends(0);
        assert_same(&everything(&full), &once);
        let store = site.empty(&full.url.to_string());
        Some(Self { site, full, once, rows, store })
    }

    fn begin(&mut self) {
        if self.done() > 0 {
            self.store = self.site.empty(&self.full.url.to_string());
        }
    }

    fn command(&self) -> (&Folder, String) {
        (&self.site.folder, words(&self.site, &self.store.url.to_string()))
    }

    fn done(&self) -> i64 {
        rows_of_keyspace(&self.store, "trips")
    }

    fn all(&self) -> i64 {
        self.rows
    }

    fn check(&mut self, _: &Ran) {
        assert_same(&everything(&self.store), &self.once);
    }
}
