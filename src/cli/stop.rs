//! SIGINT and SIGTERM: the first requests a stop, the second stops at once. SIGXFSZ stops nothing.

use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::signal::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use tokio::sync::watch;

use super::exit;
use crate::ops::{Cancel, PartialResult};

/// Base of the exit codes of signals: the number of the signal is added to it.
const SIGNALLED: i32 = 128;

/// The work that a signal stops: the newest.
static STOPPABLE: Mutex<Option<Stoppable>> = Mutex::new(None);

/// Work that a signal asks to stop.
struct Stoppable {
    signal: watch::Sender<Option<i32>>,
    partial: PartialResult,
}

impl Stoppable {
    /// Requests the stop, and prints that first: the process may end at once. False if it was
    /// requested before.
    fn stop(&self, signal: i32, print: impl FnOnce(&str)) -> bool {
        if self.signal.borrow().is_some() {
            return false;
        }
        print(match self.partial {
            PartialResult::Nothing | PartialResult::Repaired | PartialResult::Sent => {
                "stopping; a second signal stops at once"
            }
            _ => "stopping: storing what was read; a second signal aborts",
        });
        self.signal.send_replace(Some(signal));
        true
    }
}

/// Lets signals stop the work that begins now. A thread listens for them: the program may be busy
/// when one arrives. `partial` is the state of the work after a stop.
///
/// # Errors
/// The system cannot install the handler or start the thread.
pub(crate) fn on_signals(partial: PartialResult) -> std::io::Result<Cancel> {
    let (sender, signal) = watch::channel(None);
    let newest = Some(Stoppable { signal: sender, partial });
    let mut stoppable = STOPPABLE.lock().unwrap_or_else(PoisonError::into_inner);
    // One thread listens for all work of the process, such as the import of the demo and its page.
    if stoppable.is_none() {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let listen = move || signals.forever().for_each(stop);
        std::thread::Builder::new().name("tstar-signals".into()).spawn(listen)?;
    }
    *stoppable = newest;
    Ok(Cancel::new(signal))
}

fn stop(signal: i32) {
    let stoppable = STOPPABLE.lock().unwrap_or_else(PoisonError::into_inner);
    if !stoppable.as_ref().is_some_and(|work| work.stop(signal, exit::print_status)) {
        std::process::exit(SIGNALLED + signal);
    }
}

/// Makes a write beyond the system's limit on file sizes fail with an error, as one on a full disk
/// does. By default, SIGXFSZ ends the program without a word.
///
/// # Errors
/// The system cannot install the handler.
pub(crate) fn ignore_size_limit() -> std::io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_signal_ends_the_process() {
        let begin = |partial| {
            let (sender, signal) = watch::channel(None);
            (Stoppable { signal: sender, partial }, Cancel::new(signal))
        };
        let stops = |work: &Stoppable, cancel: &Cancel, signal, words: &str| {
            let print = |line: &str| {
                assert!(line.contains(words), "{line}");
                assert_eq!(cancel.signal(), None, "it is printed before the work may end");
            };
            let stopped = work.stop(signal, print);
            assert_eq!(cancel.signal(), Some(signal));
            stopped
        };
        let (import, cancel) = begin(PartialResult::Read);
        assert!(stops(&import, &cancel, SIGINT, "storing what was read"));
        assert!(!stops(&import, &cancel, SIGINT, "nothing"));
        let (page, cancel) = begin(PartialResult::Nothing);
        assert!(stops(&page, &cancel, SIGTERM, "stopping; a second signal stops at once"));
    }
}
