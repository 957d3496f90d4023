//! Members and committed offsets of a consumer group. All calls block.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::groups::GroupList;
use rdkafka_extra::LoggedIn;

use super::client::Brokers;
use super::problems::{self, Problems};
use super::rights::Right;
use super::{KafkaError, client_error, offset_list, offsets_of, partition_list};

/// Request timeout if [`Brokers`] sets none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Upper limit of librdkafka's `session.timeout.ms`: its default `max.poll.interval.ms`.
const MAX_SESSION_MS: u128 = 300_000;

/// Client for a group that this process does not join.
pub struct Group {
    client: LoggedIn<BaseConsumer<Problems>>,
    brokers: Brokers,
    name: String,
}

impl Group {
    /// Creates a client; sends no request yet.
    ///
    /// # Errors
    /// An option is unknown to the client.
    pub fn new(brokers: &Brokers, name: &str) -> Result<Self, KafkaError> {
        let session = brokers.timeout().map(|it| it.as_millis().min(MAX_SESSION_MS).to_string());
        let mut ours = vec![("group.id", name), ("enable.auto.commit", "false")];
        if let Some(session) = &session {
            // The client looks for the group coordinator for this long. It never joins the group.
            ours.push(("session.timeout.ms", session));
        }
        let config = brokers.config(&ours);
        let client = Problems::observed(brokers, config)?;
        Ok(Self { client, brokers: brokers.clone(), name: name.to_owned() })
    }

    /// The group with its members, as the brokers describe it.
    fn described(&self) -> Result<GroupList, KafkaError> {
        let timeout = self.brokers.timeout_or(DEFAULT_TIMEOUT);
        let groups = self.client.fetch_group_list(Some(&self.name), timeout);
        groups.map_err(|error| self.failed(&[Right::group("Describe", &self.name)], &error))
    }

    /// Number of members that the group has now.
    ///
    /// # Errors
    /// No broker responds.
    pub fn members(&self) -> Result<usize, KafkaError> {
        let groups = self.described()?;
        Ok(groups.groups().iter().map(|group| group.members().len()).sum())
    }

    /// The client id of the member that each partition of a topic is assigned to.
    ///
    /// # Errors
    /// No broker responds.
    pub(crate) fn client_ids(&self, topic: &str) -> Result<BTreeMap<i32, String>, KafkaError> {
        let groups = self.described()?;
        let mut found = BTreeMap::new();
        for member in groups.groups().iter().flat_map(|group| group.members()) {
            let assigned = partitions_of(member.assignment().unwrap_or_default(), topic);
            let id = member.client_id();
            found.extend(assigned.unwrap_or_default().into_iter().map(|at| (at, id.to_owned())));
        }
        Ok(found)
    }

    /// Committed offsets of the group, by partition.
    ///
    /// # Errors
    /// The group or the topic may not be described, or no broker responds.
    pub fn committed(
        &self,
        topic: &str,
        partitions: i32,
    ) -> Result<BTreeMap<i32, i64>, KafkaError> {
        let list = partition_list(topic, 0..partitions);
        let timeout = self.brokers.timeout_or(DEFAULT_TIMEOUT);
        let committed = self.client.committed_offsets(list, timeout);
        let rights = [Right::group("Describe", &self.name), Right::topic("Describe", topic)];
        let offsets = committed.and_then(|committed| offsets_of(&committed));
        offsets.map_err(|error| self.failed(&rights, &error))
    }

    /// Commits offsets for a group without members.
    ///
    /// # Errors
    /// The brokers refuse, or none responds.
    pub fn set(&self, topic: &str, offsets: &BTreeMap<i32, i64>) -> Result<(), KafkaError> {
        let offsets = offsets.iter().map(|(&partition, &offset)| (partition, offset));
        let list = offset_list(topic, offsets).map_err(client_error("naming an offset"))?;
        let set = self.client.commit(&list, CommitMode::Sync);
        let rights = [Right::group("Read", &self.name), Right::topic("Read", topic)];
        let failed =
            |error| self.brokers.failed("setting the offsets of the group", &rights, error);
        set.map_err(failed)
    }

    /// Converts the error of a request that needs these rights.
    fn failed(&self, rights: &[Right], error: &ClientError) -> KafkaError {
        problems::explain(&self.brokers, &self.client, rights, error)
    }
}

/// The partitions of a topic in an assignment of the consumer protocol (version, then an array of
/// topics with arrays of partitions); `None` if it is cut off.
fn partitions_of(assignment: &[u8], topic: &str) -> Option<Vec<i32>> {
    let mut rest = assignment.get(2..)?;
    let mut found = Vec::new();
    for _ in 0..int(&mut rest)? {
        let name = split(&mut rest, 2)?;
        let name = split(&mut rest, u16::from_be_bytes(name.try_into().ok()?).into())?;
        for _ in 0..int(&mut rest)? {
            let partition = int(&mut rest)?;
            if name == topic.as_bytes() {
                found.push(partition);
            }
        }
    }
    Some(found)
}

fn int(rest: &mut &[u8]) -> Option<i32> {
    split(rest, 4)?.try_into().ok().map(i32::from_be_bytes)
}

fn split<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_lists_the_partitions_of_each_topic() {
        let whole = b"\0\x01\0\0\0\x02\0\x01a\0\0\0\x01\0\0\0\x07\
            \0\x02bc\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0";
        assert_eq!(partitions_of(whole, "a"), Some(vec![7]));
        assert_eq!(partitions_of(whole, "bc"), Some(vec![0, 3]));
        assert_eq!(partitions_of(whole, "b"), Some(vec![]));
        for length in 0..whole.len() - 4 {
            assert_eq!(partitions_of(&whole[..length], "a"), None, "{length} bytes");
        }
        // A member without an assignment, and counts that are larger than what follows.
        assert_eq!(partitions_of(b"", "a"), None);
        assert_eq!(partitions_of(b"\0\0\x7f\xff\xff\xff\0\0", "a"), None);
    }
}
