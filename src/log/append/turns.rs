//! Turns of the requests that write to a file, which has one writer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as SyncMutex};

use tokio::sync::{Mutex, OwnedMutexGuard};

/// The requests of one sender wait for each other first: however many there are, a request of
/// another sender waits for one of them.
#[derive(Debug, Default)]
pub(super) struct Turns {
    file: Arc<Mutex<()>>,
    /// The turns of each sender with a request.
    senders: SyncMutex<HashMap<String, Arc<Mutex<()>>>>,
}

/// The turn of a request, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _file: OwnedMutexGuard<()>,
    _sender: OwnedMutexGuard<()>,
}

impl Turns {
    /// Waits for the turn of a request.
    pub(crate) async fn wait(&self, sender: &str) -> Turn {
        let own = {
            let mut senders = self.senders.lock().expect("no holder of the lock panics");
            // Who holds or awaits a turn has a reference.
            senders.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(senders.entry(sender.to_owned()).or_default())
        };
        let sender = own.lock_owned().await;
        Turn { _file: Arc::clone(&self.file).lock_owned().await, _sender: sender }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_sender_with_many_requests_delays_another_one_by_one_turn() {
        let turns = Turns::default();
        let first = turns.wait("a").await;
        let mut more: Vec<_> = (0..9).map(|_| Box::pin(turns.wait("a"))).collect();
        assert!(more.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()));
        let mut other = Box::pin(turns.wait("b"));
        assert!(other.as_mut().now_or_never().is_none());
        drop(first);
        // The next one of `a` is behind that of `b`.
        assert!(more[0].as_mut().now_or_never().is_none());
        let other = other.now_or_never().expect("its turn");
        assert!(more.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()));
        drop(other);
        let next = more[0].as_mut().now_or_never().expect("its turn");
        drop((next, more));
        drop(turns.wait("c").await);
        assert_eq!(turns.senders.lock().unwrap().len(), 1, "nothing is kept of those before");
    }
}
