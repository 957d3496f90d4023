//! Names of the owners of partitions, as the members of the consumer group say.
//!
//! It is a hint to show, and nothing else: a name may be out of date, and who joins the group may
//! have any.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use crate::kafka::KafkaError;
use crate::kafka::client::Brokers;
use crate::kafka::group::Group;
use crate::model::epoch::Division;

/// Interval at which the group is asked. Until then, the owners after a rebalance are unknown.
const INTERVAL: Duration = Duration::from_secs(2);

/// Maximum length of a name, bytes: that of names in Kafka.
const MAX_NAME: usize = 249;

/// The names of the owners of partitions: their client ids.
#[derive(Debug)]
pub struct Owners {
    /// The name of this instance.
    own: String,
    known: RwLock<Option<Known>>,
}

#[derive(Debug)]
struct Known {
    /// How devices are assigned to the partitions of the newest epoch.
    division: Division,
    names: BTreeMap<i32, String>,
}

/// Whether a client id can be shown as a name, such as that of a host or a pod.
fn is_name(client_id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_NAME).contains(&client_id.len()) && client_id.bytes().all(is_plain)
}

impl Owners {
    /// No other instance is known yet. `own` is the client id of this one.
    #[must_use]
    pub fn new(own: String) -> Self {
        Self { own, known: RwLock::default() }
    }

    /// How devices are assigned to partitions; `None` until the group was asked.
    #[must_use]
    pub fn division(&self) -> Option<Division> {
        let known = self.known.read().expect("no holder of the lock panics");
        known.as_ref().map(|known| known.division)
    }

    /// The name of the owner of a partition, if it is another instance.
    #[must_use]
    pub fn other(&self, partition: i32) -> Option<String> {
        let known = self.known.read().expect("no holder of the lock panics");
        known.as_ref()?.names.get(&partition).cloned()
    }

    fn set(&self, division: Division, mut names: BTreeMap<i32, String>) {
        names.retain(|_, name| *name != self.own && is_name(name));
        *self.known.write().expect("no holder of the lock panics") =
            Some(Known { division, names });
    }

    /// Asks the group again and again.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::epoch::Epoch;
    use crate::model::partitioner::Partitioner;
    use crate::model::rules::Rules;
    use crate::model::scalar::Version;

    #[test]
    fn names_are_of_other_instances_and_of_a_plain_form() {
        let epoch = Epoch {
            epoch: 1,
            topic: "samples".into(),
            partitions: 9,
            start_offsets: BTreeMap::new(),
            base: Version(0),
            rules: Rules::default(),
            partitioner: Partitioner::None,
            topic_id: None,
            keeps_positions: false,
        };
        let owners = Owners::new("tstar-0".into());
        assert_eq!((owners.division(), owners.other(1)), (None, None));
        let (long, longer) = ("a".repeat(249), "a".repeat(250));
        let ids = [
            "tstar-0",
            "tstar-1",
            "",
            "http://127.0.0.1:19999/latest/meta-data?x=",
            "a\nb",
            "<b>",
            "t\u{161}tar",
            &*long,
            &*longer,
        ];
        let ids = (0..).zip(ids.map(str::to_owned));
        owners.set(epoch.division(), ids.collect());
        let shown: Vec<_> = (0..10).filter_map(|of| Some((of, owners.other(of)?))).collect();
        assert_eq!(shown, [(1, "tstar-1".to_owned()), (7, long)]);
        owners.set(epoch.division(), BTreeMap::new());
        assert_eq!(owners.other(1), None);
    }
}
