//! The active sessions. Each has a secret id, known to its browser only, and a public name, which
//! lists show and which revokes it. They are in memory: a restart ends them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use data_encoding::HEXLOWER;
use serde::Serialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::token::{Token, TokenKey};
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
    /// The token of the login.
    token: TokenKey,
    created_ms: i64,
    used_ms: i64,
    address: Option<IpAddr>,
}

impl Session {
    fn has_expired(&self, now_ms: i64) -> bool {
        now_ms - self.created_ms > MAX_AGE_S * 1000 || now_ms - self.used_ms > MAX_IDLE_S * 1000
    }
}

/// Identifies a session by its secret id, and reveals nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey([u8; 32]);

/// A session that a request uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// Identifies the session.
    pub key: SessionKey,
    /// Name of the session.
    pub name: String,
    /// The token of the login.
    pub token: TokenKey,
}

/// A session, as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SessionView {
    /// Name of the session, which revokes it.
    #[schema(example = "0123456789abcdef")]
    id: String,
    /// Name of the token of the login.
    #[schema(example = "maps")]
    token: String,
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
pub struct Sessions(Mutex<HashMap<SessionKey, Session>>);

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
    pub fn open(
        &self,
        token: TokenKey,
        address: Option<IpAddr>,
        now_ms: i64,
    ) -> Result<String, getrandom::Error> {
        let mut bytes = [0; ID_BYTES];
        getrandom::fill(&mut bytes)?;
        let id = HEXLOWER.encode(&bytes);
        let key = key(&id);
        let name = HEXLOWER.encode(&key.0[..8]);
        let mut sessions = self.lock();
        sessions.retain(|_, session| !session.has_expired(now_ms));
        if sessions.len() >= MAX_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used_ms);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                sessions.remove(&oldest);
            }
        }
        let (created_ms, used_ms) = (now_ms, now_ms);
        sessions.insert(key, Session { name, token, created_ms, used_ms, address });
        Ok(id)
    }

    /// The session with this id, if it is active. Marks it as used.
    pub fn touch(&self, id: &str, now_ms: i64) -> Option<Used> {
        let key = key(id);
        let mut sessions = self.lock();
        let session = sessions.get_mut(&key).filter(|session| !session.has_expired(now_ms))?;
        session.used_ms = now_ms;
        Some(Used { key, name: session.name.clone(), token: session.token })
    }

    /// Whether the session is active.
    pub fn is_active(&self, key: &SessionKey, now_ms: i64) -> bool {
        self.lock().get(key).is_some_and(|session| !session.has_expired(now_ms))
    }

    /// Ends the session with this name, if `may_end` its token, which is returned; `None` if there
    /// is none.
    pub fn close(&self, name: &str, may_end: impl Fn(TokenKey) -> bool) -> Option<TokenKey> {
        let mut sessions = self.lock();
        let mut found =
            sessions.extract_if(|_, session| session.name == name && may_end(session.token));
        found.next().map(|(_, session)| session.token)
    }

    /// Ends the sessions of tokens that are not valid any more; returns their number.
    pub fn retain_valid(&self, is_valid: impl Fn(TokenKey) -> bool) -> usize {
        let mut sessions = self.lock();
        let before = sessions.len();
        sessions.retain(|_, session| is_valid(session.token));
        before - sessions.len()
    }

    /// The active sessions that `show` finds the token of, most recently used first.
    pub fn list(
        &self,
        current: Option<&str>,
        show: impl Fn(TokenKey) -> Option<Arc<Token>>,
        now_ms: i64,
    ) -> Vec<SessionView> {
        let sessions: Vec<_> = self.lock().values().cloned().collect();
        let shown = |session: Session| Some((show(session.token)?, session));
        let mut sessions: Vec<_> = sessions.into_iter().filter_map(shown).collect();
        sessions.retain(|(_, session)| !session.has_expired(now_ms));
        sessions.sort_by(|(_, a), (_, b)| (b.used_ms, &a.name).cmp(&(a.used_ms, &b.name)));
        let view = |(token, session): (Arc<Token>, Session)| SessionView {
            token: token.name().to_owned(),
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
    use super::super::token::Rights;
    use super::*;

    const DAY_MS: i64 = 24 * 3600 * 1000;

    fn token() -> Arc<Token> {
        Arc::new(Token::new("maps", Rights::ALL, "correct-horse-battery"))
    }

    fn open(sessions: &Sessions, now_ms: i64) -> String {
        sessions.open(token().key(), None, now_ms).unwrap()
    }

    fn list(sessions: &Sessions, current: Option<&str>, now_ms: i64) -> Vec<SessionView> {
        sessions.list(current, |_| Some(token()), now_ms)
    }

    #[test]
    fn sessions_are_revoked_individually() {
        let sessions = Sessions::default();
        let (first, second) = (open(&sessions, 0), open(&sessions, 1));
        assert_ne!(first, second);
        let Used { name, key, token } = sessions.touch(&first, 2).unwrap();
        let listed = list(&sessions, Some(&name), 2);
        assert_eq!(listed.iter().map(|it| it.current).collect::<Vec<_>>(), [true, false]);
        assert!(listed.iter().all(|it| it.token == "maps"));
        assert!(sessions.is_active(&key, 2));
        assert_eq!(sessions.close(&name, |_| false), None, "it is another one's");
        assert_eq!(sessions.close(&name, |_| true), Some(token));
        assert_eq!(sessions.close(&name, |_| true), None);
        assert!(!sessions.is_active(&key, 2));
        assert_eq!(sessions.touch(&first, 3), None);
        assert!(sessions.touch(&second, 3).is_some());
        assert_eq!(sessions.touch(&name, 3), None, "the name is not a credential");
    }

    #[test]
    fn sessions_end_with_their_token() {
        let sessions = Sessions::default();
        let other = TokenKey::of_secret("another-of-letters");
        let (kept, ended) = (open(&sessions, 0), sessions.open(other, None, 0).unwrap());
        let mine = |key| (key == token().key()).then(token);
        assert_eq!(sessions.list(None, mine, 0).len(), 1);
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
        assert_eq!(list(&sessions, None, 31 * DAY_MS), []);
    }

    #[test]
    fn the_number_of_sessions_is_limited() {
        let sessions = Sessions::default();
        let first = open(&sessions, 0);
        let second = open(&sessions, 1);
        for time in 2..1024 {
            open(&sessions, time);
        }
        assert!(sessions.touch(&first, 5000).is_some());
        open(&sessions, 5001);
        assert_eq!(list(&sessions, None, 5001).len(), 1024);
        assert!(sessions.touch(&first, 5002).is_some());
        assert_eq!(sessions.touch(&second, 5002), None, "the least recently used session is ended");
    }
}
