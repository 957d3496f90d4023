//! The setting of a case: a store, the input for its samples, and the page over it.

use super::browser::Browser;
use super::serve::Serve;
use crate::cli::Folder;
use crate::faults::Running;
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::topic::keyspace::until_committed;
use crate::topic::{PARTITIONS, Topic, start};

/// Whether changes are streamed yet.
const STREAMS: &str = "(() => {
    const asked = new XMLHttpRequest();
    asked.open('GET', '/v1/page', false);
    asked.send();
    return asked.status === 200 && JSON.parse(asked.responseText).stream;
})()";

/// A topic, and a daemon that reads it into a keyspace.
struct Topical {
    _run: Running,
    topic: Topic,
    keyspace: Keyspace,
}

/// A store, and the input for its samples.
pub struct World {
    folder: Folder,
    topical: Option<Topical>,
    pub serve: Serve,
    pub browser: Browser,
}

impl World {
    /// A file with these samples, and the page over it; `None` without a browser.
    pub fn of_file(samples: &str) -> Option<Self> {
        let browser = Browser::start()?;
        let folder = super::stored(samples);
        let serve = Serve::start(&folder, "--store sqlite:trips.db");
        browser.goto(&serve.url(""));
        Some(Self { folder, topical: None, serve, browser })
    }

    /// The same in a keyspace, with its change feed in a topic; `None` without servers.
    pub fn of_keyspace(samples: &str) -> Option<Self> {
        let browser = Browser::start()?;
        let topic = Topic::new(PARTITIONS)?;
        let keyspace = Keyspace::new(ClusteringOrder::Desc)?;
        let folder = Folder::new();
        let store = format!("scylla://{}/{}", keyspace.url.nodes[0], keyspace.url.keyspace);
        topic.send_lines(samples.as_bytes(), "no-device");
        let words = format!(
            "run {} --store {store} --group {} --from earliest --create-topics --listen off \
             --max-staleness 1s --flush-interval 1s",
            topic.flags(),
            topic.name
        );
        let run = start(&folder, &words);
        until_committed(&topic, &topic.name);
        let serve = Serve::start(&folder, &format!("--store {store} --brokers {}", topic.brokers));
        browser.goto(&serve.url("#first"));
        browser.until(STREAMS);
        browser.goto("about:blank");
        browser.goto(&serve.url(""));
        Some(Self { folder, topical: Some(Topical { _run: run, topic, keyspace }), serve, browser })
    }

    /// Sends more samples.
    pub fn add(&self, samples: &str) {
        match &self.topical {
            Some(topical) => topical.topic.send_lines(samples.as_bytes(), "no-device"),
            None => {
                self.folder.write("more.ndjson", samples);
                self.folder.ingest("more.ndjson --store sqlite:trips.db");
            }
        }
    }

    /// Sets tags of a trip, as `KEY=VALUE`.
    pub fn tag(&self, id: &str, tags: &[&str]) {
        let into = match &self.topical {
            Some(Topical { topic, keyspace, .. }) => {
                let url = &keyspace.url;
                let store = format!("scylla://{}/{}", url.nodes[0], url.keyspace);
                vec!["--store".to_owned(), store, "--brokers".to_owned(), topic.brokers.clone()]
            }
            None => vec!["--store".to_owned(), "sqlite:trips.db".to_owned()],
        };
        let ran = self.folder.command(&format!("tag {id}")).args(tags).args(into).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }

    /// An id in another form.
    pub fn text(&self, words: &str) -> String {
        self.folder.text(words)
    }

    /// The kind of store, for the output.
    fn name(&self) -> String {
        let keyspace = self.topical.as_ref().map(|it| &it.keyspace.url.keyspace);
        keyspace.map_or("a file".into(), |name| format!("keyspace {name}"))
    }
}

/// Runs a case over a file, then over a keyspace.
pub fn on_both(samples: &str, case: impl Fn(&World)) {
    for make in [World::of_file, World::of_keyspace] {
        let Some(world) = make(samples) else { continue };
        println!("over {}", world.name());
        case(&world);
    }
}
