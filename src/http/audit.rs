//! Audit lines: who logged in, who changed what, and who was refused. They contain no secret and no
//! position. Lines of refusals and logins are limited for each client; `suppressed` counts the
//! others, and `tstar_http_unauthorized_total` all refusals.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::clients::Peer;
use super::token::{Token, TokenKey};
use crate::telemetry::{self, AUDIT};

/// Minimum time between two lines of refusals of one client, or of its logins with one token.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum clients whose lines are limited one by one; all others share one limit.
const MAX_CLIENTS: usize = 1024;

/// The clients over [`MAX_CLIENTS`].
const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Why a request is not authorised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It has neither a token nor a cookie.
    Missing,
    /// Its token is not one of the server's.
    WrongToken,
    /// Its cookie is not of an active session.
    NoSession,
}

impl Denied {
    /// The label value of the metric.
    fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::WrongToken => "token",
            Self::NoSession => "session",
        }
    }
}

/// The last line of a kind.
#[derive(Debug)]
struct Line {
    at: Instant,
    /// Events without a line since then.
    suppressed: u64,
}

/// Lines that are limited together: those of refusals, logins or logouts of a client, of the latter
/// two with one token.
type Kind = (&'static str, Option<TokenKey>);

/// The kind of refusals.
const REFUSED: Kind = ("refused", None);

/// The last lines of each kind and client.
#[derive(Debug, Default)]
pub(crate) struct Limited(Mutex<HashMap<(Kind, IpAddr), Line>>);

impl Limited {
    /// Counts an event. `Some` if it gets a line: the number of those that got none since the last
    /// one.
    fn admit(&self, kind: Kind, client: IpAddr, now: Instant) -> Option<u64> {
        let client = (kind, client);
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |line: &Line| now.saturating_duration_since(line.at) >= PAUSE;
        if lines.len() >= MAX_CLIENTS && !lines.contains_key(&client) {
            lines.retain(|_, line| !is_over(line));
        }
        let is_full = lines.len() >= MAX_CLIENTS && !lines.contains_key(&client);
        let client = if is_full { (kind, OTHERS) } else { client };
        match lines.get_mut(&client) {
            Some(line) if !is_over(line) => {
                line.suppressed += 1;
                None
            }
            Some(line) => {
                line.at = now;
                Some(std::mem::take(&mut line.suppressed))
            }
            None => {
                lines.insert(client, Line { at: now, suppressed: 0 });
                Some(0)
            }
        }
    }

    /// Logs the refusal of a client, unless it had a line just now. `what` completes "refused".
    fn log(&self, action: &str, what: &str, token: Option<&str>, client: Peer) {
        let admitted = self.admit(REFUSED, client.network(), Instant::now());
        let Some(suppressed) = admitted else { return };
        let (client, more) = (address(client), more(suppressed));
        tracing::warn!(
            target: AUDIT, audit = action, token, client, outcome = "refused", suppressed,
            "audit: refused {what} from {client}{more}"
        );
    }

    /// Counts a request that is not authorised, and logs one whose token is wrong: a request
    /// without any, or with a session that has ended, is not an attack.
    pub(crate) fn unauthorized(&self, denied: Denied, route: &str, client: Peer) {
        telemetry::unauthorized(denied.name());
        match denied {
            Denied::Missing | Denied::NoSession => (),
            Denied::WrongToken if route == LOGIN => {
                self.log("login", "a login with a wrong token", None, client);
            }
            Denied::WrongToken => {
                self.log("request", &format!("a wrong token for {route}"), None, client);
            }
        }
    }

    /// Counts and logs a request whose token lacks a right.
    pub(crate) fn forbidden(&self, token: &str, route: &str, client: Peer) {
        telemetry::unauthorized("forbidden");
        let what = format!("token `{token}`, which lacks the right, for {route}");
        self.log("request", &what, Some(token), client);
    }
}

/// The route of logins.
pub(crate) const LOGIN: &str = "/v1/login";

fn address(Peer(client): Peer) -> String {
    client.to_canonical().to_string()
}

/// What a line says of those before it.
fn more(suppressed: u64) -> String {
    match suppressed {
        0 => String::new(),
        count => format!(" ({count} more since its last line)"),
    }
}

impl Limited {
    /// Logs a login (`login`) or a logout (`logout`), unless the client had a line of one with this
    /// token just now.
    pub(crate) fn session(&self, action: &'static str, token: &Token, client: Peer) {
        let kind = (action, Some(token.key()));
        let admitted = self.admit(kind, client.network(), Instant::now());
        let Some(suppressed) = admitted else { return };
        let (token, client, more) = (token.name(), address(client), more(suppressed));
        tracing::info!(
            target: AUDIT, audit = action, token, client, outcome = "ok", suppressed,
            "audit: {action} with token `{token}` from {client}{more}"
        );
    }
}

/// Logs a change of a tag, of a trip or of the device with this token. Its value is not part of the
/// line. `outcome` is `ok`, or the code of the problem.
pub(crate) fn changed_tag(
    (token, client): (Option<&str>, Peer),
    (action, verb): (&str, &str),
    (trip, device): (Option<&str>, &str),
    (key, outcome): (&str, &str),
) {
    let by = token.map_or("without a token".to_owned(), |token| format!("by token `{token}`"));
    let failed = match outcome {
        "ok" => String::new(),
        code => format!(", which failed: {code}"),
    };
    let client = address(client);
    let (kind, name) = trip.map_or(("device", device), |trip| ("trip", trip));
    let device = trip.is_none().then_some(device);
    tracing::info!(
        target: AUDIT, audit = action, token, client, trip, device, key, outcome,
        "audit: tag `{key}` of {kind} `{name}` {verb} {by} from {client}{failed}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number))
    }

    #[test]
    fn a_client_gets_one_line_a_second_which_counts_the_others() {
        let (lines, start) = (Limited::default(), Instant::now());
        let admit_kind = |kind: Kind, of: u32, ms: u64| {
            lines.admit(kind, client(of), start + Duration::from_millis(ms))
        };
        let admit = |of: u32, ms: u64| admit_kind(REFUSED, of, ms);
        assert_eq!(admit(1, 0), Some(0));
        assert_eq!([admit(1, 1), admit(1, 999)], [None, None]);
        assert_eq!(admit(2, 1), Some(0), "each client has its own limit");
        assert_eq!(admit(1, 1000), Some(2));
        assert_eq!(admit(1, 1001), None);
        assert_eq!(admit(1, 9000), Some(1));
        assert_eq!(admit(1, 10_000), Some(0));
        let [one, other] = ["a", "b"].map(|it| ("login", Some(TokenKey::of_secret(it))));
        assert_eq!([one, other].map(|kind| admit_kind(kind, 1, 10_001)), [Some(0); 2]);
        assert_eq!(admit_kind(one, 1, 10_002), None, "each token has its own limit");
    }

    #[test]
    fn many_clients_share_a_limit_and_no_memory_grows() {
        let (lines, start) = (Limited::default(), Instant::now());
        let admit = |of: u32, now| lines.admit(REFUSED, client(of), now);
        let count = (0..5000).filter(|&of| admit(of, start).is_some()).count();
        assert_eq!(count, MAX_CLIENTS + 1);
        assert_eq!(lines.0.lock().unwrap().len(), MAX_CLIENTS + 1);
        let later = start + PAUSE;
        assert_eq!(admit(9999, later), Some(0));
        assert_eq!(lines.0.lock().unwrap().len(), 1, "the others are past their limit");
    }
}
