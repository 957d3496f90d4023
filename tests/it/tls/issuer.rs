//! An issuer of OAuth tokens: `POST /token` by client credentials, and the keys at `GET /jwks`.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::{get, post};
use axum::{Json, Router};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::sign::Signer;
use serde_json::{Value, json};

/// Life of a token: short, so that a test sees several.
pub const LIFE: Duration = Duration::from_secs(6);

/// Who a token is for.
pub const AUDIENCE: &str = "kafka";

#[derive(Clone)]
pub struct Issuer(Arc<Shared>);

struct Shared {
    key: PKey<Private>,
    /// Secret of every client.
    secret: String,
    /// Clients that got a token, in order.
    issued: Mutex<Vec<String>>,
    address: String,
}

impl Issuer {
    /// Starts one on a thread of its own, for as long as the process runs.
    pub fn start(secret: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
        let (secret, issued) = (secret.to_owned(), Mutex::default());
        let issuer = Self(Arc::new(Shared { key, secret, issued, address }));
        let app = Router::new().route("/token", post(token)).route("/jwks", get(keys));
        let app = app.with_state(issuer.clone());
        std::thread::spawn(move || {
            crate::support::block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, app).await.unwrap();
            });
        });
        issuer
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.0.address)
    }

    /// Number of tokens that a client got.
    pub fn issued_to(&self, client: &str) -> usize {
        self.0.issued.lock().unwrap().iter().filter(|issued| *issued == client).count()
    }

    /// A token for a client, by JSON Web Signature with RS256.
    fn sign(&self, subject: &str) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": "one"});
        let claims = json!({
            "iss": self.url(""), "aud": AUDIENCE, "sub": subject, "scope": "fleet",
            "iat": now, "exp": now + LIFE.as_secs(),
        });
        let encoded = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let signed = format!("{}.{}", encoded(&header), encoded(&claims));
        let mut signer = Signer::new(MessageDigest::sha256(), &self.0.key).unwrap();
        signer.update(signed.as_bytes()).unwrap();
        format!("{signed}.{}", BASE64URL_NOPAD.encode(&signer.sign_to_vec().unwrap()))
    }
}

async fn token(
    State(issuer): State<Issuer>,
    headers: HeaderMap,
    form: String,
) -> (StatusCode, Json<Value>) {
    let login = headers[header::AUTHORIZATION].to_str().unwrap().strip_prefix("Basic ").unwrap();
    let login = String::from_utf8(BASE64.decode(login.as_bytes()).unwrap()).unwrap();
    let (client, secret) = login.split_once(':').unwrap();
    assert_eq!(form, "grant_type=client_credentials&scope=fleet");
    if secret != issuer.0.secret {
        let refusal = json!({"error": "invalid_client", "error_description": "wrong secret"});
        return (StatusCode::UNAUTHORIZED, Json(refusal));
    }
    issuer.0.issued.lock().unwrap().push(client.to_owned());
    let token = issuer.sign(client);
    (StatusCode::OK, Json(json!({"access_token": token, "token_type": "Bearer"})))
}

/// The public key (RFC 7517).
async fn keys(State(issuer): State<Issuer>) -> Json<Value> {
    let key = issuer.0.key.rsa().unwrap();
    let encoded = |number: &openssl::bn::BigNumRef| BASE64URL_NOPAD.encode(&number.to_vec());
    let (n, e) = (encoded(key.n()), encoded(key.e()));
    Json(
        json!({"keys": [{"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", "n": n, "e": e}]}),
    )
}
