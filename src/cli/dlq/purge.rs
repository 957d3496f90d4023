//! `dlq purge`: dead letters that nobody wants any more.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use tstar::ops::{InvalidRequest, NoResult};

use serde::Serialize;
use tstar::kafka::dead_letters::{DlqRecordKind, Fate, LetterTopic};
use tstar::kafka::topic::Topics;
use tstar::store::{EmbeddedStore, LetterUpdates};

use super::letters::{Filter, Id, LetterStore, Letters};
use super::{FilterFlags, PlaceFlags, replay};
use crate::cli::exit;
use crate::cli::flags::Context;
use crate::cli::print::Printer;

/// Letters that go together.
const TOGETHER: usize = 5000;

/// What is asked for.
pub struct PurgeRequest<'a> {
    pub filter: &'a FilterFlags,
    pub all: bool,
    pub yes: bool,
    pub place: &'a PlaceFlags,
}

/// What was done. Others parse it.
#[derive(Debug, Serialize)]
struct Summary {
    purged: u64,
}

/// Throws away the letters that are meant.
pub async fn run(
    asked: &PurgeRequest<'_>,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let filter = asked.filter.read()?;
    if asked.all != asked.filter.is_empty() {
        let problem = "say which: --reason, --device, --from or --to; or else --all";
        return Err(InvalidRequest(problem.into()).into());
    }
    let is_watched = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !asked.yes && !is_watched {
        let problem = "nobody is there to be asked whether they shall go: say --yes";
        return Err(InvalidRequest(problem.into()).into());
    }
    let letters = Letters::open(asked.place, context).await?;
    if !asked.yes && !agreed(&letters, &filter)? {
        return Err(NoResult("nothing was thrown away: the answer was no".into()).into());
    }
    let purged = match &letters.place {
        LetterStore::Table { path, .. } => {
            let keep = letters.settings.keep_changes;
            let open = if letters.epochs.is_empty() {
                EmbeddedStore::open_writer
            } else {
                EmbeddedStore::open_for_topic
            };
            of_table(&open(path, &letters.rules, keep)?, &letters, &filter)?
        }
        LetterStore::Topic(topic) => of_topic(topic, &letters, &filter).await?,
    };
    Ok(printer.line(&serde_json::to_string(&Summary { purged })?)?)
}

/// Asks the person at the terminal.
fn agreed(letters: &Letters, filter: &Filter) -> anyhow::Result<bool> {
    let (mut count, mut reading) = (0_u64, letters.read(filter)?);
    while reading.next()?.is_some() {
        count += 1;
    }
    let store = &letters.settings.store;
    let mut stderr = std::io::stderr();
    write!(stderr, "tstar: throw away {count} dead letters of {store}? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn of_table(store: &EmbeddedStore, letters: &Letters, filter: &Filter) -> anyhow::Result<u64> {
    let (mut reading, mut purged) = (letters.read(filter)?, 0);
    loop {
        let mut gone = Vec::new();
        while gone.len() < TOGETHER {
            match reading.next()?.map(|kept| kept.id) {
                Some(Id::Number(id)) => gone.push(id),
                _ => break,
            }
        }
        if gone.is_empty() {
            return Ok(purged);
        }
        purged += gone.len() as u64;
        store.settle(&LetterUpdates { gone, changed: vec![] })?;
    }
}

async fn of_topic(topic: &LetterTopic, letters: &Letters, filter: &Filter) -> anyhow::Result<u64> {
    let mut out = replay::transactions(letters, topic.name())?;
    // Looked at anew: now nothing that somebody began before is on its way.
    let topic = LetterTopic::open(&letters.brokers, topic.input())?;
    let (fates, mut scan) = (topic.fates()?, topic.scan()?);
    let (mut records, mut purged) = (Vec::new(), 0);
    // The first record of each partition that somebody still wants.
    let mut wanted: BTreeMap<i32, i64> = BTreeMap::new();
    while let Some(found) = scan.next_found()? {
        let (partition, offset) = (found.partition, found.offset);
        let goes = match &found.what {
            DlqRecordKind::FateOf(_) => continue,
            DlqRecordKind::Letter(_) if fates.has(partition, offset) => continue,
            DlqRecordKind::Letter(letter) => filter.takes(letter, &letters.decoder),
            DlqRecordKind::Foreign => false,
        };
        if !goes {
            wanted.entry(partition).or_insert(offset);
            continue;
        }
        records.push(topic.fate(partition, offset, Fate::Purged));
        if records.len() == TOGETHER {
            out.send(&std::mem::take(&mut records))?;
        }
        purged += 1;
    }
    out.send(&records)?;
    let mut before = topic.ends();
    before.extend(wanted);
    let deleted = Topics::new(&letters.brokers)?.delete_before(topic.name(), &before).await;
    if let Err(error) = deleted {
        // They are gone for all who read them.
        exit::print_status(&format!("the space of dead letters is not given back yet: {error}"));
    }
    Ok(purged)
}
