//! Ctrl-C and SIGTERM: the first asks to stop, the second stops.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::watch;

use super::exit::{self, PartialResult};

/// What an exit code adds to the number of the signal.
const SIGNALLED: i32 = 128;

/// Tells whether a signal asked the program to stop.
#[derive(Clone)]
pub struct Stop {
    signal: watch::Receiver<Option<i32>>,
}

impl Stop {
    /// Listens from now on, on a thread of its own: the program may be busy when a signal comes.
    ///
    /// # Errors
    /// The system refuses a handler or a thread.
    pub fn on_signals() -> std::io::Result<Self> {
        Self::on_signals_of(PartialResult::Read)
    }

    /// [`Stop::on_signals`] for a command of which this stays when it is stopped.
    ///
    /// # Errors
    /// Those of [`Stop::on_signals`].
    pub fn on_signals_of(stays: PartialResult) -> std::io::Result<Self> {
        let (sender, signal) = watch::channel(None);
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let listen = move || {
            for signal in signals.forever() {
                if sender.send_replace(Some(signal)).is_some() {
                    std::process::exit(SIGNALLED + signal);
                }
                // At once: storing may take a while, and may have begun.
                exit::print_status(match stays {
                    PartialResult::Nothing | PartialResult::Mended | PartialResult::Sent => {
                        "stopping; a second signal does at once"
                    }
                    _ => "stopping: what was read is being stored; a second signal gives it up",
                });
            }
        };
        std::thread::Builder::new().name("tstar-signals".into()).spawn(listen)?;
        Ok(Self { signal })
    }

    /// The signal that came, if one did.
    pub fn asked(&self) -> Option<i32> {
        *self.signal.borrow()
    }

    /// Waits for a signal.
    pub async fn wait(&mut self) {
        if self.signal.wait_for(Option::is_some).await.is_err() {
            // Nobody listens any more, so none will come.
            std::future::pending::<()>().await;
        }
    }
}
