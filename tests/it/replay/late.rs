//! Data that arrives years late.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde_json::{Value, json};
use tstar::internals::model::time::{format_time, parse_time};

use super::{HASTE, Site};
use crate::cli::{Folder, number};
use crate::topic::file::until_read;
use crate::topic::{drain, start};

const LATE: usize = 10_000;
const DEVICES: u32 = 20;

fn ms(value: &Value) -> i64 {
    parse_time(value.as_str().unwrap()).unwrap()
}

/// Samples from a day to five years older than a store's: near its trips, and around midnights,
/// ends of months and of years.
fn late(trips: &[Value], random: &mut ChaCha8Rng) -> Vec<u8> {
    const DAY: i64 = 86_400_000;
    let newest = trips.iter().map(|it| ms(&it["end_time"])).max().unwrap();
    let mut below = |limit: i64| (random.next_u64() % limit.unsigned_abs()).cast_signed();
    let years = [2020, 2021, 2022, 2023, 2024, 2025].map(|it| format!("{it}-01-01T00:00:00Z"));
    let turns = ["2024-03-01T00:00:00Z", "2023-03-01T00:00:00Z", "2022-08-01T00:00:00Z"];
    let turns: Vec<_> = years.iter().map(String::as_str).chain(turns).collect();
    let mut lines = Vec::new();
    for _ in 0..LATE {
        let mut device = 1 + below(i64::from(DEVICES));
        let time_ms = match below(4) {
            // Any time within five years.
            0 => newest - DAY - below(5 * 365 * DAY),
            // Minutes around a midnight of a few days of each year.
            1 => (newest / DAY - 1 - below(5) * 365 - below(3)) * DAY + below(1_200_000) - 600_000,
            2 => {
                let turn = turns[below(turns.len().cast_signed() as i64) as usize];
                parse_time(turn).unwrap() + below(1_200_000) - 600_000
            }
            // Near an existing trip.
            _ => {
                let trip = &trips[below(trips.len().cast_signed() as i64) as usize];
                let name = trip["device_id"].as_str().unwrap();
                device = name.trim_start_matches("truck-").parse().unwrap();
                let length = ms(&trip["end_time"]) - ms(&trip["start_time"]) + 1_200_000;
                ms(&trip["start_time"]) - 600_000 + below(length)
            }
        };
        let line = json!({
            "device_id": format!("truck-{device}"), "time": format_time(time_ms),
            "lat": 48.0, "lon": 11.5,
        });
        lines.extend_from_slice(format!("{line}\n").as_bytes());
    }
    lines
}

/// No old trip has shrunk, no old id is lost. Returns how many trips have grown.
fn is_kept(folder: &Folder, old: &[Value], store: &str) -> usize {
    let new = folder.run(&format!("export --store {store}")).ends(0).objects();
    let mut grown = 0;
    for trip in old {
        let covers = |it: &&Value| {
            it["device_id"] == trip["device_id"]
                && it["start_time"].as_str() <= trip["start_time"].as_str()
                && it["end_time"].as_str() >= trip["end_time"].as_str()
        };
        let now = new.iter().find(covers).unwrap_or_else(|| panic!("shrank: {trip}"));
        assert!(number(&now["samples"]) >= number(&trip["samples"]));
        grown += usize::from(now["samples"] != trip["samples"]);
        let has_id =
            |id: &Value| now["id"] == *id || now["absorbed"].as_array().unwrap().contains(id);
        assert!(has_id(&trip["id"]), "{} is lost in {now}", trip["id"]);
        assert!(trip["absorbed"].as_array().unwrap().iter().all(has_id));
    }
    for trip in old.iter().step_by(old.len().div_ceil(30)) {
        let id = trip["id"].as_str().unwrap();
        let found = folder.run(&format!("trip {id} --json --store {store}")).ends(0).json();
        assert_eq!(found["requested_id"], id);
    }
    assert!(new.len() > old.len());
    grown
}

#[test]
fn files_of_five_years_shrink_no_trip() {
    let folder = Folder::new();
    let fleet = format!("simulate --mix 46,34,19,1 --devices {DEVICES} --samples 20000 --seed 5");
    folder.write("now.ndjson", folder.run(&fleet).ends(0).stdout);
    folder.ingest("now.ndjson --store sqlite:t.db");
    let old = folder.trips("t.db");
    folder.write("late.ndjson", late(&old, &mut ChaCha8Rng::seed_from_u64(61)));
    let summary = folder.ingest("late.ndjson --store sqlite:t.db");
    assert_eq!(number(&summary["delivered"]), LATE as u64);
    assert!(number(&summary["applied"]) > 9000, "{summary}");
    let grown = is_kept(&folder, &old, "sqlite:t.db");
    folder.run("verify now.ndjson late.ndjson --store sqlite:t.db").ends(0);
    println!("late, files: {} trips, {grown} of them grown; {}", old.len(), summary["arrivals"]);
    assert!(grown > 20);
}

#[test]
fn a_topic_of_five_years_shrinks_no_trip() {
    let Some(site) = Site::new(8000) else { return };
    site.run_file("t.db", "");
    let old = site.folder.trips("t.db");
    let words = format!("run {} --store sqlite:t.db {HASTE}", site.topic.flags());
    let running = start(&site.folder, &words);
    site.topic.send_lines(&late(&old, &mut ChaCha8Rng::seed_from_u64(62)), "no-device");
    until_read(&site.folder, "t.db", &site.topic);
    let summary = drain(running, &words).ends(0).json();
    assert_eq!(number(&summary["delivered"]), LATE as u64);
    let grown = is_kept(&site.folder, &old, "sqlite:t.db");
    site.folder.run(&format!("verify {}", site.flags("sqlite:t.db", true))).ends(0);
    println!("late, topic: {} trips, {grown} of them grown; {}", old.len(), summary["arrivals"]);
}
