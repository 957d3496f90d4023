//! Keyspaces: `replay topic`, `rebuild` and `verify --repair` that are killed, and run again, end
//! as those that were not, or as the literal model says. A kill counts if it left rows that were
//! not there before, and not yet all: they are killed when the first of them are there.

use tstar::internals::store::scylla::ScyllaStore;
use tstar::internals::store::{EpochStore, TripRow, TripStore};

use super::Site;
use super::kill::hasty;
use crate::chaos::expected::{Expected, LIMITS, rows};
use crate::chaos::replay::{assert_same, everything};
use crate::faults::{Running, until};
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::support;
use tstar_sim::counts;
use tstar_sim::model::literal::Limits;

const SAMPLES: usize = 12_000;

/// Kills of a command per keyspace, at most.
const KILLS_IN_A_ROW: usize = 6;

/// Keyspaces per kill that counts, at most.
const AT_MOST: u64 = 8;

/// Kills, counted.
struct Tally {
    kills: u64,
    parts: u64,
    min_parts: u64,
}

/// How many rows of trips a keyspace has.
fn count(keyspace: &Keyspace) -> i64 {
    let count = keyspace.session.query_unpaged("SELECT count(*) FROM trips", ());
    let count = keyspace.runtime.block_on(count).unwrap().into_rows_result().unwrap();
    count.single_row::<(i64,)>().unwrap().0
}

impl Tally {
    fn new() -> Self {
        Self { kills: 0, parts: 0, min_parts: support::kills(5) }
    }

    /// Kills a command that writes into a keyspace again and again, until it ends or `all` rows
    /// are there.
    fn kill(&mut self, site: &Site, keyspace: &Keyspace, words: &str, all: i64) {
        for _ in 0..KILLS_IN_A_ROW {
            let before = count(keyspace);
            let mut running = Running::start(&mut hasty(&site.folder, words));
            until("a row", || (running.has_ended() || count(keyspace) > before).then_some(()));
            if running.has_ended() {
                running.ran(words).ends(0);
                return;
            }
            running.kill();
            let now = count(keyspace);
            self.kills += 1;
            self.parts += u64::from(before < now && now < all);
            if now >= all || self.parts >= self.min_parts {
                return;
            }
        }
    }

    /// Whether there were enough; panics when there were too few for too long.
    fn is_enough(&self, rounds: u64) -> bool {
        let Self { kills, parts, min_parts } = self;
        assert!(rounds < AT_MOST * min_parts, "{parts} of {kills} kills left a part");
        parts >= min_parts
    }
}

#[test]
fn a_replay_into_a_keyspace_killed_again_and_again_ends_the_same() {
    let Some(site) = Site::new(SAMPLES) else { return };
    let Some(keyspace) = site.run_keyspace() else { return };
    let (once, all) = (everything(&keyspace), count(&keyspace));
    let words = |keyspace: &Keyspace| {
        let flags = site.flags(&keyspace.url.to_string(), false);
        format!("replay topic --from earliest {flags} --apply")
    };
    site.folder.run(&words(&keyspace)).ends(0);
    assert_same(&everything(&keyspace), &once);
    let mut tally = Tally::new();
    for round in 0.. {
        if tally.is_enough(round) {
            break;
        }
        let empty = site.empty(&keyspace.url.to_string());
        tally.kill(&site, &empty, &words(&empty), all);
        site.folder.run(&words(&empty)).ends(0);
        assert_same(&everything(&empty), &once);
    }
    let Tally { kills, parts, .. } = tally;
    println!("replay topic, keyspace: {kills} kills, {parts} left a part of {all} rows");
    counts::REPLAYS_TO_KEYSPACE.print(parts);
}

fn base(keyspace: &Keyspace, store: &ScyllaStore) -> i64 {
    let epochs = keyspace.runtime.block_on(store.epochs()).unwrap();
    assert_eq!(epochs.len(), 1);
    epochs[0].base.get()
}

#[test]
fn a_rebuild_into_a_keyspace_killed_again_and_again_ends_as_the_model_says() {
    let Some(site) = Site::new(SAMPLES) else { return };
    let Some(first) = Keyspace::new(ClusteringOrder::Desc) else { return };
    site.run_file("old.db", "");
    let flags = site.flags("sqlite:old.db", true);
    let words = |into: &Keyspace| {
        let (url, group) = (&into.url, &into.url.keyspace);
        format!("rebuild {flags} --into {url} --into-group {group} --max-gap 8m")
    };
    let limits = Limits { max_gap: 8 * 60_000, ..LIMITS };
    let is_whole = |keyspace: &Keyspace| {
        let store = keyspace.store();
        let expected = site.expected(limits, base(keyspace, &store));
        keyspace.runtime.block_on(expected.assert_store(&store));
        expected.trips().len()
    };
    site.folder.run(&words(&first)).ends(0);
    let (all, rows) = (is_whole(&first), count(&first));
    let mut tally = Tally::new();
    for round in 0.. {
        if tally.is_enough(round) {
            break;
        }
        let keyspace = Keyspace::new(ClusteringOrder::Desc).unwrap();
        tally.kill(&site, &keyspace, &words(&keyspace), rows);
        site.folder.run(&words(&keyspace)).ends(0);
        assert_eq!(is_whole(&keyspace), all);
    }
    let Tally { kills, parts, .. } = tally;
    println!("rebuild, keyspace: {kills} kills, {parts} left a part of {all} trips");
}

/// Copies erasures, and every third trip.
fn copy_in_part(keyspace: &Keyspace, whole: &[TripRow], expected: &Expected) {
    let store = keyspace.store().owner();
    let rows: Vec<_> = whole.iter().step_by(3).cloned().collect();
    keyspace.runtime.block_on(async {
        for (device, forgets) in expected.forgets() {
            for forget in forgets {
                store.forget(device, forget).await.unwrap();
            }
        }
        store.apply(&rows).await.unwrap();
    });
}

#[test]
fn a_repair_of_a_keyspace_killed_again_and_again_ends_as_the_model_says() {
    let Some(site) = Site::new(SAMPLES) else { return };
    let Some(well) = site.run_keyspace() else { return };
    let store = well.store();
    let expected = site.expected(LIMITS, base(&well, &store));
    well.runtime.block_on(expected.assert_store(&store));
    let whole = well.runtime.block_on(rows(&store));
    let url = well.url.to_string();
    let damaged = || {
        let keyspace = site.empty(&url);
        copy_in_part(&keyspace, &whole, &expected);
        keyspace
    };
    let words = |keyspace: &Keyspace| {
        format!("verify {} --repair", site.flags(&keyspace.url.to_string(), true))
    };
    let is_whole = |keyspace: &Keyspace| {
        keyspace.runtime.block_on(expected.assert_store(&keyspace.store()));
    };
    let (rows, mut tally) = (count(&well), Tally::new());
    for round in 0.. {
        if tally.is_enough(round) {
            break;
        }
        let keyspace = damaged();
        tally.kill(&site, &keyspace, &words(&keyspace), rows);
        site.folder.run(&words(&keyspace)).ends(0);
        is_whole(&keyspace);
    }
    let Tally { kills, parts, .. } = tally;
    println!("verify --repair, keyspace: {kills} kills, {parts} left a part of {rows} rows");
}
