//! One consumer group against librdkafka's mock brokers, through hundreds of rebalances: the real
//! client, polling loop, partition workers and journal, from where preflight has ended. The mock
//! brokers answer no request that preflight makes.
//!
//! Members join, leave, crash, and freeze until the group continues without them, while the
//! coordinator of the group moves, brokers go down, and requests are refused. A crashed member
//! stops polling, and its workers write no more; its client leaves the group after
//! `max.poll.interval.ms`, as it lives in this process. In the end no record was skipped, each
//! sample is counted, and trips and dead letters are those of the literal model.
//!
//! `TSTAR_TEST_REBALANCES` is the number of rebalances; `TSTAR_TEST_MOCK_SEED` repeats the choices
//! of a run, which prints its seed.

mod checks;
mod cluster;
mod group;
mod log;
mod member;
mod round;

use std::time::Duration;

use rand::Rng;

use crate::counts;
use crate::support::{Dice, times};

/// Time in which the member joins the group, and fails to find a leader.
const LEADERLESS: Duration = Duration::from_secs(10);

#[test]
#[ignore = "the mock brokers abort in some runs: rdkafka_mock_cgrp.c, `!member->resp`"]
fn a_group_that_rebalances_again_and_again_skips_nothing() {
    let seed = times("TSTAR_TEST_MOCK_SEED", rand::rng().next_u64());
    println!("TSTAR_TEST_MOCK_SEED={seed}");
    let wanted = times("TSTAR_TEST_REBALANCES", 5);
    let mut dice = Dice::new(seed);
    let cluster = cluster::Cluster::new();
    let mut group = group::Group::new(&cluster, seed);
    let rebalances = round::play(&mut group, &mut dice, wanted);
    checks::end(group);
    counts::REBALANCES.print(rebalances);
}

/// The client does not ask for the leader again by itself, and a daemon used to end after a minute.
#[test]
fn a_partition_without_a_leader_is_read_once_it_has_one() {
    let cluster = cluster::Cluster::new();
    cluster.lead(3, None);
    let mut group = group::Group::new(&cluster, 1);
    group.join(false);
    let mut has_leader = false;
    group.settle(&mut |waited| {
        if waited >= LEADERLESS && !has_leader {
            cluster.lead(3, Some(1));
            has_leader = true;
        }
    });
    assert!(has_leader, "it read a partition without a leader");
    checks::end(group);
}
