//! Brokers that fail midway: a one-shot command reports the failure and its partial result, and the
//! same command resumes.

mod between;

use std::collections::BTreeSet;

use serde_json::Value;
use tstar::internals::kafka::producer::ProducerRecord;

use crate::cli::{Folder, Ran, minutes, number};
use crate::control_keys;
use crate::faults::{Running, until};
use crate::support::block_on;
use crate::topic::file::until_read;
use crate::topic::{Topic, drain, records, start};
use crate::verify::file::dump;
use between::{KafkaProxy, Request};

const PARTITIONS: i32 = 4;
const SAMPLES: usize = 6000;

/// Records per batch: a broker returns whole batches.
const TOGETHER: usize = 50;

/// A short timeout, and small fetches.
const FLAGS: &str = "--connect-timeout 3s --kafka fetch.message.max.bytes=4096";

/// A fleet in a topic, imported into `live.db`, and a proxy before its broker.
struct Site {
    topic: Topic,
    folder: Folder,
    between: KafkaProxy,
}

impl Site {
    fn new(records: &[ProducerRecord]) -> Option<Self> {
        let (topic, folder) = (Topic::new(PARTITIONS)?, control_keys::folder());
        let producer = topic.producer();
        for chunk in records.chunks(TOGETHER) {
            block_on(producer.send(&topic.name, chunk)).unwrap();
        }
        let words = format!("run {} --store sqlite:live.db --from earliest", topic.flags());
        let running = start(&folder, &words);
        until_read(&folder, "live.db", &topic);
        drain(running, &words).ends(0);
        let between = KafkaProxy::start(&topic.brokers);
        Some(Self { topic, folder, between })
    }

    fn of_fleet() -> Option<Self> {
        let lines = fleet(&Folder::new());
        Self::new(&records(&lines, "no-device"))
    }

    /// Runs a command through the proxy.
    fn run(&self, words: &str) -> Ran {
        self.folder.run(&format!("{words} --brokers {}", self.between.address))
    }

    /// Runs a command during which the broker falls silent.
    #[track_caller]
    fn is_silenced(&self, words: &str, (request, nth): (Request, usize)) -> Ran {
        self.between.fall_silent_at(request, nth);
        let ran = self.run(words);
        assert!(self.between.is_silent(), "the broker never fell silent\n{ran}");
        self.between.heal();
        let brokers = format!("no Kafka broker of `{}`", self.between.address);
        ran.ends(69).says(&[&brokers])
    }

    /// The same of a command that writes.
    #[track_caller]
    fn is_stopped(&self, words: &str, at: (Request, usize), partial_result: &[&str]) -> Ran {
        self.is_silenced(words, at).says(&["stopped early; "]).says(partial_result)
    }

    /// The same command with a broker that responds.
    #[track_caller]
    fn resumes(&self, words: &str) -> Ran {
        self.run(words).ends(0)
    }
}

fn fleet(folder: &Folder) -> Vec<u8> {
    folder
        .run(&format!("simulate --mix 46,34,19,1 --devices 20 --samples {SAMPLES} --seed 12"))
        .ends(0)
        .stdout
}

/// How many samples a command reports as read.
fn read_before(ran: &Ran) -> usize {
    let words: Vec<&str> = ran.stderr.split_whitespace().collect();
    let at = words.windows(2).position(|pair| pair == ["samples", "were"]).unwrap();
    words[at - 1].parse().unwrap()
}

/// The trips of a store, without versions.
fn spans(folder: &Folder, store: &str) -> Vec<Value> {
    let mut trips = folder.trips(store);
    for trip in &mut trips {
        trip.as_object_mut().unwrap().remove("version").unwrap();
    }
    trips
}

#[test]
fn a_look_that_is_stopped_says_that_nothing_was_changed() {
    let Some(site) = Site::of_fleet() else { return };
    for words in ["verify", "replay topic --from earliest"] {
        let brokers = &site.between.address;
        let words = format!(
            "{words} --store sqlite:live.db --brokers {brokers} --kafka fetch.message.max.bytes=4096"
        );
        site.between.fall_silent_at(Request::Fetch, 4);
        let mut running = Running::start(&mut site.folder.command(&words));
        until("silence", || site.between.is_silent().then_some(()));
        running.signal("TERM");
        let ran = running.ran(&words).ends(143).prints_nothing();
        ran.says(&["stopping; a second signal stops at once", "stopped by SIGTERM", NOTHING]);
        site.between.heal();
    }
}

const NOTHING: &str = "nothing was changed; rerun to start over";
const READ: &str = "what was read is stored; rerun to continue";

#[test]
fn what_only_looks_begins_anew() {
    let Some(site) = Site::of_fleet() else { return };
    let trip = site.folder.trips("live.db").remove(0);
    let id = trip["id"].as_str().unwrap();
    let before = dump(&site.folder.path("live.db"));
    for (words, has_counted) in [
        ("verify".to_owned(), true),
        ("replay topic --from earliest".to_owned(), true),
        (format!("explain {id} --log"), false),
    ] {
        let words = format!("{words} --store sqlite:live.db {FLAGS}");
        let ran = site.is_silenced(&words, (Request::Fetch, 4)).prints_nothing();
        assert!(ran.stderr.starts_with("tstar: no Kafka broker"), "it only reads\n{ran}");
        if has_counted {
            let read = read_before(&ran);
            assert!(0 < read && read < SAMPLES, "{read} samples\n{ran}");
        }
        site.resumes(&words);
    }
    assert!(dump(&site.folder.path("live.db")) == before);
}

