//! Who sends a request, and what they may do: programs send a token, browsers the cookie of a
//! login.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Extensions, HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::app::App;
use super::audit::Denied;
use super::clients::{ClientKey, Peer};
use super::origin;
use super::problem::Problem;
use super::sessions::Used;
use super::token::{Right, Token, basic_password, bearer};
use super::trip_response::with_header;

/// Name of the cookie without TLS.
pub(crate) const COOKIE: &str = "tstar";

/// Name of the cookie with TLS: browsers accept it from this host only, and only over TLS.
pub(crate) const SECURE_COOKIE: &str = "__Host-tstar";

/// How a request is authorised.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// The server has no token.
    Open,
    /// By a token.
    Token(Arc<Token>),
    /// By the cookie of a session, which has the rights of the token of its login.
    Session(Used, Arc<Token>),
}

impl Access {
    /// The token of the request or of its login.
    #[must_use]
    pub(crate) fn token(&self) -> Option<&Arc<Token>> {
        match self {
            Self::Open => None,
            Self::Token(token) | Self::Session(_, token) => Some(token),
        }
    }

    /// The session of the request.
    #[must_use]
    pub(crate) fn session(&self) -> Option<&Used> {
        match self {
            Self::Session(used, _) => Some(used),
            Self::Open | Self::Token(_) => None,
        }
    }

    /// Whose limits count: those of the login, or else of the address.
    #[must_use]
    pub(crate) fn client(&self, peer: Peer) -> ClientKey {
        match self.session() {
            Some(used) => ClientKey::Session(used.key),
            None => ClientKey::Network(peer.network()),
        }
    }

    /// Whether the request has a right.
    #[must_use]
    pub(crate) fn has(&self, right: Right) -> bool {
        self.token().is_none_or(|token| token.rights().has(right))
    }
}

/// Rejects a token without a right.
pub(crate) fn require(token: &Token, right: Right) -> Result<(), Problem> {
    match token.rights().has(right) {
        true => Ok(()),
        false => Err(forbidden(token.name(), right)),
    }
}

/// The problem of a request whose token does not have a right.
pub(super) fn forbidden(token: &str, right: Right) -> Problem {
    let right = right.name();
    let detail = format!("token `{token}` does not have the right `{right}`, which this needs");
    let problem = Problem::new(StatusCode::FORBIDDEN, "forbidden", detail);
    problem.with("token", token).with("right", right)
}

/// The other end of the connection of a request.
pub(super) fn peer(extensions: &Extensions) -> Peer {
    *extensions.get::<Peer>().expect("each connection has one")
}

/// Route and client of a request, for audit lines.
fn origin_of(request: &Request) -> (String, Peer) {
    let route = request.extensions().get::<MatchedPath>().map_or("a route", MatchedPath::as_str);
    (format!("{} {route}", request.method()), peer(request.extensions()))
}

pub(super) fn unauthorized(detail: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

impl App {
    /// The ids of the cookies of this server that the request has.
    fn session_ids(headers: &HeaderMap) -> Vec<String> {
        let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|it| it.to_str().ok());
        let pairs = cookies.flat_map(|text| text.split(';'));
        let pairs = pairs.filter_map(|pair| pair.split_once('='));
        let of_server = pairs.filter(|(name, _)| matches!(name.trim(), COOKIE | SECURE_COOKIE));
        of_server.map(|(_, id)| id.trim().to_owned()).collect()
    }

    /// The session whose cookie the request has.
    pub(super) fn session_of(&self, headers: &HeaderMap) -> Option<Used> {
        let ids = Self::session_ids(headers);
        ids.iter().find_map(|id| self.sessions.touch(id, self.now_ms()))
    }

    /// How the request is authorised.
    pub(super) fn access(&self, headers: &HeaderMap) -> Result<Access, Denied> {
        let Some(tokens) = &self.options.tokens else { return Ok(Access::Open) };
        let tokens = tokens.current();
        if let Some(secret) = bearer(headers) {
            return tokens.find(secret).map(Access::Token).ok_or(Denied::WrongToken);
        }
        let Some(used) = self.session_of(headers) else {
            let has_none = Self::session_ids(headers).is_empty();
            return Err(if has_none { Denied::Missing } else { Denied::NoSession });
        };
        let token = tokens.by_key(used.token).ok_or(Denied::NoSession)?;
        Ok(Access::Session(used, token))
    }

    /// Whether a request that was authorised before still is, and has a right.
    pub(super) fn still_has(&self, access: &Access, right: Right) -> bool {
        let (Some(tokens), Some(token)) = (&self.options.tokens, access.token()) else {
            return true;
        };
        let is_active = |used: &Used| self.sessions.is_active(&used.key, self.now_ms());
        access.session().is_none_or(is_active)
            && tokens.current().by_key(token.key()).is_some_and(|it| it.rights().has(right))
    }

    /// Ends the sessions of tokens that the token file does not have any more.
    pub(super) fn end_orphaned_sessions(&self) {
        let Some(tokens) = &self.options.tokens else { return };
        let tokens = tokens.current();
        let ended = self.sessions.retain_valid(|key| tokens.by_key(key).is_some());
        if ended > 0 {
            tracing::info!(sessions = ended, "ended {ended} sessions of removed tokens");
        }
    }
}

