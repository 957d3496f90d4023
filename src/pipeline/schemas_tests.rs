use std::sync::Mutex;

use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::*;
use crate::model::rules::Rules;
use crate::model::schema::{Encoding, SchemaSource, SchemaSubject};
use crate::registry::fixture::{FakeRegistry, client, registry};
use crate::store::schemas::{KeptSchema, all_schemas};
use crate::store::{AnyStore, EmbeddedStore, SideTables as _};

const ID: SchemaId = SchemaId::Number(7);

fn store() -> (Arc<AnyStore>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::scratch(folder.path(), &Rules::default(), true).unwrap();
    (Arc::new(AnyStore::from(Arc::new(store))), folder)
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

fn decoder() -> Arc<Decoder> {
    let rules = Rules { decode: Encoding::Avro, ..Rules::default() };
    Arc::new(Decoder::new(&rules).unwrap())
}

/// Finds one id at an offset of a partition of epoch 1.
async fn find_one(
    find: &FindSchemas,
    decoder: &Arc<Decoder>,
    (partition, offset): (i32, i64),
    id: SchemaId,
) -> Result<(), StoreError> {
    let (ids, decoder) = ([(id, Offset(offset))].into(), Arc::clone(decoder));
    find(WantedSchemas { epoch: 1, partition, ids, decoder }).await
}

/// What the slots of epoch 1 say.
async fn kept(store: &AnyStore) -> Vec<(String, SchemaVerdict)> {
    let kept = all_schemas(store, 1).await.unwrap();
    kept.into_iter().map(|kept| (kept.id.to_string(), kept.verdict)).collect()
}

/// The message of a record of a partition that names a schema and has no more bytes.
fn message(decoder: &Arc<Decoder>, (partition, offset): (i32, i64), id: u8) -> String {
    let record = [0, 0, 0, 0, id];
    let late = decoder.was_unknown((None, &record), (partition, Offset(offset)));
    late.map_or_else(String::new, |error| error.message)
}

#[tokio::test]
async fn the_first_schema_stands_whatever_a_registry_answers_later() {
    let (store, _folder) = store();
    let path = "/schemas/ids/7";
    let (served, url) = registry(&[(path, 200, json!({"schema": "\"int\""}))]).await;
    let find = |url| find_schemas(Arc::clone(&store), access(url).0);
    find_one(&find(Some(url.as_str())), &decoder(), (0, 5), ID).await.unwrap();
    served.answer(path, 200, &json!({"schema": "\"long\""}));
    let (_, other) = registry(&[(path, 200, json!({"schema": "\"string\""}))]).await;
    for url in [Some(url.as_str()), Some(other.as_str()), None] {
        let decoder = decoder();
        find_one(&find(url), &decoder, (1, 0), ID).await.unwrap();
        assert!(decoder.has_schema(ID));
    }
    assert_eq!(kept(&store).await, [("7".to_owned(), known("\"int\""))]);
    assert_eq!(served.requests().len(), 1, "it was asked for once");
}

#[tokio::test]
async fn an_unknown_id_is_asked_for_again_and_decides_only_the_records_until_then() {
    let (store, _folder) = store();
    let (served, url) = registry(&[]).await;
    let (decoder, find) = (decoder(), find_schemas(Arc::clone(&store), access(Some(&url)).0));
    find_one(&find, &decoder, (3, 10), ID).await.unwrap();
    find_one(&find, &decoder, (3, 12), ID).await.unwrap();
    assert!(!decoder.has_schema(ID) && served.requests().len() == 2);
    served.answer("/schemas/ids/7", 200, &json!({"schema": "\"int\""}));
    // What was decided stays, whoever reads it again.
    let other = find_schemas(Arc::clone(&store), access(Some(&url)).0);
    find_one(&other, &decoder, (3, 12), ID).await.unwrap();
    assert!(!decoder.has_schema(ID) && served.requests().len() == 2);
    find_one(&find, &decoder, (3, 13), ID).await.unwrap();
    // Of a record after the schema, nothing more is known of other ids.
    find_one(&find, &decoder, (3, 14), SchemaId::Number(8)).await.unwrap();
    let subjects = ["3:10", "3:12", "7", "3:14"];
    let found = kept(&store).await;
    assert_eq!(found.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), subjects);
    let all = known_schemas(&store, &[epoch()]).await.unwrap();
    let again = self::decoder();
    all.add_to(&again, 1);
    for decoder in [decoder, again] {
        let why = "the registry had no schema 7 when this record was read; tstar dlq replay";
        assert!(message(&decoder, (3, 12), 7).starts_with(why));
        for position in [(3, 13), (3, 14), (2, 1)] {
            assert_eq!(message(&decoder, position, 7), "", "{position:?}");
        }
    }
    let replay = find_known(Arc::new(all));
    let decoder = self::decoder();
    find_one(&replay, &decoder, (3, 14), SchemaId::Number(8)).await.unwrap();
    find_one(&replay, &decoder, (3, 11), ID).await.unwrap();
    assert!(decoder.has_schema(ID));
    let error = find_one(&replay, &decoder, (3, 15), SchemaId::Number(8)).await.unwrap_err();
    assert!(matches!(error, StoreError::LacksSchema { .. }), "{error}");
}

