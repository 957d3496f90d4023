//! How a use case is stopped by a signal, and what it has done until then.

use std::fmt;
use std::future::Future;

use tokio::sync::watch;

/// Number of the signal SIGINT.
const SIGINT: i32 = 2;

/// State of the work of a use case that stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialResult {
    /// Everything that was read is stored.
    Read,
    /// Part of what was read is stored.
    Part,
    /// What was sent is recorded.
    Sent,
    /// Nothing is changed: the use case only reads.
    Nothing,
    /// Rows that were repaired stay repaired.
    Repaired,
}

impl fmt::Display for PartialResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "what was read is stored; rerun to continue",
            Self::Part => "part of what was read is stored; rerun to continue",
            Self::Sent => "what was sent is recorded; rerun to continue",
            Self::Nothing => "nothing was changed; rerun to start over",
            Self::Repaired => "what was repaired stays repaired; rerun for the rest",
        })
    }
}

/// A signal ended a use case before its end.
#[derive(Debug, thiserror::Error)]
#[error("stopped by {}; {partial}", if *signal == SIGINT { "SIGINT" } else { "SIGTERM" })]
pub struct Stopped {
    /// SIGINT or SIGTERM.
    pub signal: i32,
    /// State of its work.
    pub partial: PartialResult,
}

/// A request to stop, as a signal makes it.
#[derive(Clone, Debug)]
pub struct Cancel {
    signal: watch::Receiver<Option<i32>>,
}

impl Cancel {
    /// The request is made once the channel holds a signal number.
    #[must_use]
    pub fn new(signal: watch::Receiver<Option<i32>>) -> Self {
        Self { signal }
    }

    /// No request is made.
    #[must_use]
    pub fn never() -> Self {
        Self::new(watch::channel(None).1)
    }

    /// The signal that arrived, if one did.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        *self.signal.borrow()
    }

    /// Waits for a signal.
    pub async fn wait(&mut self) {
        if self.signal.wait_for(Option::is_some).await.is_err() {
            // The sender was dropped, so no signal will arrive.
            std::future::pending::<()>().await;
        }
    }

    /// Waits for the end of some work, unless a signal arrives first.
    ///
    /// # Errors
    /// A signal arrived.
    pub(crate) async fn unless_stopped<T>(
        &mut self,
        partial: PartialResult,
        work: impl Future<Output = T>,
    ) -> Result<T, Stopped> {
        tokio::select! {
            biased;
            () = self.wait() => Err(self.stopped(partial).expect("a signal has arrived")),
            result = work => Ok(result),
        }
    }

    /// The error of a use case that a signal stopped; `None` if none arrived.
    #[must_use]
    pub fn stopped(&self, partial: PartialResult) -> Option<Stopped> {
        self.signal().map(|signal| Stopped { signal, partial })
    }
}

/// Receives lines for the operator while a use case runs.
pub type Notify = std::sync::Arc<dyn Fn(&str) + Send + Sync>;

/// Starts to listen for signals. A use case calls it once it has work to preserve; until then a
/// signal ends the process at once.
pub(crate) type SignalListener<'a> = &'a (dyn Fn(PartialResult) -> std::io::Result<Cancel> + Sync);
