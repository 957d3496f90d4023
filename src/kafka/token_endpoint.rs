//! The endpoint that issues OAuth tokens for OAUTHBEARER, by client credentials (RFC 6749, 4.4).
//!
//! librdkafka could ask by itself only if it was built with libcurl, so it does not get these
//! options, which have the names and meanings that it gives them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use data_encoding::{BASE64, BASE64URL_NOPAD};
use hyper::header::HeaderValue;
use rdkafka_extra::OAuthToken;
use serde::Deserialize;

use super::login::read_secret;
use crate::telemetry::clock_ms;
use crate::web::{Client, ClientOptions, HAS_LOGIN, WebUrl, encoded};

/// Option: `oidc` if tokens come from an endpoint.
const METHOD: &str = "sasl.oauthbearer.method";
const GRANT: &str = "sasl.oauthbearer.grant.type";
const URL: &str = "sasl.oauthbearer.token.endpoint.url";
const SCOPE: &str = "sasl.oauthbearer.scope";
const EXTENSIONS: &str = "sasl.oauthbearer.extensions";
const CLIENT_ID: [&str; 2] =
    ["sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id"];
const CLIENT_SECRET: [&str; 2] =
    ["sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret"];
const CA_FILE: &str = "https.ca.location";
const CA_PEM: &str = "https.ca.pem";

/// The grant that is supported.
const CLIENT_CREDENTIALS: &str = "client_credentials";

/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where tokens come from.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct TokenEndpoint {
    url: WebUrl,
    client_id: String,
    secret: String,
    /// `None` if the endpoint decides.
    scope: Option<String>,
    extensions: Vec<(String, String)>,
    authorities: Option<Authorities>,
}

#[derive(Clone, PartialEq, Eq)]
enum Authorities {
    Pem(String),
    File(String),
}

impl fmt::Debug for TokenEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenEndpoint `{}`", self.url)
    }
}

/// The endpoint's answer (RFC 6749, 5.1).
#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    /// Seconds.
    expires_in: Option<i64>,
}

/// The endpoint's refusal (RFC 6749, 5.2).
#[derive(Deserialize)]
struct Refusal {
    error: String,
    #[serde(default)]
    error_description: String,
}

/// Claims of a JSON web token (RFC 7519). Only the broker verifies it.
#[derive(Default, Deserialize)]
struct Claims {
    sub: Option<String>,
    /// Seconds since 1970.
    exp: Option<f64>,
}

impl TokenEndpoint {
    /// Takes the endpoint out of options, if they have one.
    ///
    /// # Errors
    /// They are incomplete, or ask for a grant that is not supported; the file cannot be read.
    pub(super) fn take_from(
        options: &mut BTreeMap<String, String>,
        file: Option<&Path>,
    ) -> Result<Option<Self>, String> {
        if options.get(METHOD).is_none_or(|method| !method.eq_ignore_ascii_case("oidc")) {
            return Ok(None);
        }
        let mut take = |names: &[&str]| {
            let taken: Vec<_> = names.iter().filter_map(|name| options.remove(*name)).collect();
            taken.into_iter().next().filter(|value| !value.is_empty())
        };
        take(&[METHOD]);
        if let Some(grant) = take(&[GRANT])
            && grant != CLIENT_CREDENTIALS
        {
            return Err(format!(
                "`{GRANT}` is `{grant}`, which is not supported; use {CLIENT_CREDENTIALS}"
            ));
        }
        let missing = |name: &str| format!("`{METHOD}` is oidc, so `{name}` has to be set as well");
        let url = take(&[URL]).ok_or_else(|| missing(URL))?;
        let url = WebUrl::parse(&url).map_err(|problem| match problem {
            HAS_LOGIN => format!("`{URL}` has a login; set `{}` instead", CLIENT_ID[0]),
            problem => format!("`{URL}` is not a valid URL: {problem}"),
        })?;
        let client_id = take(&CLIENT_ID).ok_or_else(|| missing(CLIENT_ID[0]))?;
        let secret = match (take(&CLIENT_SECRET), file) {
            (Some(_), Some(_)) => {
                let name = CLIENT_SECRET[0];
                return Err(format!("`{name}` and kafka_password_file are both set; remove one"));
            }
            (Some(secret), None) => secret,
            (None, Some(file)) => read_secret(file)?,
            (None, None) => {
                return Err(format!("{}, or kafka_password_file", missing(CLIENT_SECRET[0])));
            }
        };
        let scope = take(&[SCOPE]);
        let extensions = take(&[EXTENSIONS]).map(|text| parse_extensions(&text)).transpose()?;
        let authorities = take(&[CA_PEM]).map(Authorities::Pem);
        let authorities = authorities.or(take(&[CA_FILE]).map(Authorities::File));
        let extensions = extensions.unwrap_or_default();
        Ok(Some(Self { url, client_id, secret, scope, extensions, authorities }))
    }

