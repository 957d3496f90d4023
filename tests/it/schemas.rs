//! The verdicts on schemas that stores keep: the first one stands. One suite over every store.

use tstar::internals::model::rules::Rules;
use tstar::internals::model::schema::{SchemaId, SchemaReference, SchemaSource, SchemaVerdict};
use tstar::internals::store::SchemaStore;
use tstar::internals::store::schemas::{SchemaSlot, all_schemas, keep_schema, kept_schema};
use tstar::internals::store::sqlite::SqliteStore;

use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::support::block_on;

fn known(text: &str) -> SchemaVerdict {
    let reference = SchemaReference { name: "ü'\"".into(), text: "message A {}\n".into() };
    let source = SchemaSource { text: text.into(), references: vec![reference] };
    SchemaVerdict::Known { kind: "PROTOBUF".into(), source }
}

/// `epoch` has no schema before.
async fn the_first_verdict_stands(store: &impl SchemaStore, epoch: i32) {
    let of_epoch = (epoch, 3);
    let guid: SchemaId = "6f8d2b1e-7c3a-4e5f-9a0b-1c2d3e4f5a6b".parse().unwrap();
    let [one, two] = [1, u32::MAX].map(SchemaId::Number);
    assert_eq!(kept_schema(store, of_epoch, one).await.unwrap(), SchemaSlot::Free(0));
    // Two owners at once, with different answers.
    let (ours, theirs) = (known("a"), SchemaVerdict::Unknown);
    let (a, b) = tokio::join!(
        keep_schema(store, of_epoch, one, &ours),
        keep_schema(store, of_epoch, one, &theirs)
    );
    let stands = a.unwrap();
    assert_eq!(stands, b.unwrap());
    assert!(
        stands == SchemaSlot::Verdict(ours) || stands == SchemaSlot::Verdict(theirs),
        "{stands:?}"
    );
    // Two owners at once, with different ids.
    let unusable = SchemaVerdict::Unusable { problem: "x".into() };
    let (guids, twos) = (known("b"), unusable);
    let (a, b) = tokio::join!(
        keep_schema(store, of_epoch, guid, &guids),
        keep_schema(store, of_epoch, two, &twos)
    );
    assert_eq!(
        (a.unwrap(), b.unwrap()),
        (SchemaSlot::Verdict(guids.clone()), SchemaSlot::Verdict(twos.clone()))
    );
    for (id, verdict) in [(guid, guids), (two, twos)] {
        let again = keep_schema(store, of_epoch, id, &known("other")).await.unwrap();
        assert_eq!(again, SchemaSlot::Verdict(verdict));
    }
    let full = keep_schema(store, of_epoch, SchemaId::Number(5), &known("c")).await.unwrap();
    assert_eq!(full, SchemaSlot::Full);
    let all = all_schemas(store, epoch).await.unwrap();
    assert_eq!(all.iter().map(|it| it.slot).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!((all[0].epoch, all[0].id), (epoch, one));
    assert_eq!(all_schemas(store, epoch + 1).await.unwrap(), []);
}

#[test]
fn in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trips.db");
    let store = SqliteStore::open_for_topic(&file, &Rules::default(), 100).unwrap();
    block_on(the_first_verdict_stands(&store, 1));
}

#[test]
fn in_cql() {
    let Some(keyspace) = Keyspace::shared(ClusteringOrder::Desc) else { return };
    // Other tests share the keyspace.
    let epoch = fastrand::i32(1_000..1_000_000_000);
    keyspace.runtime.block_on(the_first_verdict_stands(&keyspace.store(), epoch));
}
