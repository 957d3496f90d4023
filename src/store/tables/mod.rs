//! What a store keeps next to its trips: of its log, and of users. A table is a file here: its
//! statements, columns and readers in each kind of store.

mod control_keys;
mod epochs;
mod group;
pub mod positions;
pub mod schemas;
pub(super) mod tags;

use self::schemas::KeptSchema;
use super::any::store_operations;
use super::scylla::cql::Cql;
use super::scylla::{Consistency, Failure};
use crate::model::control::NamedKey;
use crate::model::epoch::Epoch;
use crate::model::schema::{SchemaSubject, SchemaVerdict};
use crate::model::tag::{Revision, Tag};
use crate::store::{Result, TimeSpan};

store_operations! {
    /// Stores what lies next to the trips.
    ///
    /// - Epochs, control keys and schemas are only ever added.
    /// - The consumer group that reads the log: a second one would read every record as well, from
    ///   offsets of its own.
    /// - Tags by device, time of the id, and key: written by users while another process may write
    ///   trips. Writes are conditional, so that of two at once neither is lost unnoticed. A store
    ///   that repeats a write without an answer recognises its own by the revision.
    pub trait SideTables over SideTablesOver, one file a table {
        /// Every epoch of the topic, oldest first.
        fn epochs(&self) -> Vec<Epoch> = "epochs";

        /// Adds an epoch unless one of that number exists; returns whether it was added.
        fn add_epoch(&self, epoch: &Epoch) -> bool = "add_epoch";

        /// The names and fingerprints of all control keys, by name.
        fn control_keys(&self) -> Vec<NamedKey> = "control_keys";

        /// Adds a key unless one of that name exists; returns whether it was added.
        fn add_control_key(&self, key: &NamedKey) -> bool = "add_control_key";

        /// The consumer group that reads the log; `None` if none did.
        fn group(&self) -> Option<String> = untimed;

        /// Keeps a group in place of `former`, if that is the one that is kept. Returns the one
        /// that is kept afterwards.
        fn keep_group(&self, former: Option<&str>, group: &str) -> Option<String> = untimed;

        /// What the slots of an epoch decide, from a slot on: the next ones, none at the end.
        fn schema_subjects(&self, epoch: i32, from: i32) -> Vec<SchemaSubject> = untimed;

        /// The verdict in a slot.
        fn schema_in(&self, epoch: i32, slot: i32) -> Option<SchemaVerdict> = untimed;

        /// Adds a verdict unless its slot is taken. Whether it was added is for
        /// [`SideTables::schema_subjects`] to say: an attempt without an answer may have added it.
        fn add_schema(&self, schema: &KeptSchema) -> () = untimed;

        /// The tags at the ids of a span, of the trips of a device, and if the span has
        /// [`DEVICE_TIME`](crate::model::tag::DEVICE_TIME) of the device itself; ordered by id,
        /// then by key.
        fn tags(&self, device_id: &str, span: TimeSpan) -> Vec<Tag> = "tags";

        /// [`SideTables::tags`] for a writer: sees writes in progress, too, and costs more.
        fn tags_to_change(&self, device_id: &str, span: TimeSpan) -> Vec<Tag> = "tags_to_change" {
            self.tags(device_id, span)
        }

        /// Writes a tag if the one with its id and key still has the revision `replaced`, or if
        /// there is none and `replaced` is `None`. Returns whether it was written.
        fn put_tag(
            &self,
            device_id: &str,
            tag: &Tag,
            replaced: Option<Revision>,
        ) -> bool = "put_tag";

        /// Deletes a tag if it still has its revision. Returns whether none with its id and key is
        /// left; if one is, another write came first.
        fn delete_tag(&self, device_id: &str, tag: &Tag) -> bool = "delete_tag";

        /// Whether any trip or device may have a tag.
        fn has_tags(&self) -> bool = "has_tags";

        /// The devices with tags, in an order of the store.
        fn tagged_devices(&self) -> Vec<String> = "tagged_devices";
    }
}

/// Declares the statements of all tables.
macro_rules! side_statements {
    ($($table:ident)+) => {
        /// The statements of the tables next to the trips, in a keyspace.
        pub(super) struct SideStatements<C: Cql> {
            $(pub(super) $table: $table::Statements<C>,)+
        }

        impl<C: Cql> SideStatements<C> {
            pub(super) async fn prepare(cql: &C, of: Consistency) -> Result<Self, Failure> {
                Ok(Self { $($table: $table::Statements::prepare(cql, of).await?,)+ })
            }
        }
    };
}

side_statements!(epochs control_keys group schemas tags);
