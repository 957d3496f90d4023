//! Rights that brokers may deny, and the command that grants each.

use std::fmt;

use rdkafka::types::RDKafkaErrorCode as Code;

/// A right that a request needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// Name of the operation, as Kafka's tools spell it.
    operation: &'static str,
    on: Resource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Resource {
    Topic(String),
    Group(String),
    TransactionalId(String),
    Cluster,
}

/// Whether brokers answered that the user lacks a right.
pub(super) fn is_denial(code: Code) -> bool {
    matches!(
        code,
        Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed
            | Code::ClusterAuthorizationFailed
    )
}

impl Right {
    /// `Read`, `Write`, `Describe`, ... on a topic.
    pub(super) fn topic(operation: &'static str, name: &str) -> Self {
        Self { operation, on: Resource::Topic(name.to_owned()) }
    }

    /// `Read` or `Describe` on a consumer group.
    pub(super) fn group(operation: &'static str, name: &str) -> Self {
        Self { operation, on: Resource::Group(name.to_owned()) }
    }

    /// `Write` on a transactional id.
    pub(super) fn transactional_id(name: &str) -> Self {
        Self { operation: "Write", on: Resource::TransactionalId(name.to_owned()) }
    }

    /// Of the rights that a request needs, the one that brokers deny with this code.
    pub(super) fn denied(rights: &[Self], code: Code) -> Option<Self> {
        let is_of = |right: &&Self| {
            matches!(
                (code, &right.on),
                (Code::TopicAuthorizationFailed, Resource::Topic(_))
                    | (Code::GroupAuthorizationFailed, Resource::Group(_))
                    | (Code::TransactionalIdAuthorizationFailed, Resource::TransactionalId(_))
            )
        };
        let of_cluster = || {
            // Brokers before 2.8 have an operation of their own for what producers repeat.
            let operation = match rights.first()?.operation {
                "Write" => "IdempotentWrite",
                operation => operation,
            };
            Some(Self { operation, on: Resource::Cluster })
        };
        match code {
            Code::ClusterAuthorizationFailed => of_cluster(),
            _ => rights.iter().find(is_of).cloned(),
        }
    }

    /// The command that grants the right to a principal such as `User:tstar`.
    #[must_use]
    pub fn grant(&self, brokers: &str, principal: &str) -> String {
        let on = match &self.on {
            Resource::Topic(name) => format!("--topic {name}"),
            Resource::Group(name) => format!("--group {name}"),
            Resource::TransactionalId(name) => format!("--transactional-id {name}"),
            Resource::Cluster => "--cluster".to_owned(),
        };
        format!(
            "kafka-acls.sh --bootstrap-server {brokers} --add --allow-principal {principal} \
             --operation {} {on}",
            self.operation
        )
    }
}

/// What is denied, as part of a sentence.
impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = self.operation;
        match &self.on {
            Resource::Topic(name) if operation == "Describe" => {
                write!(f, "Describe on topic `{name}`, and do not say whether it exists,")
            }
            Resource::Topic(name) => write!(f, "{operation} on topic `{name}`"),
            Resource::Group(name) => write!(f, "{operation} on group `{name}`"),
            Resource::TransactionalId(name) => {
                write!(f, "{operation} on transactional id `{name}`")
            }
            Resource::Cluster => write!(f, "{operation} on the cluster"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_names_the_right_of_its_kind() {
        let rights = [Right::group("Describe", "tstar"), Right::topic("Describe", "samples")];
        let named = |code| Right::denied(&rights, code).map(|right| right.to_string());
        let topic = "Describe on topic `samples`, and do not say whether it exists,";
        assert_eq!(named(Code::TopicAuthorizationFailed).unwrap(), topic);
        assert_eq!(named(Code::GroupAuthorizationFailed).unwrap(), "Describe on group `tstar`");
        assert_eq!(named(Code::TransactionalIdAuthorizationFailed), None);
        let write = [Right::topic("Write", "samples.dlq")];
        let cluster = Right::denied(&write, Code::ClusterAuthorizationFailed).unwrap();
        assert_eq!(
            cluster.grant("b:1", "User:ann"),
            "kafka-acls.sh --bootstrap-server b:1 --add --allow-principal User:ann --operation \
             IdempotentWrite --cluster"
        );
        let id = Right::transactional_id("tstar-table-t-3");
        assert!(id.grant("b:1", "User:ann").ends_with("Write --transactional-id tstar-table-t-3"));
    }
}
