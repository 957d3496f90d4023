//! SIGINT and SIGTERM: the first requests a stop, the second stops at once. SIGXFSZ stops nothing.

use std::sync::Arc;

use signal_hook::consts::signal::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use tokio::sync::watch;

use super::exit;
use crate::ops::{Cancel, PartialResult};

/// Base of the exit codes of signals: the number of the signal is added to it.
const SIGNALLED: i32 = 128;

/// Starts a thread that listens for signals: the program may be busy when one arrives. `partial`
/// is the state of the command's work after a stop.
///
/// # Errors
/// The system cannot install the handler or start the thread.
pub fn on_signals(partial: PartialResult) -> std::io::Result<Cancel> {
    let (sender, signal) = watch::channel(None);
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let listen = move || {
        for signal in signals.forever() {
            if sender.send_replace(Some(signal)).is_some() {
                std::process::exit(SIGNALLED + signal);
            }
            // Printed at once: storing may take a while.
            exit::print_status(match partial {
                PartialResult::Nothing | PartialResult::Repaired | PartialResult::Sent => {
                    "stopping; a second signal stops at once"
                }
                _ => "stopping: storing what was read; a second signal aborts",
            });
        }
    };
    std::thread::Builder::new().name("tstar-signals".into()).spawn(listen)?;
    Ok(Cancel::new(signal))
}

/// Makes a write beyond the system's limit on file sizes fail with an error, as one on a full disk
/// does. By default, SIGXFSZ ends the program without a word.
///
/// # Errors
/// The system cannot install the handler.
pub fn ignore_size_limit() -> std::io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(|_| ())
}
