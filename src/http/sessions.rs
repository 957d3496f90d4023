//! The active sessions. Each has a secret id, known to its browser only, and a public name, which
//! lists show and which revokes it. They are in memory: a restart ends them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};

use data_encoding::HEXLOWER;
use serde::Serialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::model::time::format_time;

/// Maximum sessions; one more ends the least recently used one.
const MAX_SESSIONS: usize = 1024;

/// Maximum age of a session, s.
pub const MAX_AGE_S: i64 = 30 * 24 * 3600;

/// Maximum time between two uses of a session, s.
const MAX_IDLE_S: i64 = 7 * 24 * 3600;

/// Random bytes of an id.
const ID_BYTES: usize = 32;

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Session {
    name: String,
    created_ms: i64,
    used_ms: i64,
    address: Option<IpAddr>,
}

impl Session {
    fn has_expired(&self, now_ms: i64) -> bool {
        now_ms - self.created_ms > MAX_AGE_S * 1000 || now_ms - self.used_ms > MAX_IDLE_S * 1000
    }
}

/// A session, as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SessionView {
    /// Name of the session, which revokes it.
    #[schema(example = "0123456789abcdef")]
    id: String,
    /// Time of the login.
    #[schema(format = DateTime)]
    created: String,
    /// Time of the last request.
    #[schema(format = DateTime)]
    last_used: String,
    /// Address of the client that logged in, or of its proxy.
    address: Option<String>,
    /// Whether this request uses the session.
    current: bool,
}

/// The active sessions, by the hash of their ids.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<HashMap<[u8; 32], Session>>);

/// Hash of an id. The time of a lookup depends on the hash only and reveals nothing about the id.
fn key(id: &str) -> [u8; 32] {
    Sha256::digest(id).into()
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Session>> {
        self.0.lock().expect("no holder of the lock panics")
    }

    /// Starts a session and returns its id.
    ///
    /// # Errors
    /// The system cannot provide random bytes.
    pub fn open(&self, address: Option<IpAddr>, now_ms: i64) -> Result<String, getrandom::Error> {
        let mut bytes = [0; ID_BYTES];
        getrandom::fill(&mut bytes)?;
        let id = HEXLOWER.encode(&bytes);
        let key = key(&id);
        let name = HEXLOWER.encode(&key[..8]);
        let mut sessions = self.lock();
        sessions.retain(|_, session| !session.has_expired(now_ms));
        if sessions.len() >= MAX_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used_ms);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                sessions.remove(&oldest);
            }
        }
        sessions.insert(key, Session { name, created_ms: now_ms, used_ms: now_ms, address });
        Ok(id)
    }

    /// The name of the session with this id, if it is active. Marks it as used.
    pub fn touch(&self, id: &str, now_ms: i64) -> Option<String> {
        let mut sessions = self.lock();
        let session = sessions.get_mut(&key(id)).filter(|session| !session.has_expired(now_ms))?;
        session.used_ms = now_ms;
        Some(session.name.clone())
    }

    /// Ends the session with this name; false if there is none.
    pub fn close(&self, name: &str) -> bool {
        let mut sessions = self.lock();
        let before = sessions.len();
        sessions.retain(|_, session| session.name != name);
        sessions.len() < before
    }

    /// The active sessions, most recently used first.
    pub fn list(&self, current: Option<&str>, now_ms: i64) -> Vec<SessionView> {
        let mut sessions: Vec<_> = self.lock().values().cloned().collect();
        sessions.retain(|session| !session.has_expired(now_ms));
        sessions.sort_by(|a, b| (b.used_ms, &a.name).cmp(&(a.used_ms, &b.name)));
        let view = |session: Session| SessionView {
            created: format_time(session.created_ms),
            last_used: format_time(session.used_ms),
            address: session.address.map(|address| address.to_string()),
            current: current == Some(&session.name),
            id: session.name,
        };
        sessions.into_iter().map(view).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 24 * 3600 * 1000;

    #[test]
    fn sessions_are_revoked_individually() {
        let sessions = Sessions::default();
        let (first, second) = (sessions.open(None, 0).unwrap(), sessions.open(None, 1).unwrap());
        assert_ne!(first, second);
        let name = sessions.touch(&first, 2).unwrap();
        let listed = sessions.list(Some(&name), 2);
        assert_eq!(listed.iter().map(|it| it.current).collect::<Vec<_>>(), [true, false]);
        assert!(sessions.close(&name));
        assert!(!sessions.close(&name));
        assert_eq!(sessions.touch(&first, 3), None);
        assert!(sessions.touch(&second, 3).is_some());
        assert_eq!(sessions.touch(&name, 3), None, "the name is not a credential");
    }

    #[test]
    fn sessions_expire_by_age_and_idle_time() {
        let sessions = Sessions::default();
        let (used, idle) = (sessions.open(None, 0).unwrap(), sessions.open(None, 0).unwrap());
        for day in 1..=30 {
            assert!(sessions.touch(&used, day * DAY_MS).is_some(), "day {day}");
        }
        assert_eq!(sessions.touch(&used, 30 * DAY_MS + 1), None);
        assert_eq!(sessions.touch(&idle, 7 * DAY_MS + 1), None);
        assert_eq!(sessions.list(None, 31 * DAY_MS), []);
    }

    #[test]
    fn the_number_of_sessions_is_limited() {
        let sessions = Sessions::default();
        let first = sessions.open(None, 0).unwrap();
        let second = sessions.open(None, 1).unwrap();
        for time in 2..1024 {
            sessions.open(None, time).unwrap();
        }
        assert!(sessions.touch(&first, 5000).is_some());
        sessions.open(None, 5001).unwrap();
        assert_eq!(sessions.list(None, 5001).len(), 1024);
        assert!(sessions.touch(&first, 5002).is_some());
        assert_eq!(sessions.touch(&second, 5002), None, "the least recently used session is ended");
    }
}
