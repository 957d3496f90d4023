//! Audit lines: who logged in, who changed what, and who was refused. They contain no secret and no
//! position. Lines of refusals are limited for each client; `tstar_http_unauthorized_total` counts
//! all of them.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::access::{Access, Denied};
use super::app::App;
use super::clients::Peer;
use crate::telemetry::{self, AUDIT};

/// Minimum time between two lines of refusals of one client.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum clients whose lines are limited one by one; all others share one limit.
const MAX_CLIENTS: usize = 1024;

/// The clients over [`MAX_CLIENTS`].
const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The last line of refusals of a client.
#[derive(Debug)]
struct Line {
    at: Instant,
    /// Refusals without a line since then.
    suppressed: u64,
}

/// Refusals, by client.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<HashMap<IpAddr, Line>>);

impl Refusals {
    /// Counts a refusal. `Some` if it gets a line: the number of those of the client that got none
    /// since its last one.
    fn admit(&self, client: IpAddr, now: Instant) -> Option<u64> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |line: &Line| now.saturating_duration_since(line.at) >= PAUSE;
        if lines.len() >= MAX_CLIENTS && !lines.contains_key(&client) {
            lines.retain(|_, line| !is_over(line));
        }
        let is_full = lines.len() >= MAX_CLIENTS && !lines.contains_key(&client);
        let client = if is_full { OTHERS } else { client };
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
    fn log(&self, (action, what): (&str, &str), token: Option<&str>, client: Option<Peer>) {
        let network = client.map_or(OTHERS, Peer::network);
        let Some(suppressed) = self.admit(network, Instant::now()) else { return };
        let client = address(client);
        let more = match suppressed {
            0 => String::new(),
            count => format!(" ({count} more since its last line)"),
        };
        tracing::warn!(
            target: AUDIT, audit = action, token, client, outcome = "refused", suppressed,
            "audit: refused {what} from {client}{more}"
        );
    }

    /// Counts a request that is not authorised, and logs one whose token is wrong: a request
    /// without any, or with a session that has ended, is not an attack.
    pub fn unauthorized(&self, denied: Denied, route: &str, client: Option<Peer>) {
        telemetry::unauthorized(denied.name());
        match denied {
            Denied::Missing | Denied::NoSession => (),
            Denied::WrongToken if route == LOGIN => {
                self.log(("login", "a login with a wrong token"), None, client);
            }
            Denied::WrongToken => {
                self.log(("request", &format!("a wrong token for {route}")), None, client);
            }
        }
    }

    /// Counts and logs a request whose token lacks a right.
    pub fn forbidden(&self, token: &str, route: &str, client: Option<Peer>) {
        telemetry::unauthorized(FORBIDDEN);
        let what = format!("token `{token}`, which lacks the right, for {route}");
        self.log(("request", &what), Some(token), client);
    }
}

/// Label value of the metric: the token lacks the right.
const FORBIDDEN: &str = "forbidden";

/// The route of logins.
pub const LOGIN: &str = "/v1/login";

/// Who sends an authorised request.
#[derive(Clone, Debug)]
pub struct Client {
    pub access: Access,
    pub peer: Option<Peer>,
}

impl FromRequestParts<Arc<App>> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Infallible> {
        let access = parts.extensions.get::<Access>().cloned().unwrap_or(Access::Open);
        Ok(Self { access, peer: parts.extensions.get::<Peer>().copied() })
    }
}

impl Client {
    fn token(&self) -> Option<&str> {
        self.access.token().map(|token| token.name())
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.token() {
            Some(token) => write!(f, "by token `{token}`")?,
            None => f.write_str("without a token")?,
        }
        write!(f, " from {}", address(self.peer))
    }
}

fn address(client: Option<Peer>) -> String {
    client.map_or_else(|| "an unknown address".to_owned(), |Peer(it)| it.to_canonical().to_string())
}

/// Logs a login.
pub fn logged_in(token: &str, client: Option<Peer>) {
    let client = address(client);
    tracing::info!(
        target: AUDIT, audit = "login", token, client, outcome = "ok",
        "audit: login with token `{token}` from {client}"
    );
}

/// Logs a logout.
pub fn logged_out(token: &str, client: Option<Peer>) {
    let client = address(client);
    tracing::info!(
        target: AUDIT, audit = "logout", token, client, outcome = "ok",
        "audit: logout with token `{token}` from {client}"
    );
}

/// Logs a change of a tag, whose value is not part of the line. `outcome` is `ok`, or the code of
/// the problem.
pub fn changed_tag(
    client: &Client,
    (action, verb): (&str, &str),
    (trip, key): (&str, &str),
    outcome: &str,
) {
    let failed = match outcome {
        "ok" => String::new(),
        code => format!(", which failed: {code}"),
    };
    tracing::info!(
        target: AUDIT, audit = action, token = client.token(), client = address(client.peer),
        trip, key, outcome, "audit: tag `{key}` of trip `{trip}` {verb} {client}{failed}"
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
        let (refusals, start) = (Refusals::default(), Instant::now());
        let admit =
            |of: u32, ms: u64| refusals.admit(client(of), start + Duration::from_millis(ms));
        assert_eq!(admit(1, 0), Some(0));
        assert_eq!([admit(1, 1), admit(1, 999)], [None, None]);
        assert_eq!(admit(2, 1), Some(0), "each client has its own limit");
        assert_eq!(admit(1, 1000), Some(2));
        assert_eq!(admit(1, 1001), None);
        assert_eq!(admit(1, 9000), Some(1));
        assert_eq!(admit(1, 10_000), Some(0));
    }

    #[test]
    fn many_clients_share_a_limit_and_no_memory_grows() {
        let (refusals, start) = (Refusals::default(), Instant::now());
        let count = (0..5000).filter(|&of| refusals.admit(client(of), start).is_some()).count();
        assert_eq!(count, MAX_CLIENTS + 1);
        assert_eq!(refusals.0.lock().unwrap().len(), MAX_CLIENTS + 1);
        let later = start + PAUSE;
        assert_eq!(refusals.admit(client(9999), later), Some(0));
        assert_eq!(refusals.0.lock().unwrap().len(), 1, "the others are past their limit");
    }
}