fn epoch() -> Epoch {
    Epoch {
        epoch: 1,
        topic: "samples".into(),
        partitions: 4,
        start_offsets: BTreeMap::new(),
        base: crate::model::scalar::Version(0),
        rules: Rules { decode: Encoding::Avro, ..Rules::default() },
        partitioner: crate::model::partitioner::Partitioner::None,
        topic_id: None,
        keeps_positions: false,
    }
}

#[tokio::test]
async fn ids_that_no_registry_has_are_asked_for_at_the_same_time_and_count_towards_nothing() {
    let (store, _folder) = store();
    let (served, url) = registry(&[]).await;
    let find = find_schemas(Arc::clone(&store), access(Some(&url)).0);
    served.answer_together(MAX_REQUESTS);
    let ids = (0..320).map(|at| (SchemaId::Number(at), Offset(at.into()))).collect();
    let wanted = WantedSchemas { epoch: 1, partition: 0, ids, decoder: decoder() };
    tokio::time::timeout(Duration::from_secs(60), find(wanted)).await.unwrap().unwrap();
    assert_eq!(served.requests().len(), 320);
    assert_eq!(kept(&store).await, [("0:319".to_owned(), SchemaVerdict::Unknown)]);
}

#[tokio::test]
async fn a_schema_that_cannot_be_compiled_is_kept_as_unusable() {
    let (store, _folder) = store();
    let deep = ["{\"type\":\"array\",\"items\":".repeat(300), "\"int\"".into(), "}".repeat(300)];
    let answers = [("/schemas/ids/7", 200, json!({"schema": deep.concat()}))];
    let (_served, url) = registry(&answers).await;
    let (decoder, find) = (decoder(), find_schemas(Arc::clone(&store), access(Some(&url)).0));
    find_one(&find, &decoder, (0, 0), ID).await.unwrap();
    assert!(decoder.has_schema(ID));
    let kept = kept(&store).await;
    let [(_, SchemaVerdict::Unusable { problem })] = &kept[..] else { panic!("{kept:?}") };
    assert!(problem.contains("recursion limit"), "{problem}");
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
    let (decoder, find) = (decoder(), find_schemas(Arc::clone(&store), access));
    let (found, ()) = tokio::join!(find_one(&find, &decoder, (0, 0), ID), start);
    found.unwrap();
    assert!(decoder.has_schema(ID));
    let heard = heard.lock().unwrap();
    assert!(heard[0].contains("cannot be reached") && heard[0].ends_with("schema 7 is needed"));
}

#[tokio::test]
async fn without_a_registry_only_kept_schemas_are_found() {
    let (store, _folder) = store();
    let find = find_schemas(store, access(None).0);
    for find in [find, find_known(Arc::default())] {
        let error = find_one(&find, &decoder(), (0, 0), ID).await.unwrap_err();
        assert!(matches!(&error, StoreError::LacksSchema { epoch: 1, id } if id == "7"), "{error}");
    }
}

#[tokio::test]
async fn an_epoch_that_has_all_its_schemas_takes_no_more() {
    let (store, _folder) = store();
    for slot in 0..i32::try_from(MAX_SCHEMAS).unwrap() {
        let id = SchemaSubject::Id(SchemaId::Number(slot.unsigned_abs() + 1000));
        let schema = KeptSchema { epoch: 1, slot, id, verdict: known("\"int\"") };
        store.add_schema(&schema).await.unwrap();
    }
    let (served, url) = registry(&[("/schemas/ids/7", 200, json!({"schema": "\"int\""}))]).await;
    let (decoder, find) = (decoder(), find_schemas(Arc::clone(&store), access(Some(&url)).0));
    find_one(&find, &decoder, (0, 0), ID).await.unwrap();
    find_one(&find, &decoder, (0, 1), SchemaId::Number(1000)).await.unwrap();
    assert!(decoder.has_schema(ID) && decoder.has_schema(SchemaId::Number(1000)));
    assert!(served.requests().is_empty() && kept(&store).await.len() == MAX_SCHEMAS);
}
