//! A simulated broker: the partitions of the input topic, and the coordinator of the group.
//!
//! It follows Kafka's classic protocol: a rebalance completes once all members have joined again,
//! a member that is silent loses its place, and a commit counts only with a member id and a
//! generation that are current.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tstar::internals::kafka::consumer::statistics::{End, PartitionStats};

use super::world::{Dice, World};

/// A partition of the input topic.
#[derive(Debug, Default)]
pub struct Lane {
    pub partition: i32,
    /// Number of records that are written.
    pub written: usize,
    /// The first offset that has not expired.
    pub first: i64,
    /// Number of records before the last one that anyone has fetched, and it.
    pub fetched: usize,
    /// The highest number of records that a commit has passed.
    pub passed: usize,
    /// The offset of the group.
    pub committed: Option<i64>,
}

/// A member of the group, as the coordinator knows it.
#[derive(Debug)]
pub struct Member {
    pub process: usize,
    /// Its static id.
    instance: Option<usize>,
    /// It has joined the rebalance that is under way.
    has_joined: bool,
    /// What it held when it joined.
    claimed: BTreeSet<i32>,
    /// What the last rebalance gave it.
    given: BTreeSet<i32>,
}

/// The coordinator of the group.
#[derive(Debug, Default)]
pub struct Group {
    pub is_cooperative: bool,
    pub generation: u64,
    /// A rebalance is under way.
    pub is_preparing: bool,
    pub members: BTreeMap<u64, Member>,
    pub next_member: u64,
}

impl Group {
    fn prepare(&mut self) {
        if !self.is_preparing {
            self.is_preparing = true;
            self.members.values_mut().for_each(|member| member.has_joined = false);
        }
    }

    /// A process joins; one with the static id of a member takes its place.
    fn join(&mut self, client: &mut Client, process: usize, lanes: &[Lane]) {
        let id = self.next_member;
        self.next_member += 1;
        let former = client.instance.and_then(|instance| self.of_instance(instance));
        // The former one may have been about to give a partition away, which ends with a rebalance.
        let is_owned = |lane: &Lane| self.owner(lane.partition).is_some();
        let takes_place = former.is_some() && !self.is_preparing && lanes.iter().all(is_owned);
        let former = former.and_then(|id| self.members.remove(&id));
        let given = former.map(|member| member.given).unwrap_or_default();
        if !takes_place {
            self.prepare();
        }
        let (instance, claimed) = (client.instance, BTreeSet::new());
        self.members.insert(id, Member { process, instance, has_joined: true, claimed, given });
        client.member = Some(id);
        // One that takes a place learns at once what it was given.
        client.generation = if takes_place { 0 } else { self.generation };
    }

    fn of_instance(&self, instance: usize) -> Option<u64> {
        let mut found = self.members.iter().filter(|(_, member)| member.instance == Some(instance));
        found.next().map(|(id, _)| *id)
    }

    /// A member leaves, or is silent for too long.
    pub fn remove(&mut self, member: u64) {
        self.members.remove(&member);
        self.prepare();
    }

    /// Completes the rebalance if all members have joined.
    fn complete(&mut self, lanes: &[Lane], dice: &mut Dice) {
        let all_joined = self.members.values().all(|member| member.has_joined);
        if !self.is_preparing || !all_joined || self.members.is_empty() {
            return;
        }
        self.generation += 1;
        self.is_preparing = false;
        self.members.values_mut().for_each(|member| member.given.clear());
        let ids: Vec<u64> = self.members.keys().copied().collect();
        for lane in lanes {
            let claims = |id: &&u64| self.members[*id].claimed.contains(&lane.partition);
            let holder = ids.iter().find(claims).copied();
            let target = holder.filter(|_| dice.percent(70)).unwrap_or_else(|| dice.one_of(&ids));
            // A partition that another member still holds is given in the next rebalance.
            if holder.is_none_or(|holder| holder == target) {
                let member = self.members.get_mut(&target).expect("it is a member");
                member.given.insert(lane.partition);
            }
        }
    }

    /// The process that owns a partition.
    pub fn owner(&self, partition: i32) -> Option<usize> {
        let mut owners = self.members.values().filter(|member| member.given.contains(&partition));
        owners.next().map(|member| member.process)
    }

    /// Whether a commit with this id and generation counts.
    pub fn accepts(&self, member: Option<u64>, generation: u64) -> bool {
        generation == self.generation && member.is_some_and(|id| self.members.contains_key(&id))
    }
}

