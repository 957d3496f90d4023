//! Rounds: members change, something is done to the brokers, and the group settles.

use std::collections::BTreeMap;
use std::time::Duration;

use super::cluster::Fault;
use super::group::Group;
use super::member::Member;
use crate::support::Dice;

const MAX_MEMBERS: usize = 4;

/// How long the brokers are disturbed, unless the group settles before.
const DISTURBED_MS: [i64; 2] = [200, 2_500];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Join,
    Leave,
    Crash,
    Freeze,
    /// One leaves, and another joins at once.
    Replace,
}

impl Change {
    const OF_ONE: [Self; 2] = [Self::Join, Self::Replace];
    const OF_SOME: [Self; 6] =
        [Self::Join, Self::Join, Self::Leave, Self::Crash, Self::Freeze, Self::Replace];
    const OF_MOST: [Self; 4] = [Self::Leave, Self::Crash, Self::Freeze, Self::Replace];

    fn random(members: usize, dice: &mut Dice) -> Self {
        match members {
            1 => dice.one_of(&Self::OF_ONE),
            MAX_MEMBERS => dice.one_of(&Self::OF_MOST),
            _ => dice.one_of(&Self::OF_SOME),
        }
    }

    fn carry_out(self, group: &mut Group<'_>, dice: &mut Dice) {
        let nth = dice.below(group.live.len());
        match self {
            Self::Join => group.join(dice.percent(25)),
            Self::Leave => group.leave(nth),
            Self::Crash | Self::Freeze => group.silence(nth, self == Self::Crash),
            Self::Replace => {
                group.leave(nth);
                group.join(false);
            }
        }
    }
}

/// Plays rounds until the group has rebalanced so often. Returns the number of rebalances.
pub fn play(group: &mut Group<'_>, dice: &mut Dice, wanted: u64) -> u64 {
    group.join(false);
    group.settle(&mut |_| ());
    let (mut rebalances, mut clean, mut left) = (0, 0, 0);
    let (mut changes, mut faults) = (BTreeMap::new(), BTreeMap::new());
    while rebalances < wanted {
        let change = Change::random(group.live.len(), dice);
        let all = [Fault::CoordinatorMoves, Fault::BrokerDown, Fault::Refusals];
        let fault = dice.percent(70).then(|| dice.one_of(&all));
        println!("{rebalances}: {change:?}, {fault:?}");
        let before = events(group);
        change.carry_out(group, dice);
        settle_under(group, fault, dice);
        rebalances += u64::from(events(group) > before);
        *changes.entry(change).or_insert(0) += 1;
        fault.into_iter().for_each(|fault| *faults.entry(fault).or_insert(0) += 1);
        left += group.leaving.len();
        clean += group.take_gone();
        if change == Change::Freeze {
            // It finds out that it has lost its partitions, and joins again.
            let before = events(group);
            let member = group.silent.pop().expect("it is frozen");
            println!("member {} wakes", member.id);
            member.wake();
            group.live.push(member);
            group.settle(&mut |_| ());
            rebalances += u64::from(events(group) > before);
        }
        group.silent.drain(..).for_each(Member::close);
        group.check_commits();
    }
    println!("{changes:?}, {faults:?}; {clean} of {left} left with everything stored");
    rebalances
}

/// Waits until the group has settled, and disturbs the brokers meanwhile.
fn settle_under(group: &mut Group<'_>, fault: Option<Fault>, dice: &mut Dice) {
    let cluster = group.cluster;
    if let Some(fault) = fault {
        cluster.disturb(fault, dice);
    }
    let [least, most] = DISTURBED_MS;
    let heals_after = Duration::from_millis(dice.between(least, most) as u64);
    let mut is_disturbed = fault.is_some();
    group.settle(&mut |waited| {
        if is_disturbed && waited >= heals_after {
            cluster.heal();
            is_disturbed = false;
        }
    });
    cluster.heal();
    // What was disturbed last may have taken partitions away again.
    group.settle(&mut |_| ());
}

/// Number of assignments, revocations and losses.
fn events(group: &Group<'_>) -> u64 {
    let seen = group.shared.seen();
    seen.events.iter().filter(|(what, _)| **what != "warnings").map(|(_, count)| count).sum()
}
