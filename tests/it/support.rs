//! Helpers of several suites.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Runs a future of a store to its end.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

/// Sends a signal, such as `TERM`, to a process.
#[track_caller]
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.unwrap().success(), "no signal {name} to process {pid}");
}

/// How many kills a command has to survive: `TSTAR_TEST_KILLS`, or the suite's default.
pub fn kills(usual: u64) -> u64 {
    times("TSTAR_TEST_KILLS", usual)
}

/// How often something is to happen: a variable, or the suite's default.
pub fn times(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().expect(variable))
}

/// Resident memory of a process, bytes: now, `VmRSS`, or at most so far, `VmHWM`. `None` where the
/// system does not report it, and for a process that has ended.
pub fn memory(process: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let value = |line| str::strip_prefix(line, field)?.strip_prefix(':');
    let value = status.lines().find_map(value)?.trim().strip_suffix(" kB")?;
    Some(value.parse::<u64>().unwrap() << 10)
}

/// A file of `tests/data`, whose README names the sources.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Random choices that a seed decides.
pub struct Dice(ChaCha8Rng);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number in `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    /// A number in `least..=most`.
    pub fn between(&mut self, least: i64, most: i64) -> i64 {
        least + self.below((most - least) as usize + 1) as i64
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    pub fn percent(&mut self, of_hundred: usize) -> bool {
        self.below(100) < of_hundred
    }
}
