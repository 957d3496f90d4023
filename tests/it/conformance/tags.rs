//! Tags: conditional writes, ranges, and what a forget does to them.

use tstar::internals::model::scalar::{DeviceTime, Version};
use tstar::internals::model::tag::{DEVICE_TIME, Revision, Tag, TagValue};
use tstar::internals::sink::Sink;
use tstar::internals::store::memory::ApplyRows as _;
use tstar::internals::store::{Flush, Forget, SideTables, TripStore};

use super::{at, trip};

fn tag(minute: i64, key: &str, value: &str, revision: i64) -> Tag {
    Tag {
        t_star_ms: at(minute),
        key: key.parse().unwrap(),
        value: TagValue::new(value).unwrap(),
        written_ms: 1000 + revision,
        revision: Revision(revision),
    }
}

pub async fn a_tag_is_written_only_over_the_revision_that_was_read(store: impl SideTables) {
    let device = "truck-17";
    let (first, second) = (tag(5, "purpose", "business", 1), tag(5, "purpose", "private", -2));
    assert!(store.put_tag(device, &first, None).await.unwrap());
    assert!(!store.put_tag(device, &second, None).await.unwrap(), "there is one");
    assert!(!store.put_tag(device, &second, Some(Revision(7))).await.unwrap());
    assert!(store.put_tag(device, &second, Some(first.revision)).await.unwrap());
    assert!(!store.put_tag(device, &first, Some(first.revision)).await.unwrap());
    assert!(!store.delete_tag(device, &first).await.unwrap(), "another write came first");
    let other = tag(5, "note", "", 3);
    assert!(!store.put_tag(device, &other, Some(first.revision)).await.unwrap());
    assert!(store.put_tag(device, &other, None).await.unwrap());
    let tags = store.tags(device, (at(5), at(5))).await.unwrap();
    assert_eq!(tags, [other.clone(), second.clone()]);
    assert!(store.delete_tag(device, &second).await.unwrap());
    assert!(store.delete_tag(device, &second).await.unwrap(), "none is left");
    assert_eq!(store.tags_to_change(device, (at(0), at(9))).await.unwrap(), [other]);
    assert!(store.put_tag(device, &first, None).await.unwrap(), "after it was deleted");
}

pub async fn tags_of_a_span_are_in_the_order_of_their_ids(store: impl SideTables) {
    let tags = [
        tag(-60, "a", "before midnight", 1),
        tag(5, "a", "x", 2),
        tag(5, "b", "y", 3),
        tag(9, "a", "z", 4),
    ];
    for tag in tags.iter().rev() {
        assert!(store.put_tag("truck-17", tag, None).await.unwrap());
    }
    assert!(store.put_tag("truck-18", &tag(7, "a", "of another device", 5), None).await.unwrap());
    let of = |from, upto| store.tags("truck-17", (at(from), at(upto)));
    assert_eq!(of(-60, 9).await.unwrap(), tags);
    assert_eq!(of(-59, 8).await.unwrap(), tags[1..3]);
    assert_eq!(of(6, 8).await.unwrap(), []);
    let all = store.tags("truck-17", (DeviceTime::MIN, DeviceTime::MAX)).await.unwrap();
    assert_eq!(all, tags);
    assert!(store.has_tags().await.unwrap());
    let mut devices = store.tagged_devices().await.unwrap();
    devices.sort_unstable();
    assert_eq!(devices, ["truck-17", "truck-18"]);
}

pub async fn a_forget_erases_the_tags_that_no_trip_covers(
    store: impl TripStore + Sink + SideTables,
) {
    let rows = [trip("truck-17", &[-60, -30], 2), trip("truck-17", &[-10, 5], 4)];
    store.apply(&rows).await.unwrap();
    store.commit(&Flush::default()).await.unwrap();
    let tags = [
        tag(-60, "a", "of an erased trip", 1),
        tag(-20, "a", "between trips", 2),
        tag(-10, "a", "of a trip that extends past the forget", 3),
        tag(90, "a", "later", 4),
    ];
    for tag in &tags {
        assert!(store.put_tag("truck-17", tag, None).await.unwrap());
    }
    assert!(store.put_tag("truck-18", &tags[0], None).await.unwrap());
    for _ in 0..2 {
        let forget = Forget { version: Version(10), before_ms: at(3) };
        store.forget("truck-17", &forget).await.unwrap();
        store.commit(&Flush::default()).await.unwrap();
        let left = store.tags("truck-17", (DeviceTime::MIN, DeviceTime::MAX)).await.unwrap();
        assert_eq!(left, tags[2..]);
    }
    assert_eq!(store.tags("truck-18", (at(-60), at(-60))).await.unwrap().len(), 1);
}

pub async fn a_forget_erases_the_tags_of_a_device_with_its_last_row(
    store: impl TripStore + Sink + SideTables,
) {
    let rows = [trip("truck-17", &[-60, -30], 2), trip("truck-17", &[4, 8], 4)];
    store.apply(&rows).await.unwrap();
    store.commit(&Flush::default()).await.unwrap();
    let of_device = |key, revision| Tag { t_star_ms: DEVICE_TIME, ..tag(0, key, "x", revision) };
    let tags = [of_device("group", 1), of_device("name", 2), tag(-60, "a", "of a trip", 3)];
    for tag in &tags {
        assert!(store.put_tag("truck-17", tag, None).await.unwrap());
        assert!(store.put_tag("truck-18", tag, None).await.unwrap());
    }
    let all = (DeviceTime::MIN, DeviceTime::MAX);
    // The last one leaves the day of the second trip in the index, without a row.
    for (version, minute, left) in [(10, -40, 3), (12, 3, 2), (14, 8, 2), (16, 9, 0), (16, 9, 0)] {
        let forget = Forget { version: Version(version), before_ms: at(minute) };
        store.forget("truck-17", &forget).await.unwrap();
        store.commit(&Flush::default()).await.unwrap();
        let found = store.tags("truck-17", all).await.unwrap();
        assert_eq!(found, tags[..left], "before minute {minute}");
    }
    assert_eq!(store.tags("truck-18", all).await.unwrap(), tags);
}
