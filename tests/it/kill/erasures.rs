//! A file: `forget` erases all or nothing, and what is erased stays away from later imports.

use std::process::Output;

use super::Row;
use crate::cli::{Folder, Ran};
use crate::faults::{Running, delivered};
use crate::forget::{LATER, count, devices, fleet, others, shuffled};
use crate::support::Dice;

const SAMPLES: usize = 6000;
const STORE: &str = "t.db";

/// A device of which everything is erased; all others keep something.
const DEVICE: &str = "truck-7";

/// Erasures of a store from which only [`DEVICE`] was erased, and of one from which a part was.
const FORGETS: [i64; 2] = [1, 30];

/// Reported before anything is erased.
const INTENT: &str = "erasing the trips of every device that ended before 2025-01-01T01:00:00.000Z";

/// The store as the command begins, and what an undisturbed run gives.
struct Site {
    folder: Folder,
    /// Trips with their samples and versions, and the indexed devices.
    expected: (Vec<String>, Vec<String>),
}

impl Site {
    /// Makes `full.db` and `part.db`, from which a part is erased.
    fn new() -> Self {
        let folder = Folder::new();
        let log = fleet(&folder, SAMPLES);
        folder.write("all.ndjson", &log);
        folder.write("shuffled.ndjson", shuffled(&log));
        folder.ingest("all.ndjson --store sqlite:full.db");
        let forget = format!("forget {DEVICE} --before {LATER} --yes --store sqlite:full.db");
        folder.run(&forget).ends(0);
        let whole = others(&folder, "sqlite:full.db", &[]);
        let site = Self { folder, expected: (vec![], vec![]) };
        site.copy("full.db");
        site.folder.run(&site.erase()).ends(0);
        std::fs::copy(site.folder.path(STORE), site.folder.path("part.db")).unwrap();
        let expected = site.found();
        assert!(expected.0.len() < whole.len() && expected.0.len() > 20);
        Self { expected, ..site }
    }

    fn erase(&self) -> String {
        format!("forget --all-before 2025-01-01T01:00:00Z --yes --store sqlite:{STORE}")
    }

    /// Makes the store a copy of another.
    fn copy(&self, name: &str) {
        self.folder.remove_store(STORE);
        std::fs::copy(self.folder.path(name), self.folder.path(STORE)).unwrap();
    }

    fn found(&self) -> (Vec<String>, Vec<String>) {
        let store = format!("sqlite:{STORE}");
        (others(&self.folder, &store, &[]), devices(&self.folder, &store))
    }

    fn forgets(&self) -> i64 {
        count(&self.folder.path(STORE), "SELECT count(*) FROM forgets")
    }

    #[track_caller]
    fn is_whole(&self) {
        assert!(self.found() == self.expected, "other trips or devices");
    }
}

/// Erases a part of the store.
pub struct Erase(Site);

impl Row for Erase {
    const KILLS: u64 = 2;
    const SPINS: usize = 200_000;
    const POINTS: &'static [&'static str] = &["before:1", "within:1", "within:30", "after:1"];

    fn new(_: &mut Dice) -> Option<Self> {
        Some(Self(Site::new()))
    }

    fn begin(&mut self) {
        self.0.copy("full.db");
    }

    fn command(&self) -> (&Folder, String) {
        (&self.0.folder, self.0.erase())
    }

    fn done(&self) -> i64 {
        self.0.forgets()
    }

    fn all(&self) -> i64 {
        FORGETS[1]
    }

    /// Its work is one transaction: no part of it can be seen.
    fn until_works(&self, _: i64, running: &mut Running, _: &mut Dice) {
        running.until_says(INTENT, &mut String::new());
    }

    fn killed(&mut self, _: i64) {
        assert!(FORGETS.contains(&self.0.forgets()), "{} forgets", self.0.forgets());
    }

    fn is_hit(&self, _: i64) -> bool {
        true
    }

    fn aborted(&mut self, point: &str, output: &Output) {
        let is_done = point.starts_with("after");
        assert_eq!(self.0.forgets(), FORGETS[usize::from(is_done)], "{point}");
        assert!(output.stdout.is_empty(), "nothing is reported before it is done");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(INTENT), "the intent is reported first: {said}");
    }

    fn check(&mut self, _: &Ran) {
        self.0.is_whole();
    }
}

/// Imports into such a store what it holds and what was erased from it, in another order.
pub struct Import(Site);

impl Row for Import {
    fn new(_: &mut Dice) -> Option<Self> {
        Some(Self(Site::new()))
    }

    fn begin(&mut self) {
        self.0.copy("part.db");
    }

    fn command(&self) -> (&Folder, String) {
        (&self.0.folder, format!("ingest shuffled.ndjson --json --store sqlite:{STORE}"))
    }

    /// Records that were read, those of the first import included.
    fn done(&self) -> i64 {
        delivered(&self.0.folder.path(STORE)).unwrap_or(0)
    }

    fn all(&self) -> i64 {
        2 * SAMPLES as i64
    }

    fn check(&mut self, _: &Ran) {
        self.0.is_whole();
    }
}