    /// A new token.
    ///
    /// # Errors
    /// The endpoint does not answer, or refuses. The text has no secret.
    pub(super) async fn fetch(&self) -> Result<OAuthToken, String> {
        let scope = self.scope.as_deref().map(encoded);
        let scope = scope.map_or_else(String::new, |scope| format!("&scope={scope}"));
        let form = format!("grant_type={CLIENT_CREDENTIALS}{scope}");
        let client = self.client()?;
        let failed = |problem: String| format!("the token endpoint `{}` {problem}", self.url);
        let kind = "application/x-www-form-urlencoded";
        let answer = client.post("", kind, form).await.map_err(failed)?;
        if answer.status != 200 {
            let refusal = serde_json::from_slice::<Refusal>(&answer.body).ok();
            let why = refusal.map(|it| format!(": {} {}", it.error, it.error_description));
            let why = why.unwrap_or_default();
            return Err(failed(format!("refuses with status {}{}", answer.status, why.trim_end())));
        }
        let answer: TokenAnswer = serde_json::from_slice(&answer.body)
            .map_err(|error| failed(format!("answers without a token: {error}")))?;
        let claims = claims(&answer.access_token);
        let now_ms = clock_ms();
        let by_claim = claims.exp.map(|seconds| (seconds * 1000.0) as i64);
        let by_answer = answer.expires_in.map(|seconds| now_ms + seconds.saturating_mul(1000));
        let expires_ms = by_claim.or(by_answer).ok_or_else(|| {
            failed(
                "answers with a token that has no time of expiry; have it add `expires_in`".into(),
            )
        })?;
        Ok(OAuthToken {
            token: answer.access_token,
            principal: claims.sub.unwrap_or_else(|| self.client_id.clone()),
            expires_ms,
            extensions: self.extensions.clone(),
        })
    }

    fn client(&self) -> Result<Client, String> {
        let authorities = match &self.authorities {
            None => None,
            Some(Authorities::Pem(pem)) => Some(pem.clone().into_bytes()),
            Some(Authorities::File(path)) => Some(
                std::fs::read(path)
                    .map_err(|error| format!("`{CA_FILE}` `{path}` cannot be read: {error}"))?,
            ),
        };
        let login = BASE64.encode(format!("{}:{}", self.client_id, self.secret).as_bytes());
        let mut authorization = HeaderValue::try_from(format!("Basic {login}"))
            .map_err(|_| "the login of the token endpoint cannot be sent as a header".to_owned())?;
        authorization.set_sensitive(true);
        let authorization = Some(authorization);
        let accept = "application/json";
        let options = ClientOptions { authorities, authorization, accept, timeout: TIMEOUT };
        Client::new(self.url.clone(), options)
    }
}

/// Parses `name=value,name=value`.
fn parse_extensions(text: &str) -> Result<Vec<(String, String)>, String> {
    let pairs = text.split(',').map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (name.trim(), value.trim());
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
        let is_valid = is_name && name != "auth" && !value.is_empty();
        is_valid.then(|| (name.to_owned(), value.to_owned()))
    });
    let pairs: Option<Vec<_>> = pairs.collect();
    pairs.ok_or_else(|| {
        format!("`{EXTENSIONS}` is not a list such as logicalCluster=a,identityPoolId=b")
    })
}

/// The claims of a token, none if it is opaque.
fn claims(token: &str) -> Claims {
    let payload = token.split('.').nth(1).unwrap_or_default().trim_end_matches('=');
    let payload = BASE64URL_NOPAD.decode(payload.as_bytes()).unwrap_or_default();
    serde_json::from_slice(&payload).unwrap_or_default()
}

#[cfg(test)]
#[path = "token_endpoint_tests.rs"]
mod tests;
