//! Where the owners of partitions answer questions, as the members of the consumer group say.
//!
//! It is a hint: an address may be out of date, and who joins the group may name any. What a wrong
//! one answers is joined with the store like the memory of a former owner.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use crate::kafka::KafkaError;
use crate::kafka::client::Brokers;
use crate::kafka::group::Group;
use crate::model::epoch::Division;

/// Interval at which the group is asked. Until then, the owners after a rebalance are unknown.
const INTERVAL: Duration = Duration::from_secs(2);

/// The addresses of the owners of partitions.
#[derive(Debug, Default)]
pub struct Owners(RwLock<Option<Known>>);

#[derive(Debug)]
struct Known {
    /// How devices are assigned to the partitions of the newest epoch.
    division: Division,
    addresses: BTreeMap<i32, String>,
}

impl Owners {
    /// How devices are assigned to partitions; `None` until the group was asked.
    #[must_use]
    pub fn division(&self) -> Option<Division> {
        let known = self.0.read().expect("no holder of the lock panics");
        known.as_ref().map(|known| known.division)
    }

    /// The address of the owner of a partition.
    #[must_use]
    pub fn address(&self, partition: i32) -> Option<String> {
        let known = self.0.read().expect("no holder of the lock panics");
        known.as_ref()?.addresses.get(&partition).cloned()
    }

    fn set(&self, division: Division, addresses: BTreeMap<i32, String>) {
        *self.0.write().expect("no holder of the lock panics") =
            Some(Known { division, addresses });
    }

    /// Asks the group again and again. The members have the addresses that they advertise as client
    /// ids.
    ///
    /// # Errors
    /// An option is unknown to the client.
    pub async fn follow(
        self: Arc<Self>,
        brokers: Brokers,
        (group, topic): (String, String),
        division: Division,
    ) -> Result<(), KafkaError> {
        let group = Arc::new(Group::new(&brokers, &group)?);
        loop {
            let (group, topic) = (Arc::clone(&group), topic.clone());
            let asked = tokio::task::spawn_blocking(move || group.client_ids(&topic));
            match asked.await.expect("the client does not panic") {
                Ok(found) => self.set(division, found),
                // The last ones stay: while the brokers are away, partitions keep their owners.
                Err(error) => tracing::debug!(%error, "cannot ask who owns the partitions"),
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }
}
