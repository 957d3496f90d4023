//! SIGINT and SIGTERM: the first requests a stop, the second stops at once.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::watch;
use tstar::ops::{Cancel, PartialResult};

use super::exit;

/// Added to the number of a signal in an exit code.
const SIGNALLED: i32 = 128;

/// Listens for signals from now on, on a thread of its own: the program may be busy when one
/// arrives. `partial` is what remains of the command's work then.
///
/// # Errors
/// The system refuses a handler or a thread.
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
                    "stopping; a second signal does at once"
                }
                _ => "stopping: what was read is being stored; a second signal gives it up",
            });
        }
    };
    std::thread::Builder::new().name("tstar-signals".into()).spawn(listen)?;
    Ok(Cancel::new(signal))
}
