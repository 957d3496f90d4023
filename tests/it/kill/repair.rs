//! `verify --repair` of stores that lack trips, or have wrong ones.

use rusqlite::Connection;
use tstar::internals::store::memory::ApplyRows as _;
use tstar::internals::store::{SideTables, TripRow, TripStore};

use super::{Row, SAMPLES_OF_A_KEYSPACE, rows_of_file, rows_of_keyspace};
use crate::chaos::expected::{Expected, LIMITS, rows};
use crate::cli::{Folder, Ran};
use crate::keyspace::Keyspace;
use crate::replay::{Site, same};
use crate::support::Dice;
use crate::verify::file::dump;

const DAMAGE: &str = "DELETE FROM trips WHERE rowid % 3 = 0;
    UPDATE trips SET samples = samples + 1 WHERE rowid % 3 = 1;";

/// To the byte what an import gives.
pub struct File {
    folder: Folder,
    well: Vec<String>,
    damaged: Vec<String>,
    rows: i64,
}

impl Row for File {
    fn new(_: &mut Dice) -> Option<Self> {
        let folder = Folder::new();
        let fleet = folder
            .run("simulate --mix 46,34,19,1 --devices 20 --samples 6000 --seed 8")
            .ends(0)
            .stdout;
        folder.write("a.ndjson", fleet);
        folder.ingest("a.ndjson --store sqlite:well.db");
        let path = folder.path("well.db");
        let (well, rows) = (dump(&path), rows_of_file(&path));
        Some(Self { folder, well, damaged: Vec::new(), rows })
    }

    fn begin(&mut self) {
        self.folder.remove_store("t.db");
        let path = self.folder.path("t.db");
        std::fs::copy(self.folder.path("well.db"), &path).unwrap();
        Connection::open(&path).unwrap().execute_batch(DAMAGE).unwrap();
        self.damaged = dump(&path);
    }

    fn command(&self) -> (&Folder, String) {
        (&self.folder, "verify a.ndjson --store sqlite:t.db --repair".to_owned())
    }

    fn done(&self) -> i64 {
        rows_of_file(&self.folder.path("t.db"))
    }

    fn all(&self) -> i64 {
        self.rows
    }

    fn is_hit(&self, _: i64) -> bool {
        let now = dump(&self.folder.path("t.db"));
        now != self.damaged && now != self.well
    }

    fn check(&mut self, _: &Ran) {
        same(&dump(&self.folder.path("t.db")), &self.well, "after a kill");
    }
}

/// What the literal model says.
pub struct Table {
    site: Site,
    well: Keyspace,
    expected: Expected,
    whole: Vec<TripRow>,
    store: Keyspace,
}

impl Table {
    /// Copies erasures, and every third trip.
    fn copy_in_part(&self) {
        let store = self.store.store().owner();
        let rows: Vec<_> = self.whole.iter().step_by(3).cloned().collect();
        self.store.runtime.block_on(async {
            for (device, forgets) in self.expected.forgets() {
                for forget in forgets {
                    store.forget(device, forget).await.unwrap();
                }
            }
            store.apply(&rows).await.unwrap();
        });
    }
}

impl Row for Table {
    const KILLS_IN_A_ROW: usize = 4;

    fn new(_: &mut Dice) -> Option<Self> {
        let site = Site::new(SAMPLES_OF_A_KEYSPACE)?;
        let well = site.run_keyspace()?;
        let store = well.store();
        let (expected, whole) = well.runtime.block_on(async {
            let epochs = store.epochs().await.unwrap();
            assert_eq!(epochs.len(), 1);
            let expected = site.expected(LIMITS, epochs[0].base.get());
            expected.assert_store(&store).await;
            (expected, rows(&store).await)
        });
        let store = site.empty(&well.url.to_string());
        Some(Self { site, well, expected, whole, store })
    }

    fn begin(&mut self) {
        if self.done() > 0 {
            self.store = self.site.empty(&self.well.url.to_string());
        }
        self.copy_in_part();
    }

    fn command(&self) -> (&Folder, String) {
        (
            &self.site.folder,
            format!("verify {} --repair", self.site.flags(&self.store.url.to_string(), true)),
        )
    }

    fn done(&self) -> i64 {
        rows_of_keyspace(&self.store, "trips")
    }

    fn all(&self) -> i64 {
        i64::try_from(self.whole.len()).unwrap()
    }

    fn check(&mut self, _: &Ran) {
        let store = self.store.store();
        self.store.runtime.block_on(self.expected.assert_store(&store));
    }
}
