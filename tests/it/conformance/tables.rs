//! Epochs, control keys, the group and schemas: what was added first stays.

use tstar::internals::model::control::NamedKey;
use tstar::internals::model::epoch::Epoch;
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::{Offset, Version};
use tstar::internals::model::schema::{SchemaSubject, SchemaVerdict};
use tstar::internals::store::SideTables;
use tstar::internals::store::schemas::KeptSchema;

fn epoch(number: i32, base: i64) -> Epoch {
    Epoch {
        epoch: number,
        topic: "samples".into(),
        partitions: 3,
        start_offsets: [(0, 5), (2, 7)].into(),
        base: Version(base),
        rules: Rules { max_gap_ms: 600_000, ..Rules::default() },
        partitioner: Partitioner::Murmur2,
        topic_id: Some("id".into()),
        keeps_positions: true,
    }
}

pub async fn what_was_added_first_stays(store: impl SideTables) {
    for (number, base, is_new) in [(2, 2000, true), (1, 1000, true), (2, 3000, false)] {
        assert_eq!(store.add_epoch(&epoch(number, base)).await.unwrap(), is_new);
    }
    assert_eq!(store.epochs().await.unwrap(), [epoch(1, 1000), epoch(2, 2000)]);
    let key = |name: &str, fingerprint: &str| NamedKey {
        name: name.to_owned(),
        fingerprint: fingerprint.to_owned(),
    };
    for (key, is_new) in [(key("b", "1"), true), (key("a", "2"), true), (key("b", "3"), false)] {
        assert_eq!(store.add_control_key(&key).await.unwrap(), is_new);
    }
    assert_eq!(store.control_keys().await.unwrap(), [key("a", "2"), key("b", "1")]);
    assert_eq!(store.group().await.unwrap(), None);
    for (former, group, kept) in
        [(None, "one", "one"), (None, "two", "one"), (Some("one"), "two", "two")]
    {
        assert_eq!(store.keep_group(former, group).await.unwrap().as_deref(), Some(kept));
    }
    assert_eq!(store.group().await.unwrap().as_deref(), Some("two"));
    let subject = |partition| SchemaSubject::Until(partition, Offset(9));
    for (slot, partition) in [(0, 4), (1, 5), (0, 6)] {
        let (id, verdict) = (subject(partition), SchemaVerdict::Unknown);
        store.add_schema(&KeptSchema { epoch: 1, slot, id, verdict }).await.unwrap();
    }
    assert_eq!(store.schema_subjects(1, 0).await.unwrap(), [subject(4), subject(5)]);
    assert_eq!(store.schema_subjects(1, 1).await.unwrap(), [subject(5)]);
    assert_eq!(store.schema_subjects(2, 0).await.unwrap(), []);
    assert_eq!(store.schema_in(1, 1).await.unwrap(), Some(SchemaVerdict::Unknown));
    assert_eq!(store.schema_in(1, 2).await.unwrap(), None);
}
