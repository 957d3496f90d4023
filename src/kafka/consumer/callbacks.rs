//! What librdkafka calls while it is polled.

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, ConsumerContext};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};

use super::rebalance::RebalanceContext;
use super::{Assignment, ConsumerEvent, statistics};
use crate::kafka::rights::Right;

impl ClientContext for RebalanceContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // The client reports the reason of a failed asynchronous commit only in its log.
        if level as i32 <= RDKafkaLogLevel::Error as i32 || facility == "COMMITFAIL" {
            self.warn(self.config.brokers.without_secrets(message));
        }
    }

    fn stats_raw(&self, statistics: &[u8]) {
        self.observe(statistics::read(statistics, &self.config.topic));
    }

    fn error(&self, error: ClientError, reason: &str) {
        let code = error.rdkafka_error_code();
        // Who reads without the group needs no right on it.
        if code == Some(RDKafkaErrorCode::GroupAuthorizationFailed)
            && matches!(self.config.assignment, Assignment::Group { .. })
        {
            let rights = [Right::group("Read", &self.config.member.group)];
            let denied = code.and_then(|code| self.config.brokers.denied(&rights, code));
            if let Some(denied) = denied {
                return (self.on_event)(ConsumerEvent::Denied(denied.to_string()));
            }
        }
        // librdkafka treats the end of a partition as an error; the poll handles it.
        if code != Some(RDKafkaErrorCode::PartitionEOF) {
            self.warn(self.config.brokers.without_secrets(&format!("{error}: {reason}")));
        }
    }
}

impl ConsumerContext for RebalanceContext {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        err: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let partitions: Vec<i32> = list.elements().iter().map(|it| it.partition()).collect();
        let is_assigned = err == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        self.rebalanced(consumer, is_assigned, &partitions);
    }
}