/// What the client library of a process knows.
#[derive(Debug, Default)]
pub struct Client {
    pub instance: Option<usize>,
    pub member: Option<u64>,
    pub generation: u64,
    pub has_subscribed: bool,
    /// It does not hear from the coordinator.
    pub is_deaf: bool,
    pub is_lost: bool,
    /// It is about to leave the group, and gets no answers any more.
    pub is_closing: bool,
    /// The next offset of each assigned partition.
    pub fetch: BTreeMap<i32, i64>,
    /// Kept beyond the assignment.
    pub paused: BTreeSet<i32>,
    /// The committed offsets of its statistics: of the last response.
    pub known: BTreeMap<i32, i64>,
    pub statistics: VecDeque<Vec<PartitionStats>>,
    /// The rest of a rebalance.
    pub todo: VecDeque<Task>,
}

/// What a poll has to do.
#[derive(Debug)]
pub enum Task {
    Revoke(Vec<i32>),
    Assign(Vec<i32>),
    /// The assignment is lost.
    Lose(Vec<i32>),
    Rejoin,
    /// Another process has its static id.
    Fenced,
    Observe(Vec<PartitionStats>),
}

impl Client {
    fn holds(&self) -> Vec<i32> {
        self.fetch.keys().copied().collect()
    }

    /// The next event of the group.
    pub fn next_task(
        &mut self,
        process: usize,
        (group, lanes): (&mut Group, &[Lane]),
        dice: &mut Dice,
    ) -> Option<Task> {
        if !self.has_subscribed {
            return None;
        }
        let Some(id) = self.member else {
            group.join(self, process, lanes);
            group.complete(lanes, dice);
            return None;
        };
        let Some(member) = group.members.get_mut(&id) else { return self.expelled(group, dice) };
        if let Some(task) = self.todo.pop_front() {
            if matches!(task, Task::Rejoin) {
                group.prepare();
                return None;
            }
            return Some(task);
        }
        if group.is_preparing {
            if member.has_joined {
                // Another one may have lost its place since.
                group.complete(lanes, dice);
                return None;
            }
            if !dice.percent(50) {
                return None;
            }
            if !group.is_cooperative && !self.fetch.is_empty() {
                return Some(Task::Revoke(self.holds()));
            }
            (member.has_joined, member.claimed) = (true, self.fetch.keys().copied().collect());
            group.complete(lanes, dice);
            return None;
        }
        if self.generation == group.generation {
            return None;
        }
        self.generation = group.generation;
        let given = member.given.clone();
        if !group.is_cooperative {
            return Some(Task::Assign(given.into_iter().collect()));
        }
        let (held, revoked): (Vec<i32>, Vec<i32>) =
            self.holds().into_iter().partition(|of| given.contains(of));
        let added = given.into_iter().filter(|of| !held.contains(of)).collect();
        if revoked.is_empty() {
            return Some(Task::Assign(added));
        }
        self.todo.extend([Task::Assign(added), Task::Rejoin]);
        Some(Task::Revoke(revoked))
    }

    /// The coordinator has removed this member, which learns it some time later.
    fn expelled(&mut self, group: &Group, dice: &mut Dice) -> Option<Task> {
        if self.is_deaf || !dice.percent(20) {
            return None;
        }
        if self.instance.is_some_and(|instance| group.of_instance(instance).is_some()) {
            return Some(Task::Fenced);
        }
        self.member = None;
        self.todo.clear();
        (!self.fetch.is_empty()).then(|| Task::Lose(self.holds()))
    }

    /// Statistics that are due, some time after they were taken.
    pub fn statistics(&mut self, ends: &[(i32, i64)], dice: &mut Dice) -> Option<Task> {
        if dice.percent(6) {
            let stats = |&(partition, offset): &(i32, i64)| PartitionStats {
                partition,
                end: self
                    .fetch
                    .get(&partition)
                    .map(|next| End { offset, is_polled: *next >= offset }),
                committed: self.known.get(&partition).copied(),
            };
            self.statistics.push_back(ends.iter().map(stats).collect());
        }
        let is_due = self.statistics.len() > 3 || dice.percent(5);
        if is_due { self.statistics.pop_front().map(Task::Observe) } else { None }
    }
}

impl World {
    /// A process has chosen where to continue, as the records at its offset have expired. What was
    /// written since an earlier choice must not be skipped.
    pub fn choose_start(&mut self, partition: i32, next: i64) {
        self.see("starts that --from chooses");
        let lane = self.lanes.iter().position(|lane| lane.partition == partition);
        let lane = lane.expect("there is such a partition");
        let nth = self.scripts[lane].before(next);
        let was_passed = nth <= self.lanes[lane].passed;
        match &mut self.expired[lane] {
            Some((_, chosen @ None)) => *chosen = Some(nth),
            Some((_, Some(chosen))) if nth <= *chosen => (),
            _ if was_passed => (),
            _ => {
                self.bad.insert("records are skipped that came after a start was chosen");
            }
        }
    }
}
