//! Values of files that are read again when they change, without a restart.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use sha2::{Digest, Sha256};

use crate::telemetry::reload_failed;
use crate::tls::Acceptor;

/// The certificate of a server, with what accepts connections with it.
pub type Tls = Reloaded<Acceptor>;

/// Reads the files of a value.
type Read = dyn Fn() -> Result<Vec<u8>, String> + Send + Sync;

/// Makes a value of what was read.
type Parse<T> = dyn Fn(&[u8]) -> Result<T, String> + Send + Sync;

/// What a reading found: the hash of a content, or a failure.
type Reading = Result<[u8; 32], String>;

/// A value of files. [`Self::check`] reads them again; content that cannot be used changes nothing.
pub struct Reloaded<T> {
    /// The setting that names the files: in logs, and a label of the metric.
    setting: &'static str,
    read: Box<Read>,
    parse: Box<Parse<T>>,
    current: RwLock<Arc<T>>,
    state: Mutex<State>,
}

struct State {
    /// The last reading.
    seen: Reading,
    /// The last one that was used or refused.
    judged: Reading,
}

impl<T> fmt::Debug for Reloaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloaded").field("setting", &self.setting).finish_non_exhaustive()
    }
}

fn hash(content: &[u8]) -> [u8; 32] {
    Sha256::digest(content).into()
}

impl<T> Reloaded<T> {
    /// The value of `content`, which was read of the files just now.
    ///
    /// # Errors
    /// The content cannot be used.
    pub fn new(
        setting: &'static str,
        content: &[u8],
        read: impl Fn() -> Result<Vec<u8>, String> + Send + Sync + 'static,
        parse: impl Fn(&[u8]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let current = RwLock::new(Arc::new(parse(content)?));
        let found = Ok(hash(content));
        let state = Mutex::new(State { seen: found.clone(), judged: found });
        reload_failed(setting, false);
        Ok(Self { setting, read: Box::new(read), parse: Box::new(parse), current, state })
    }

    /// The value now.
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files. True if they have another content, which is the value from now on. It
    /// counts once two readings in a row agree: a file may be written while it is read, or be
    /// absent while it is replaced.
    ///
    /// Blocks on the file system.
    pub fn check(&self) -> bool {
        let content = (self.read)();
        let found = content.as_ref().map(|it| hash(it)).map_err(Clone::clone);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_stable = state.seen == found;
        state.seen = found.clone();
        if !is_stable || state.judged == found {
            return false;
        }
        state.judged = found;
        let setting = self.setting;
        match content.and_then(|content| (self.parse)(&content)) {
            Ok(value) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
                reload_failed(setting, false);
                tracing::info!(setting, "{setting} has changed and is used from now on");
                true
            }
            Err(error) => {
                reload_failed(setting, true);
                tracing::warn!(
                    setting, %error,
                    "{setting} has changed and cannot be used; what it held before still counts"
                );
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the next reading of a file gives.
    type Content = Arc<Mutex<Result<Vec<u8>, String>>>;

    /// A value of a file that the test writes, and the file.
    fn number() -> (Reloaded<u32>, Content) {
        let file = Arc::new(Mutex::new(Ok(b"1".to_vec())));
        let read = {
            let file = Arc::clone(&file);
            move || file.lock().unwrap().clone()
        };
        let parse = |content: &[u8]| {
            let text = std::str::from_utf8(content).map_err(|error| error.to_string())?;
            text.parse::<u32>().map_err(|error| error.to_string())
        };
        (Reloaded::new("token_file", b"1", read, parse).unwrap(), file)
    }

    #[test]
    fn a_change_counts_once_two_readings_agree() {
        let (value, file) = number();
        let write = |content: &str| *file.lock().unwrap() = Ok(content.into());
        assert!(!value.check() && !value.check());
        write("2");
        assert!(!value.check());
        assert_eq!(*value.current(), 1);
        assert!(value.check());
        assert_eq!(*value.current(), 2);
        assert!(!value.check(), "a change is reported once");
        // Written in two parts, which a reading came between.
        write("3");
        assert!(!value.check());
        write("34");
        assert!(!value.check());
        assert_eq!(*value.current(), 2);
        assert!(value.check());
        assert_eq!(*value.current(), 34);
    }

    #[test]
    fn content_that_cannot_be_used_changes_nothing() {
        let (value, file) = number();
        for broken in [Ok(b"x".to_vec()), Err("it does not exist".to_owned())] {
            *file.lock().unwrap() = broken;
            assert!(!value.check() && !value.check() && !value.check());
            assert_eq!(*value.current(), 1);
        }
        // Repaired with the content from before, or with another.
        for (content, expected) in [("1", 1), ("2", 2)] {
            *file.lock().unwrap() = Ok(content.into());
            assert!(!value.check());
            assert!(value.check());
            assert_eq!(*value.current(), expected);
        }
    }

    #[test]
    fn what_cannot_be_used_at_first_is_an_error() {
        let read = || Ok(Vec::new());
        let failed = Reloaded::<()>::new("token_file", b"", read, |_| Err("empty".to_owned()));
        assert_eq!(failed.unwrap_err(), "empty");
    }
}
