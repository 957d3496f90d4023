//! `ingest` of files in every format.

use super::Row;
use crate::cli::{Folder, Ran};
use crate::faults::{Work, delivered};
use crate::support::Dice;

const SAMPLES: usize = 30_000;
const STORE: &str = "t.db";

pub struct Import(Work);

impl Row for Import {
    const KILLS: u64 = 2;
    const KILLS_IN_A_ROW: usize = 3;
    // Of three in a row, each is another step.
    const POINTS: &'static [&'static str] = &[
        "before:1", "within:2", "after:5", "before:7", "within:1", "after:2", "before:5",
        "within:7", "after:1", "before:2", "within:5", "after:7",
    ];

    fn new(_: &mut Dice) -> Option<Self> {
        Some(Self(Work::new(SAMPLES)))
    }

    fn begin(&mut self) {
        self.0.folder.remove_store(STORE);
    }

    fn command(&self) -> (&Folder, String) {
        (&self.0.folder, self.0.import(STORE))
    }

    fn done(&self) -> i64 {
        delivered(&self.0.folder.path(STORE)).unwrap_or(0)
    }

    fn all(&self) -> i64 {
        self.0.expected.delivered
    }

    fn killed(&mut self, before: i64) {
        let (left, total) = (self.done(), self.all());
        assert!((before..=total).contains(&left), "{left} records after {before} of {total}");
    }

    fn check(&mut self, _: &Ran) {
        self.0.is_whole(STORE);
    }
}
