//! Dead letters that are too large to be replayed: they stay, the others go.

use std::collections::BTreeSet;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde_json::{Value, json};
use tstar::internals::kafka::producer::ProducerRecord;

use super::{PARTITIONS, sample};
use crate::cli::Folder;
use crate::faults::until;
use crate::topic::{Topic, drain, start};

/// A topic, and a file that it is read into.
struct Site {
    topic: Topic,
    folder: Folder,
}

impl Site {
    fn new(options: &[(&str, &str)]) -> Option<Self> {
        Some(Self { topic: Topic::with(PARTITIONS, options)?, folder: Folder::new() })
    }

    fn ls(&self) -> Vec<Value> {
        let found = self.folder.run("dlq ls");
        if found.code == Some(0) { found.objects() } else { vec![] }
    }

    /// Reads what there is, until the dead letters meet a condition.
    fn read_until(&self, are_right: impl Fn(&[Value]) -> bool) {
        let flags = "--store sqlite:trips.db --from earliest";
        let words = format!("run {} {flags}", self.topic.flags());
        let running = start(&self.folder, &words);
        until("the letters", || are_right(&self.ls()).then_some(()));
        drain(running, &words).ends(0);
    }

    fn replay(&self, flags: &str) -> crate::cli::Ran {
        self.folder.run(&format!("dlq replay {flags} --brokers {}", self.topic.brokers)).ends(0)
    }
}

/// A sample without a key, of `bytes` bytes, which no compression shrinks.
fn large(minute: u32, bytes: usize) -> ProducerRecord {
    let mut random = ChaCha8Rng::seed_from_u64(minute.into());
    let mut ballast = vec![0; bytes];
    random.fill_bytes(&mut ballast);
    let ballast = data_encoding::BASE64.encode(&ballast);
    let short = sample("truck-1", minute).replace('}', ",\"ballast\":\"\"}");
    let room = bytes - short.len();
    let value = short.replace("\"\"", &format!("\"{}\"", &ballast[..room]));
    ProducerRecord { value: value.into(), ..ProducerRecord::default() }
}

#[test]
fn one_that_is_too_large_stays_and_the_others_go() {
    // Beyond the topic's limit, which a broker knows, and beyond the client's: as received the
    // record fits, with a key and the replay's headers it does not.
    for (limit, bytes) in [("20000", 19_880), ("2000000", 999_950)] {
        let Some(site) = Site::new(&[("max.message.bytes", limit)]) else { return };
        for minute in 0..20 {
            let letter = match minute {
                7 => large(minute, bytes),
                // Each fits, several together do not.
                8..12 => large(minute, 9_000),
                _ => ProducerRecord {
                    value: sample("truck-1", minute).into(),
                    ..ProducerRecord::default()
                },
            };
            site.topic.send(&[letter]);
        }
        site.read_until(|letters| letters.len() == 20);
        let ran = site.replay("--kafka compression.type=none");
        let ran = ran.says(&["stays: a record is too large", "message.max.bytes"]);
        let summary = ran.json();
        assert_eq!(summary["replayed"], 19, "{ran}");
        assert_eq!(summary["never"], json!({"too_large": 1}));
        let [left] = &site.ls()[..] else { panic!("{ran}") };
        assert_eq!((&left["value_bytes"], &left["reason"]), (&json!(bytes), &json!("no_key")));
        let kept = site.topic.records_of(&site.topic.name).into_iter();
        let origins = kept.filter_map(|mut kept| kept.headers.remove("tstar-dlq-origin"));
        let origins: Vec<_> = origins.collect();
        assert_eq!(origins.len(), 19);
        assert_eq!(origins.into_iter().collect::<BTreeSet<_>>().len(), 19);
    }
}