#[test]
fn what_writes_has_stored_what_it_read_and_goes_on() {
    let Some(site) = Site::of_fleet() else { return };
    let folder = &site.folder;
    folder.write("epochs.json", folder.text("epoch export --store sqlite:live.db"));
    folder.run("epoch import epochs.json --store sqlite:copy.db").ends(0);
    let words = format!("replay topic --from earliest --apply --store sqlite:copy.db {FLAGS}");
    let ran = site.is_stopped(&words, (Request::Fetch, 4), &[READ]).prints_nothing();
    let kept: u64 = folder.trips("copy.db").iter().map(|trip| number(&trip["samples"])).sum();
    let read = read_before(&ran);
    assert!(kept > 0 && kept <= read as u64 && read < SAMPLES, "{kept} of {read} samples\n{ran}");
    site.resumes(&words);
    assert!(dump(&folder.path("copy.db")) == dump(&folder.path("live.db")));

    let flags = format!("--store sqlite:live.db --max-gap 10m {FLAGS} --json");
    let words = format!("rebuild --into sqlite:ten.db {flags}");
    let ran = site.is_stopped(&words, (Request::Fetch, 4), &[READ]).prints_nothing();
    let rest = site.resumes(&words).json();
    assert_eq!(number(&rest["records"]), (SAMPLES - read_before(&ran)) as u64, "the rest alone");
    let whole = site.resumes(&format!("rebuild --into sqlite:whole.db {flags}")).json();
    assert_eq!((number(&whole["records"]), &whole["equal"]), (SAMPLES as u64, &rest["equal"]));
    assert!(spans(folder, "ten.db") == spans(folder, "whole.db"));
}

#[test]
fn what_sends_says_how_far_it_came_and_goes_on() {
    let first = minutes("first", &[1]);
    let Some(site) = Site::new(&records(first.as_bytes(), "no-device")) else { return };
    let lines = fleet(&site.folder);
    site.folder.write("late.ndjson", &lines);
    let limit = "--connect-timeout 3s";
    let words = format!("replay files late.ndjson --apply --topic {} {limit}", site.topic.name);
    let partial_result = ["samples were sent", "`tstar-replay.ndjson` records the progress"];
    let ran = site.is_stopped(&words, (Request::Produce, 6), &partial_result).prints_nothing();
    assert!(read_before(&ran) < SAMPLES, "{ran}");
    site.resumes(&words);
    let sent: BTreeSet<Vec<u8>> =
        site.topic.records_of(&site.topic.name).into_iter().map(|kept| kept.value).collect();
    let lines: BTreeSet<Vec<u8>> =
        lines.split(|&byte| byte == b'\n').filter(|it| !it.is_empty()).map(Vec::from).collect();
    assert!(lines.is_subset(&sent) && sent.len() == lines.len() + 1, "{}", sent.len());

    let words = format!("forget first --yes --store sqlite:live.db {limit}");
    let partial_result =
        ["the devices printed are requested", "erasing the trips of device `first`"];
    site.is_stopped(&words, (Request::Produce, 1), &partial_result).prints_nothing();
    assert_eq!(site.resumes(&words).json()["requested"], "first");
}

#[test]
fn letters_go_back_whenever_the_brokers_go_away() {
    let letters = 1100;
    let letter = |nth: usize| {
        let line = minutes("truck-1", &[(nth % 60) as u32]).replace("time", "when");
        let value = line.trim().replace("13.5", &format!("13.{nth}")).into_bytes();
        ProducerRecord { key: Some(b"truck-1".to_vec()), value, ..ProducerRecord::default() }
    };
    let Some(site) = Site::new(&(0..letters).map(letter).collect::<Vec<_>>()) else { return };
    let list = format!("dlq ls --store sqlite:live.db --limit {letters}");
    let left = || site.folder.run(&list).ends(0).objects().len();
    assert_eq!(left(), letters);
    let words = "dlq replay --map time=when --store sqlite:live.db --connect-timeout 3s";
    let partial_result = ["letters replayed before: ", "the others stay", "as duplicates"];
    site.is_stopped(words, (Request::Produce, 2), &partial_result).prints_nothing();
    let unsent = left();
    assert!(letters - unsent <= 500, "at most the first batch left: {unsent}");
    let rest = site.resumes(words).json();
    assert_eq!((number(&rest["replayed"]), left()), (unsent as u64, 0));
    let sent = site.topic.records_of(&site.topic.name).into_iter();
    let sent = sent.filter_map(|mut kept| kept.headers.remove("tstar-dlq-origin"));
    let sent: Vec<_> = sent.collect();
    assert_eq!(sent.iter().collect::<BTreeSet<_>>().len(), letters);
    assert!(sent.len() <= letters + 500, "{} records", sent.len());
}
