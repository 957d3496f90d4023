use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::{Router, routing};
use serde_json::json;

use super::*;

fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// What an endpoint was asked: the login, and the form.
type Requests = Arc<Mutex<Vec<(String, String)>>>;

/// An endpoint that gives this answer; its URL, and what it was asked.
async fn endpoint(status: u16, answer: String) -> (String, Requests) {
    let asked = Requests::default();
    let respond = move |State(log): State<Requests>, headers: HeaderMap, form: String| async move {
        let login = headers[header::AUTHORIZATION].to_str().unwrap().to_owned();
        log.lock().unwrap().push((login, form));
        (StatusCode::from_u16(status).unwrap(), answer)
    };
    let app = Router::new().route("/token", routing::post(respond)).with_state(asked.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/token", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, asked)
}

/// An endpoint with a client `tstar`, whose secret is `hunter2`.
fn taken(url: &str, more: &[(&str, &str)]) -> TokenEndpoint {
    let usual =
        [(METHOD, "OIDC"), (URL, url), (CLIENT_ID[0], "tstar"), (CLIENT_SECRET[1], "hunter2")];
    let mut options = options(&[&usual, more].concat());
    options.insert("sasl.mechanisms".into(), "OAUTHBEARER".into());
    let endpoint = TokenEndpoint::take_from(&mut options, None).unwrap().unwrap();
    let left: Vec<_> = options.into_keys().collect();
    assert_eq!(left, ["sasl.mechanisms"], "librdkafka gets no option of the endpoint");
    endpoint
}

fn token_of(claims: &serde_json::Value) -> String {
    format!("e30.{}.c2ln", BASE64URL_NOPAD.encode(claims.to_string().as_bytes()))
}

#[tokio::test]
async fn a_token_is_asked_for_with_the_login_and_the_scope() {
    let token = token_of(&json!({"sub": "service-account-tstar", "exp": 2_000_000_000.5}));
    let answer = json!({"access_token": token, "token_type": "Bearer", "expires_in": 60});
    let (url, asked) = endpoint(200, answer.to_string()).await;
    let more = [(SCOPE, "kafka read"), (EXTENSIONS, "logicalCluster=a, poolId=b=c")];
    let issued = taken(&url, &more).fetch().await.unwrap();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = OAuthToken {
        token,
        principal: "service-account-tstar".into(),
        // The token's own time counts.
        expires_ms: 2_000_000_000_500,
        extensions: vec![pair("logicalCluster", "a"), pair("poolId", "b=c")],
    };
    assert_eq!(issued, expected);
    // `tstar:hunter2`.
    let login = "Basic dHN0YXI6aHVudGVyMg==".to_owned();
    let form = "grant_type=client_credentials&scope=kafka%20read".to_owned();
    assert_eq!(*asked.lock().unwrap(), [(login, form)]);
}

#[tokio::test]
async fn an_opaque_token_expires_as_the_answer_says() {
    let answer = json!({"access_token": "opaque", "expires_in": 3600}).to_string();
    let (url, asked) = endpoint(200, answer).await;
    let before_ms = clock_ms();
    let OAuthToken { principal, expires_ms, .. } = taken(&url, &[]).fetch().await.unwrap();
    let span = before_ms + 3_600_000..=clock_ms() + 3_600_000;
    assert!(span.contains(&expires_ms), "{expires_ms} is not in {span:?}");
    assert_eq!(principal, "tstar");
    assert_eq!(asked.lock().unwrap()[0].1, "grant_type=client_credentials");
}

#[tokio::test]
async fn a_refusal_says_why_and_shows_no_secret() {
    let invalid = json!({"error": "invalid_client", "error_description": "no such client"});
    let opaque = json!({"access_token": "hunter2"});
    for (status, answer, why) in [
        (401, invalid.to_string(), "refuses with status 401: invalid_client no such client"),
        (500, "<html>".to_owned(), "refuses with status 500"),
        (200, "hunter2".to_owned(), "answers without a token"),
        (200, opaque.to_string(), "no time of expiry"),
    ] {
        let (url, _) = endpoint(status, answer).await;
        let endpoint = taken(&url, &[]);
        let problem = endpoint.fetch().await.unwrap_err();
        let shown = format!("{problem} {endpoint:?}");
        assert!(shown.contains(why) && shown.contains(&url), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    let problem = taken("http://127.0.0.1:1/token", &[]).fetch().await.unwrap_err();
    assert!(problem.contains("cannot be reached"), "{problem}");
    let missing = taken("https://a", &[(CA_FILE, "/no/ca.pem")]).fetch().await.unwrap_err();
    assert!(missing.contains("`/no/ca.pem` cannot be read"), "{missing}");
}

#[test]
fn incomplete_options_are_refused() {
    let all = [
        (METHOD, "oidc"),
        (URL, "https://issuer/token"),
        (CLIENT_ID[0], "tstar"),
        (CLIENT_SECRET[0], "hunter2"),
    ];
    let problem =
        |pairs: &[(&str, &str)]| TokenEndpoint::take_from(&mut options(pairs), None).unwrap_err();
    for left_out in 1..all.len() {
        let mut pairs = all.to_vec();
        let (name, _) = pairs.remove(left_out);
        assert!(problem(&pairs).contains(name), "{name}");
    }
    for (name, value, why) in [
        (URL, "https://ann:hunter2@issuer/token", "has a login"),
        (URL, "issuer/token", "is not a valid URL"),
        (GRANT, "urn:ietf:params:oauth:grant-type:jwt-bearer", "not supported"),
        (EXTENSIONS, "auth=x", "is not a list"),
        (EXTENSIONS, "a-b=x", "is not a list"),
        (EXTENSIONS, "a", "is not a list"),
    ] {
        let problem = problem(&[&all[..], &[(name, value)]].concat());
        assert!(problem.contains(why) && !problem.contains("hunter2"), "{problem}");
    }
    for method in [&[][..], &[(METHOD, "default")][..]] {
        let mut options = options(method);
        options.insert(URL.into(), "x".into());
        assert!(TokenEndpoint::take_from(&mut options, None).unwrap().is_none());
    }
}
