//! A partition that is revoked while paused, and assigned again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver};
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::consumer::{
    self, AssignedPartition, Assignment, ConsumerConfig, MemberSettings,
};
use tstar::internals::kafka::producer::ProducerRecord;
use tstar::internals::model::epoch::Epoch;
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::Version;

use crate::faults::until;
use crate::topic::Topic;

const RECORDS: i64 = 60_000;

/// A polling thread, and the partitions that it is assigned. It ends with `halt`.
struct Member<'scope> {
    assigned: UnboundedReceiver<AssignedPartition>,
    thread: ScopedJoinHandle<'scope, ()>,
}

fn member<'scope>(
    scope: &'scope Scope<'scope, '_>,
    topic: &Topic,
    halt: &Arc<AtomicBool>,
) -> Member<'scope> {
    let options = [("session.timeout.ms", "1500"), ("heartbeat.interval.ms", "300")];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let short = Duration::from_millis(100);
    let config = ConsumerConfig {
        brokers: Brokers::new(&topic.brokers, BTreeMap::from(options)).unwrap(),
        topic: topic.name.clone(),
        member: MemberSettings {
            revoke_timeout: short,
            drain_timeout: short,
            ..MemberSettings::new(&topic.name)
        },
        assignment: Assignment::Group { from: None },
        epoch: Epoch {
            epoch: 1,
            topic: topic.name.clone(),
            partitions: 2,
            start_offsets: BTreeMap::new(),
            base: Version(1),
            rules: Rules::default(),
            partitioner: Partitioner::None,
            topic_id: None,
            keeps_positions: false,
        },
        memory: 1 << 30,
    };
    let (to, assigned) = mpsc::unbounded_channel();
    let on_event: consumer::OnConsumerEvent = Arc::new(|event| println!("{event:?}"));
    let halt = Arc::clone(halt);
    let thread = scope.spawn(move || {
        consumer::run(&config, to, &on_event, halt, |drained| assert!(drained.is_ok()));
    });
    Member { assigned, thread }
}

/// Stops the members, also when the test fails.
struct Halt([Arc<AtomicBool>; 2]);

impl Drop for Halt {
    fn drop(&mut self) {
        self.0.iter().for_each(|halt| halt.store(true, Ordering::Release));
    }
}

#[test]
fn a_partition_that_was_paused_as_it_went_is_read_when_it_comes_back() {
    let Some(topic) = Topic::new(2) else { return };
    let record = |nth: i64| ProducerRecord {
        key: Some(nth.to_string().into()),
        value: b"{}".to_vec(),
        ..ProducerRecord::default()
    };
    topic.send(&(0..RECORDS).map(record).collect::<Vec<_>>());
    let halts = <[Arc<AtomicBool>; 2]>::default();
    std::thread::scope(|scope| {
        let _halt = Halt(halts.clone());
        let mut first = member(scope, &topic, &halts[0]);
        let mut next = |what: &str| until(what, || first.assigned.try_recv().ok());
        let both = [next("a partition"), next("the other")];
        for assigned in &both {
            // The channel is not drained, so the partition is soon paused.
            until("a full channel", || (assigned.batches.len() == 4).then_some(()));
        }
        let mut second = member(scope, &topic, &halts[1]);
        let moved = until("a partition to move", || second.assigned.try_recv().ok());
        halts[1].store(true, Ordering::Release);
        second.thread.join().unwrap();
        let mut back = next("the partition to be assigned again");
        assert_eq!(back.holding.partition(), moved.holding.partition());
        until("its records", || back.batches.try_recv().ok());
    });
}
