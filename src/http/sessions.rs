//! The active sessions. Each has a secret id, known to its browser only. They are in memory: a
//! restart ends them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::token::TokenKey;

/// Maximum sessions of a token; one more ends the least recently used one of that token. The number
/// of tokens bounds all of them.
const MAX_SESSIONS: usize = 1024;

/// Maximum age of a session, s.
pub(crate) const MAX_AGE_S: i64 = 30 * 24 * 3600;

/// Maximum time between two uses of a session, s.
const MAX_IDLE_S: i64 = 7 * 24 * 3600;

/// Random bytes of an id.
const ID_BYTES: usize = 32;

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Session {
    /// The token of the login.
    token: TokenKey,
    created_ms: i64,
    used_ms: i64,
}

impl Session {
    fn has_expired(&self, now_ms: i64) -> bool {
        now_ms - self.created_ms > MAX_AGE_S * 1000 || now_ms - self.used_ms > MAX_IDLE_S * 1000
    }
}

/// Identifies a session by its secret id, and reveals nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey([u8; 32]);

/// A session that a request uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    /// Identifies the session.
    pub key: SessionKey,
    /// The token of the login.
    pub token: TokenKey,
}

/// The active sessions, by the hash of their ids.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<SessionKey, Session>>);

/// Hash of an id. The time of a lookup depends on the hash only and reveals nothing about the id.
fn key(id: &str) -> SessionKey {
    SessionKey(Sha256::digest(id).into())
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, Session>> {
        self.0.lock().expect("no holder of the lock panics")
    }

    /// Starts a session and returns its id.
    ///
    /// # Errors
    /// The system cannot provide random bytes.
    pub(crate) fn open(&self, token: TokenKey, now_ms: i64) -> Result<String, getrandom::Error> {
        let mut bytes = [0; ID_BYTES];
        getrandom::fill(&mut bytes)?;
        let id = HEXLOWER.encode(&bytes);
        let mut sessions = self.lock();
        sessions.retain(|_, session| !session.has_expired(now_ms));
        let own = || sessions.iter().filter(|(_, session)| session.token == token);
        if own().count() >= MAX_SESSIONS {
            let oldest = own().min_by_key(|(_, session)| session.used_ms);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                sessions.remove(&oldest);
            }
        }
        sessions.insert(key(&id), Session { token, created_ms: now_ms, used_ms: now_ms });
        Ok(id)
    }

    /// The session with this id, if it is active. Marks it as used.
    pub(crate) fn touch(&self, id: &str, now_ms: i64) -> Option<Used> {
        let key = key(id);
        let mut sessions = self.lock();
        let session = sessions.get_mut(&key).filter(|session| !session.has_expired(now_ms))?;
        session.used_ms = now_ms;
        Some(Used { key, token: session.token })
    }

    /// Whether the session is active.
    pub(crate) fn is_active(&self, key: &SessionKey, now_ms: i64) -> bool {
        self.lock().get(key).is_some_and(|session| !session.has_expired(now_ms))
    }

    /// Ends a session.
    pub(crate) fn close(&self, key: &SessionKey) {
        self.lock().remove(key);
    }

    /// Ends the sessions of tokens that are not valid any more; returns their number.
    pub(crate) fn retain_valid(&self, is_valid: impl Fn(TokenKey) -> bool) -> usize {
        let mut sessions = self.lock();
        let before = sessions.len();
        sessions.retain(|_, session| is_valid(session.token));
        before - sessions.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 24 * 3600 * 1000;

    fn token() -> TokenKey {
        TokenKey::of_secret("correct-horse-battery")
    }

    fn open(sessions: &Sessions, now_ms: i64) -> String {
        sessions.open(token(), now_ms).unwrap()
    }

    #[test]
    fn each_session_ends_by_itself() {
        let sessions = Sessions::default();
        let (first, second) = (open(&sessions, 0), open(&sessions, 1));
        assert_ne!(first, second);
        let used = sessions.touch(&first, 2).unwrap();
        assert_eq!(used.token, token());
        assert!(sessions.is_active(&used.key, 2));
        sessions.close(&used.key);
        assert!(!sessions.is_active(&used.key, 2));
        assert_eq!(sessions.touch(&first, 3), None);
        assert!(sessions.touch(&second, 3).is_some());
    }

    #[test]
    fn sessions_end_with_their_token() {
        let sessions = Sessions::default();
        let other = TokenKey::of_secret("another-of-letters");
        let (kept, ended) = (open(&sessions, 0), sessions.open(other, 0).unwrap());
        assert_eq!(sessions.retain_valid(|key| key != other), 1);
        assert!(sessions.touch(&kept, 0).is_some());
        assert_eq!(sessions.touch(&ended, 0), None);
    }

    #[test]
    fn sessions_expire_by_age_and_idle_time() {
        let sessions = Sessions::default();
        let (used, idle) = (open(&sessions, 0), open(&sessions, 0));
        for day in 1..=30 {
            assert!(sessions.touch(&used, day * DAY_MS).is_some(), "day {day}");
        }
        assert_eq!(sessions.touch(&used, 30 * DAY_MS + 1), None);
        assert_eq!(sessions.touch(&idle, 7 * DAY_MS + 1), None);
    }

    #[test]
    fn the_number_of_sessions_of_a_token_is_limited() {
        let sessions = Sessions::default();
        let other = sessions.open(TokenKey::of_secret("another-of-letters"), -1).unwrap();
        let first = open(&sessions, 0);
        let second = open(&sessions, 1);
        for time in 2..1024 {
            open(&sessions, time);
        }
        assert!(sessions.touch(&first, 5000).is_some());
        open(&sessions, 5001);
        assert_eq!(sessions.lock().len(), 1025);
        assert!(sessions.touch(&first, 5002).is_some());
        assert_eq!(sessions.touch(&second, 5002), None, "the least recently used session is ended");
        assert!(sessions.touch(&other, 5002).is_some(), "another token's is not");
    }
}
