//! The group: its members, and whether each partition has an owner.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use tstar::internals::kafka::consumer::DrainResult;

use super::cluster::{Cluster, PARTITIONS};
use super::log::Feeding;
use super::member::{Member, Shared};

/// Time limit of a rebalance.
const LIMIT: Duration = Duration::from_secs(180);

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

pub struct Group<'a> {
    pub cluster: &'a Cluster,
    pub shared: Arc<Shared>,
    /// Until the end.
    pub feeding: Option<Feeding>,
    /// Members that poll.
    pub live: Vec<Member>,
    /// Members that crashed, or are frozen.
    pub silent: Vec<Member>,
    /// Members that leave.
    pub leaving: Vec<Member>,
    started: usize,
    runtime: Runtime,
}

impl<'a> Group<'a> {
    pub fn new(cluster: &'a Cluster, seed: u64) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Self {
            cluster,
            shared: Shared::new(),
            feeding: Some(Feeding::start(cluster, seed)),
            live: Vec::new(),
            silent: Vec::new(),
            leaving: Vec::new(),
            started: 0,
            runtime: runtime.unwrap(),
        }
    }

    pub fn join(&mut self, is_static: bool) {
        self.started += 1;
        let id = self.started;
        let instance = is_static.then(|| format!("instance-{id}"));
        let addresses = &self.cluster.addresses;
        let member = Member::start((id, instance), addresses, &self.shared, self.runtime.handle());
        self.live.push(member);
    }

    pub fn leave(&mut self, nth: usize) {
        let member = self.live.remove(nth);
        println!("member {} leaves", member.id);
        member.leave();
        self.leaving.push(member);
    }

    /// A member that polls no more; also its workers stop, or they continue.
    pub fn silence(&mut self, nth: usize, is_crash: bool) {
        let member = self.live.remove(nth);
        println!("member {} {}", member.id, if is_crash { "crashes" } else { "freezes" });
        if is_crash {
            member.crash()
        } else {
            member.freeze()
        }
        self.silent.push(member);
    }

    /// Whether each partition has one owner, and each member its share.
    fn is_settled(&self) -> bool {
        let held: Vec<_> = self.live.iter().map(Member::held).collect();
        let least = PARTITIONS as usize / self.live.len();
        let is_fair = held.iter().all(|held| held.len() == least || held.len() == least + 1);
        let mut all: Vec<_> = held.into_iter().flatten().collect();
        all.sort_unstable();
        is_fair && all.into_iter().eq(0..PARTITIONS)
    }

    /// Waits until a condition is met; `meanwhile` is called with the time waited.
    pub fn until(
        &mut self,
        what: &str,
        meanwhile: &mut dyn FnMut(Duration),
        is_so: impl Fn(&Self) -> bool,
    ) {
        let began = Instant::now();
        while !is_so(self) {
            self.check_members();
            meanwhile(began.elapsed());
            assert!(began.elapsed() < LIMIT, "waited too long until {what}: {}", self.shown());
            std::thread::park_timeout(PAUSE);
        }
    }

    /// Waits until each partition has one owner.
    pub fn settle(&mut self, meanwhile: &mut dyn FnMut(Duration)) {
        self.until("each partition has its owner", meanwhile, Self::is_settled);
    }

    /// No member ends by itself.
    fn check_members(&mut self) {
        if let Some(nth) = self.live.iter().position(Member::is_gone) {
            let member = self.live.remove(nth);
            let id = member.id;
            panic!("member {id} ended: {:?}", member.result());
        }
    }

    fn shown(&self) -> String {
        let held: Vec<_> = self.live.iter().map(|of| (of.id, of.held())).collect();
        format!("{held:?}, {} silent, {} leave", self.silent.len(), self.leaving.len())
    }

    /// Takes those that have left. Returns how many had stored all that they had read.
    pub fn take_gone(&mut self) -> usize {
        self.until("those that leave are gone", &mut |_| (), |group| {
            group.leaving.iter().all(Member::is_gone)
        });
        let results = self.leaving.drain(..).map(|member| member.result().unwrap());
        results.filter(|of| *of == DrainResult::All).count()
    }

    /// No partition is committed further than its workers have acknowledged.
    pub fn check_commits(&self) {
        let Some(committed) = self.cluster.committed() else { return };
        for (partition, offset) in committed {
            let seen = self.shared.seen();
            let of = seen.handles.iter().filter(|(handle, _)| handle.partition() == partition);
            let acknowledged = of.map(|(handle, _)| handle.acknowledged().get()).max();
            assert!(
                acknowledged.is_some_and(|acknowledged| offset <= acknowledged),
                "partition {partition}: committed {offset}, acknowledged {acknowledged:?}"
            );
        }
    }
}
