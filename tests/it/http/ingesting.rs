//! Hostile requests and slow clients while the daemon ingests: everything is read, lookups are
//! answered, and what they and the ingestion cost is printed, calm and abused.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Server;
use super::storm::{Bodies, SENDERS, cpu, seed, send, slow};
use crate::cli::Folder;
use crate::faults::until;
use crate::topic::file::until_read;
use crate::topic::{PARTITIONS, Topic};

/// Records that arrive in each phase.
const RECORDS: usize = 15_000;

/// Clients that start a request and do not continue.
const SLOW: u64 = 40;

/// Phases with abuse until a request was rejected.
const AT_MOST: usize = 4;

/// Pause between two lookups.
const PAUSE: Duration = Duration::from_millis(2);

const SECRET: &str = "correct-horse-battery";

/// What a phase showed.
struct Phase {
    /// Latencies of lookups that were answered, ascending.
    lookups: Vec<Duration>,
    /// Lookups that were rejected as too many.
    rejected: u64,
    /// Responses to hostile requests.
    hostile: u64,
    /// CPU time of the daemon, s.
    cpu: f64,
    took: Duration,
}

impl Phase {
    fn describe(&self, name: &str) -> String {
        let at = |share: usize| self.lookups[(self.lookups.len() - 1) * share / 100];
        format!(
            "{name}: {RECORDS} records in {:.1?}, {:.2} s of CPU; {} lookups, half within {:.1?}, \
             99 % within {:.1?}, {} rejected; {} hostile requests answered",
            self.took,
            self.cpu,
            self.lookups.len(),
            at(50),
            at(99),
            self.rejected,
            self.hostile
        )
    }
}

/// A daemon, its topic and its file.
struct Site {
    topic: Topic,
    folder: Folder,
    server: Server,
}

impl Site {
    /// One lookup: whether it was answered, or rejected as one too many.
    fn looks_up(&self) -> bool {
        let bearer = format!("authorization: Bearer {SECRET}\r\n");
        let target = "/v1/trips/lookup?device=truck-1&at=2025-01-01T00:30:00Z";
        let answer = self.server.request("GET", target, &bearer, b"");
        if answer.status == 503 {
            answer.fails(503, "busy");
            return false;
        }
        assert!(matches!(answer.status, 200 | 404), "{answer:?}");
        true
    }

    /// Looks up one time repeatedly, until `is_over`.
    fn lookups(&self, is_over: &AtomicBool) -> (Vec<Duration>, u64) {
        let (mut lookups, mut rejected) = (Vec::new(), 0);
        while !is_over.load(Ordering::Relaxed) || lookups.is_empty() {
            let began = Instant::now();
            if self.looks_up() {
                lookups.push(began.elapsed());
            } else {
                rejected += 1;
            }
            // Leave the processor to the daemon.
            std::thread::park_timeout(PAUSE);
        }
        lookups.sort_unstable();
        (lookups, rejected)
    }

    /// Sends lines, and waits until they are read, while clients ask and others abuse.
    fn phase(&self, lines: &[u8], bodies: Option<&Bodies>) -> Phase {
        let (is_over, hostile) = (AtomicBool::new(false), AtomicU64::new(0));
        let left = AtomicU64::new(if bodies.is_some() { u64::MAX } else { 0 });
        let held: Vec<_> = (0..SLOW).filter(|_| bodies.is_some()).collect();
        let held: Vec<_> = held.into_iter().map(|nth| slow(&self.server, nth)).collect();
        let (before, began) = (cpu(&self.server), Instant::now());
        let ended = |took: Duration| (took, cpu(&self.server) - before);
        let ((lookups, rejected), (took, cpu)) = std::thread::scope(|scope| {
            let _over = Over { is_over: &is_over, left: &left };
            let asking = scope.spawn(|| self.lookups(&is_over));
            for nth in 0..SENDERS {
                let (server, left, hostile) = (&self.server, &left, &hostile);
                let Some(bodies) = bodies else { break };
                scope.spawn(move || send(server, bodies, seed() + nth, left, hostile));
            }
            self.topic.send_lines(lines, "no-device");
            until_read(&self.folder, "t.db", &self.topic);
            let ended = ended(began.elapsed());
            is_over.store(true, Ordering::Relaxed);
            left.store(0, Ordering::Relaxed);
            (asking.join().unwrap(), ended)
        });
        drop(held);
        Phase { lookups, rejected, hostile: hostile.into_inner(), cpu, took }
    }
}

/// Ends the other threads, also when this one fails.
struct Over<'a> {
    is_over: &'a AtomicBool,
    left: &'a AtomicU64,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
    }
}

#[test]
fn abuse_keeps_no_sample_from_being_read() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = Folder::new();
    folder.write("token", format!("ops:read,write:{SECRET}"));
    println!("hostile requests of seeds from {}", seed());
    let fleet = format!(
        "simulate --mix 46,34,19,1 --devices 20 --samples {} --seed 5",
        (AT_MOST + 1) * RECORDS
    );
    let log = folder.run(&fleet).ends(0).stdout;
    let lines: Vec<&[u8]> = log.split_inclusive(|&byte| byte == b'\n').collect();
    let words = format!(
        "run {} --store sqlite:t.db --from earliest --token-file token --max-requests 2 \
         --flush-interval 100ms --max-staleness 1s",
        topic.flags()
    );
    let server = Server::start(&folder, &words);
    until("the daemon to be ready", || (server.get("/readyz").status == 200).then_some(()));
    let site = Site { topic, folder, server };
    let mut parts = lines.chunks(RECORDS).map(<[&[u8]]>::concat);
    println!("{}", site.phase(&parts.next().unwrap(), None).describe("calm"));
    let bodies = Bodies::new();
    let seen = parts.find_map(|lines| {
        let abused = site.phase(&lines, Some(&bodies));
        println!("{}", abused.describe("abused"));
        (abused.hostile > 0 && abused.rejected > 0).then_some(())
    });
    assert_eq!(seen, Some(()), "no lookup was rejected");
    until("an answer", || site.looks_up().then_some(()));
    assert!(!site.server.said().contains("internal error"), "{}", site.server.said());
    site.server.drain();
}
