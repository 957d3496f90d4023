//! The verdicts on schemas that stores keep: the first one stands. One suite over every store.

use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::Offset;
use tstar::internals::model::schema::{SchemaId, SchemaReference, SchemaSource, SchemaVerdict};
use tstar::internals::store::SideTables;
use tstar::internals::store::schemas::{Decision, SchemaHistory, all_schemas};
use tstar::internals::store::sqlite::SqliteStore;

use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::support::block_on;

fn known(text: &str) -> SchemaVerdict {
    let reference = SchemaReference { name: "ü'\"".into(), text: "message A {}\n".into() };
    let source = SchemaSource { text: text.into(), references: vec![reference] };
    SchemaVerdict::Known { kind: "PROTOBUF".into(), source }
}

/// `epoch` has no schema before.
async fn the_first_verdict_stands(store: &impl SideTables, epoch: i32) {
    let of_epoch = (epoch, 3);
    let guid: SchemaId = "6f8d2b1e-7c3a-4e5f-9a0b-1c2d3e4f5a6b".parse().unwrap();
    let [one, two, three] = [1, u32::MAX, 3].map(SchemaId::Number);
    let mut owners = [(); 2].map(|()| SchemaHistory::default());
    let [a, b] = &mut owners;
    // Two owners at once, with different answers, of which one is that the id is unknown.
    let (ours, theirs, wanted) = (known("a"), known("b"), [(three, Offset(5))].into());
    let of_guid = known("c");
    let (kept, other) =
        tokio::join!(a.keep(store, of_epoch, one, &ours), b.keep(store, of_epoch, one, &theirs));
    kept.and(other).unwrap();
    let (kept, other) = tokio::join!(
        a.keep(store, of_epoch, guid, &of_guid),
        b.keep_unknown(store, (epoch, 4), &wanted)
    );
    kept.and(other).unwrap();
    let unusable = SchemaVerdict::Unusable { problem: "x".into() };
    b.keep(store, of_epoch, two, &unusable).await.unwrap();
    for owner in [&mut *a, &mut *b] {
        // Neither a second verdict counts, nor one over the limit.
        for id in [guid, three] {
            owner.keep(store, of_epoch, id, &known("other")).await.unwrap();
        }
        owner.keep_unknown(store, (epoch, 4), &wanted).await.unwrap();
    }
    let all = all_schemas(store, epoch).await.unwrap();
    assert_eq!(all.iter().map(|it| it.slot).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!([ours, theirs].contains(&all[0].verdict) && all[3].verdict == unusable, "{all:?}");
    let mut later = SchemaHistory::default();
    later.update(store, epoch).await.unwrap();
    for history in [&*a, &*b, &later] {
        assert_eq!(history.count(), 3);
        for (id, slot) in [(one, 0), (two, 3)] {
            let Decision::Verdict(decided) = history.decision(id, (4, Offset(0))) else {
                panic!("{id} has no verdict");
            };
            let until = if slot > 2 { Some(&Offset(5)) } else { None };
            assert_eq!((decided.slot, decided.unknown.get(&4)), (slot, until), "{id}");
        }
        for (position, is_open) in [((4, 5), false), ((4, 6), true), ((3, 5), true)] {
            let decision = history.decision(three, (position.0, Offset(position.1)));
            assert_eq!(matches!(decision, Decision::Open), is_open, "{decision:?}");
        }
    }
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
