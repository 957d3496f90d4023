use std::sync::Mutex;

use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::*;
use crate::model::partitioner::Partitioner;
use crate::model::rules::Rules;
use crate::model::schema::SchemaSource;
use crate::registry::fixture::{FakeRegistry, client, registry};
use crate::store::EmbeddedStore;
use crate::store::schemas::KeptSchema;

const ID: SchemaId = SchemaId::Number(7);

fn store() -> (Arc<EmbeddedStore>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::scratch(folder.path(), &Rules::default(), true).unwrap();
    (Arc::new(store), folder)
}

/// Asks the registry at a URL; collects why it is asked again.
fn access(url: Option<&str>) -> (RegistryAccess, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = Arc::clone(&heard);
    let on_waiting = Arc::new(move |why| hear.lock().unwrap().push(why));
    (RegistryAccess { registry: url.map(|url| Arc::new(client(url))), on_waiting }, heard)
}

fn known(text: &str) -> SchemaVerdict {
    let source = SchemaSource { text: text.to_owned(), references: Vec::new() };
    SchemaVerdict::Known { kind: "AVRO".to_owned(), source }
}

#[tokio::test]
async fn the_first_answer_stands_whatever_a_registry_answers_later() {
    let (store, _folder) = store();
    let path = "/schemas/ids/7";
    let (served, url) = registry(&[(path, 200, json!({"schema": "\"int\""}))]).await;
    let find = |url| find_schema(Arc::clone(&store), access(url).0);
    let first = find(Some(url.as_str()));
    assert_eq!(first(1, ID).await.unwrap(), known("\"int\""));
    assert_eq!(first(1, SchemaId::Number(8)).await.unwrap(), SchemaVerdict::Unknown);
    served.answer(path, 200, &json!({"schema": "\"long\""}));
    served.answer("/schemas/ids/8", 200, &json!({"schema": "\"long\""}));
    let (_, other) = registry(&[(path, 200, json!({"schema": "\"string\""}))]).await;
    for url in [Some(url.as_str()), Some(other.as_str()), None] {
        assert_eq!(find(url)(1, ID).await.unwrap(), known("\"int\""));
        assert_eq!(find(url)(1, SchemaId::Number(8)).await.unwrap(), SchemaVerdict::Unknown);
    }
    assert_eq!(served.requests().len(), 2, "each id was asked for once");
    // Another epoch asks again.
    assert_eq!(first(2, ID).await.unwrap(), known("\"long\""));
    let epochs = [1, 2].map(|epoch| Epoch {
        epoch,
        topic: "samples".into(),
        partitions: 1,
        start_offsets: BTreeMap::new(),
        base: crate::model::scalar::Version(0),
        rules: Rules { decode: crate::model::schema::Encoding::Avro, ..Rules::default() },
        partitioner: Partitioner::None,
        topic_id: None,
        keeps_positions: false,
    });
    let all = known_schemas(&*store, &epochs).await.unwrap();
    let expected = [
        ((1, ID), known("\"int\"")),
        ((1, SchemaId::Number(8)), SchemaVerdict::Unknown),
        ((2, ID), known("\"long\"")),
    ];
    assert_eq!(all, expected.into());
}

#[tokio::test]
async fn a_registry_that_is_down_is_waited_for() {
    let (store, _folder) = store();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (access, heard) = self::access(Some(&format!("http://{address}")));
    let (came_up, reasons) = (Arc::new(tokio::sync::Notify::new()), Arc::clone(&heard));
    let up = Arc::clone(&came_up);
    let access = RegistryAccess {
        on_waiting: Arc::new(move |why: String| {
            reasons.lock().unwrap().push(why);
            up.notify_one();
        }),
        ..access
    };
    let served = FakeRegistry::default();
    served.answer("/schemas/ids/7", 200, &json!({"schema": "\"int\""}));
    let start = async {
        came_up.notified().await;
        served.on(TcpListener::bind(address).await.unwrap());
    };
    let find = find_schema(Arc::clone(&store), access);
    let (verdict, ()) = tokio::join!(find(1, ID), start);
    assert_eq!(verdict.unwrap(), known("\"int\""));
    let heard = heard.lock().unwrap();
    assert!(heard[0].contains("cannot be reached") && heard[0].ends_with("schema 7 is needed"));
}

#[tokio::test]
async fn without_a_registry_only_kept_schemas_are_found() {
    let (store, _folder) = store();
    let find = find_schema(store, access(None).0);
    for find in [find, find_none()] {
        let error = find(3, ID).await.unwrap_err();
        assert!(matches!(&error, StoreError::LacksSchema { epoch: 3, id } if id == "7"), "{error}");
    }
}

#[tokio::test]
async fn an_epoch_that_has_all_its_schemas_takes_no_more() {
    let (store, _folder) = store();
    for slot in 0..i32::try_from(MAX_SCHEMAS).unwrap() {
        let id = SchemaId::Number(slot.unsigned_abs() + 1000);
        let schema = KeptSchema { epoch: 1, slot, id, verdict: SchemaVerdict::Unknown };
        store.add_schema(&schema).await.unwrap();
    }
    let (served, url) = registry(&[]).await;
    let find = find_schema(Arc::clone(&store), access(Some(&url)).0);
    let SchemaVerdict::Unusable { problem } = find(1, ID).await.unwrap() else {
        panic!("there is no room")
    };
    assert!(problem.contains("has 10000 schemas"), "{problem}");
    assert_eq!(find(1, SchemaId::Number(1000)).await.unwrap(), SchemaVerdict::Unknown);
    assert!(
        served.requests().is_empty() && store.schema_ids(1).await.unwrap().len() == MAX_SCHEMAS
    );
}
