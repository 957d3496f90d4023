//! Tests of what a member answers to rebalances.

use std::rc::Rc;

use rdkafka::types::RDKafkaErrorCode;

use super::super::DrainResult;
use super::super::group_fixture::{DRAIN_TIMEOUT, FakeGroup, REVOKE_TIMEOUT};
use super::super::poller::Poller;
use super::*;
use crate::kafka::topics::StartFrom;

#[test]
fn a_partition_is_read_from_where_the_group_is_until_it_is_revoked() {
    let mut group = FakeGroup::new(None);
    group.committed.insert(1, 150);
    group.context().rebalanced(&group, true, &[0, 1]);
    let asked = ["committed [0, 1]", "extent 0", "extent 1", "assign [(0, 100), (1, 150)]"];
    assert_eq!(group.take_asked(), asked);
    let workers: Vec<_> = std::iter::from_fn(|| group.assigned.try_recv().ok()).collect();
    assert_eq!(workers.len(), 2);
    workers[1].holding.acknowledge(Offset(160));
    group.context().rebalanced(&group, false, &[1]);
    assert_eq!(group.take_asked(), ["commit [(1, 160)]", "unassign [1]"]);
    assert!(group.context().fault().is_ok());
}

#[test]
fn a_member_that_leaves_accepts_no_partition_and_sends_no_request() {
    let mut group = FakeGroup::new(None);
    group.context().rebalanced(&group, true, &[0]);
    group.take_asked();
    assert_eq!(group.context().close_all(), [0]);
    // librdkafka waits for the answer to a rebalance, and fails requests while it closes.
    group.context().rebalanced(&group, true, &[1]);
    assert_eq!(group.take_asked(), ["assign []"]);
    group.context().rebalanced(&group, false, &[0, 1]);
    assert_eq!(group.take_asked(), ["commit [(0, 100)]", "unassign [0]"]);
    assert!(group.assigned.try_recv().is_ok());
    assert!(group.assigned.try_recv().is_err(), "no worker reads partition 1");
    assert!(group.context().fault().is_ok());
}

#[test]
fn a_member_whose_reading_ended_sends_no_request() {
    let group = Rc::new(FakeGroup::new(None));
    let mut poller = Poller::new(Rc::clone(&group));
    // Its topic has a partition that the epoch lacks.
    group.context().rebalanced(&*group, true, &[2]);
    let error = poller.step(false).unwrap_err().to_string();
    assert!(error.contains("now has partition 2"), "{error}");
    group.take_asked();
    // As the client does while it is dropped.
    group.context().rebalanced(&*group, false, &[2]);
    assert_eq!(group.take_asked(), ["unassign []"]);
    group.context().rebalanced(&*group, true, &[0]);
    assert_eq!(group.take_asked(), ["assign []"]);
}

#[test]
fn a_member_that_is_to_stop_does_not_wait_for_brokers() {
    let mut group = FakeGroup::new(None);
    group.is_away.set(true);
    group.context().rebalanced(&group, true, &[0]);
    assert_eq!(group.take_asked(), ["committed [0]", "committed [0]", "assign []"]);
    assert!(group.context().fault().is_ok(), "it stops, and nothing failed");
    assert!(group.assigned.try_recv().is_err());
}

#[test]
fn a_start_that_the_group_refuses_is_not_committed_again() {
    let mut group = FakeGroup::new(Some(StartFrom::Latest));
    group.committed.insert(0, 120);
    group.committed.insert(1, 20);
    group.refusal.set(Some(RDKafkaErrorCode::IllegalGeneration));
    group.context().rebalanced(&group, true, &[0, 1]);
    let asked = ["committed [0, 1]", "extent 0", "extent 1", "commit [(1, 200)]", "assign []"];
    assert_eq!(group.take_asked(), asked, "librdkafka waits for the answer, and would not close");
    let error = group.context().fault().unwrap_err().to_string();
    assert!(error.contains("committing where to start"), "{error}");
}

#[test]
fn a_commit_waits_for_the_brokers_no_longer_than_the_limit() {
    let mut group = FakeGroup::new(None);
    group.committed.insert(1, 150);
    group.context().rebalanced(&group, true, &[0, 1]);
    let workers: Vec<_> = std::iter::from_fn(|| group.assigned.try_recv().ok()).collect();
    let commit_by = |group: &FakeGroup| group.commit_by.take().unwrap();
    let began = Instant::now();
    group.context().rebalanced(&group, false, &[1]);
    let limits = began + REVOKE_TIMEOUT..=Instant::now() + REVOKE_TIMEOUT;
    assert!(limits.contains(&commit_by(&group)));

    // No answer: others have to join the group before.
    group.refusal.set(Some(RDKafkaErrorCode::OperationTimedOut));
    let group = Rc::new(group);
    let (mut poller, began) = (Poller::new(Rc::clone(&group)), Instant::now());
    assert_eq!(poller.step(true).unwrap(), None);
    let limits = began + DRAIN_TIMEOUT..=Instant::now() + DRAIN_TIMEOUT;
    workers[0].holding.acknowledge(Offset(160));
    workers[0].holding.end(WorkerExit::Drained);
    assert_eq!(poller.step(true).unwrap(), None);
    assert!(limits.contains(&commit_by(&group)));
    group.refusal.set(None);
    assert_eq!(poller.step(true).unwrap(), Some(DrainResult::All));
    assert!(limits.contains(&commit_by(&group)));
}