/// Rejects requests that are not authorised. With a cookie, requests other than reads have to come
/// from a page of this server.
pub(crate) async fn require_auth(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let access = app.access(request.headers()).map_err(|denied| {
        let detail = "this server requires a token: send `Authorization: Bearer TOKEN`, or log in \
            on the page";
        app.refuse(denied, &request, detail)
    })?;
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if access.session().is_some() && !is_read {
        origin::require_same(request.headers(), app.has_tls())?;
    }
    request.extensions_mut().insert(access);
    Ok(next.run(request).await)
}

impl App {
    /// Rejects a request that is not authorised.
    fn refuse(&self, denied: Denied, request: &Request, detail: &str) -> Problem {
        let (route, client) = origin_of(request);
        self.audit.unauthorized(denied, &route, client);
        unauthorized(detail)
    }

    /// Rejects a request whose token does not have a right.
    fn require(&self, token: &Token, right: Right, request: &Request) -> Result<(), Problem> {
        require(token, right).inspect_err(|_| {
            let (route, client) = origin_of(request);
            self.audit.forbidden(token.name(), &route, client);
        })
    }
}

/// Rejects authorised requests without a right.
pub(crate) async fn require_right(
    State((app, right)): State<(Arc<App>, Right)>,
    Extension(access): Extension<Access>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if let Some(token) = access.token() {
        app.require(token, right, &request)?;
    }
    Ok(next.run(request).await)
}

/// The challenge of routes for apps.
const APP_CHALLENGE: &str = "Basic realm=\"tstar\", charset=\"UTF-8\", Bearer";

/// Rejects requests without a token that may write, as a bearer or as the password of Basic
/// authentication: many apps know no other. A cookie does not count, nor does a password with a
/// request of a page of another origin.
pub(crate) async fn require_token(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Response> {
    let Some(tokens) = &app.options.tokens else { return Ok(next.run(request).await) };
    let headers = request.headers();
    // A browser sends a password that it knows with the requests of any page.
    if bearer(headers).is_none() {
        origin::reject_foreign(headers, app.has_tls()).map_err(IntoResponse::into_response)?;
    }
    let secret = bearer(headers).map(str::to_owned).or_else(|| basic_password(headers));
    let denied = if secret.is_some() { Denied::WrongToken } else { Denied::Missing };
    let Some(token) = secret.and_then(|secret| tokens.current().find(&secret)) else {
        let detail = "this route requires a token of the server: send it as the password of a user \
            with any name (Basic authentication), or as `Authorization: Bearer TOKEN`";
        let rejection = app.refuse(denied, &request, detail).into_response();
        return Err(with_header(rejection, header::WWW_AUTHENTICATE, APP_CHALLENGE));
    };
    app.require(&token, Right::Write, &request).map_err(IntoResponse::into_response)?;
    request.extensions_mut().insert(Access::Token(token));
    Ok(next.run(request).await)
}
