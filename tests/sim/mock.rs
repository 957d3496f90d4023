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
//! `TSTAR_TEST_REBALANCES` is the number of rebalances. The mock brokers abort now and then, and
//! then all their records are gone: so each few rebalances are a run in a process of its own, which
//! counts only if it ends. `TSTAR_TEST_MOCK_SEED` repeats the choices of a run, which prints its
//! seed.

mod checks;
mod cluster;
mod group;
mod log;
mod member;
mod round;

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::time::Duration;

use rand::Rng;

use crate::counts;
use crate::support::{Dice, times};

/// Time in which the member joins the group, and fails to find a leader.
const LEADERLESS: Duration = Duration::from_secs(10);

/// Most rebalances of one run.
const OF_ONE_RUN: u64 = 20;

/// What the mock brokers print as they abort: they have two answers for a member.
const ABORTED: &str = "rdkafka_mock_cgrp.c";

const SIGABRT: i32 = 6;

#[test]
#[ignore = "at night: tests/nightly/long"]
fn a_group_that_rebalances_again_and_again_skips_nothing() {
    let wanted = times("TSTAR_TEST_REBALANCES", 5);
    let (mut rebalances, mut aborted) = (0, 0);
    while rebalances < wanted {
        let mut run = Command::new(std::env::current_exe().unwrap());
        run.args(["--ignored", "--exact", "--nocapture", "mock::one_run"]);
        let of_run = OF_ONE_RUN.min(wanted - rebalances);
        run.env("TSTAR_TEST_REBALANCES", of_run.to_string());
        let run = run.output().unwrap();
        let said = [run.stdout, run.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        // Marked, so that its results are not taken for those of this process.
        said[0].lines().for_each(|line| println!("> {line}"));
        let counted = said[0].lines().find_map(|line| line.strip_prefix(COUNTED)?.parse().ok());
        match (run.status.success(), counted) {
            (true, Some(count)) => rebalances += u64::max(count, 1),
            _ if run.status.signal() == Some(SIGABRT) && said[1].contains(ABORTED) => aborted += 1,
            _ => panic!("a run failed with {}: {}", run.status, said[1]),
        }
        // Two runs of three may. If more do, a change of ours makes them abort.
        assert!(aborted * OF_ONE_RUN <= 2 * wanted + 4 * OF_ONE_RUN, "{aborted} aborts");
    }
    println!("the mock brokers aborted in {aborted} other runs");
    counts::REBALANCES.print(rebalances);
}

/// What a run prints before the number of its rebalances.
const COUNTED: &str = "rebalances of the run: ";

#[test]
#[ignore = "a run of the test above"]
fn one_run() {
    let seed = times("TSTAR_TEST_MOCK_SEED", rand::rng().next_u64());
    println!("TSTAR_TEST_MOCK_SEED={seed}");
    let wanted = times("TSTAR_TEST_REBALANCES", 5);
    let mut dice = Dice::new(seed);
    let cluster = cluster::Cluster::new();
    let mut group = group::Group::new(&cluster, seed);
    let rebalances = round::play(&mut group, &mut dice, wanted);
    checks::end(group);
    println!("{COUNTED}{rebalances}");
}

/// The client does not ask for the leader again by itself, and a daemon used to end after a minute.
#[test]
#[ignore = "at night: tests/nightly/long"]
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
