//! A registry of the tests' own: it answers over HTTP what a test has set.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Barrier;

use super::{Registry, RegistryUrl};

/// Responses by path and query; what was asked, with the login.
#[derive(Clone, Default)]
pub(crate) struct FakeRegistry {
    answers: Arc<Mutex<HashMap<String, (u16, String)>>>,
    /// By path, the path of the response that it brings and what that is.
    later: Arc<Mutex<HashMap<String, (String, Value)>>>,
    requests: Arc<Mutex<Vec<(String, String)>>>,
    bodies: Arc<Mutex<Vec<String>>>,
    /// Holds responses until that number of requests came in.
    together: Arc<Mutex<Option<Arc<Barrier>>>>,
}

impl FakeRegistry {
    /// Sets a response: JSON, or a text as it is.
    pub(crate) fn answer(&self, path: &str, status: u16, body: &Value) {
        let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        self.answers.lock().unwrap().insert(path.to_owned(), (status, body));
    }

    /// Once a path was requested, another one has this response.
    pub(crate) fn answer_after(&self, request: &str, path: &str, body: Value) {
        self.later.lock().unwrap().insert(request.to_owned(), (path.to_owned(), body));
    }

    /// The paths that were requested, each with its login.
    pub(crate) fn requests(&self) -> Vec<(String, String)> {
        self.requests.lock().unwrap().clone()
    }

    /// Answers only as many requests at once, which have to come in at the same time.
    pub(crate) fn answer_together(&self, requests: usize) {
        *self.together.lock().unwrap() = Some(Arc::new(Barrier::new(requests)));
    }

    /// What was sent.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        let bodies = self.bodies.lock().unwrap();
        bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect()
    }

    /// Serves on a listener; what is not set is unknown to the registry.
    pub(crate) fn on(&self, listener: TcpListener) {
        let app = Router::new().fallback(serve).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    }
}

async fn serve(
    State(served): State<FakeRegistry>,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> Response {
    let login = headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
    let together = served.together.lock().unwrap().clone();
    if let Some(together) = together {
        together.wait().await;
    }
    let path = uri.path_and_query().unwrap().to_string();
    served.requests.lock().unwrap().push((path.clone(), login.unwrap_or_default()));
    if !body.is_empty() {
        served.bodies.lock().unwrap().push(body);
    }
    let unknown = (404, json!({"error_code": 40403, "message": "Schema not found"}).to_string());
    let (status, body) = served.answers.lock().unwrap().get(&path).cloned().unwrap_or(unknown);
    if let Some((path, body)) = served.later.lock().unwrap().get(&path) {
        served.answer(path, 200, body);
    }
    (StatusCode::from_u16(status).unwrap(), body).into_response()
}

/// A registry with these answers, and its URL.
pub(crate) async fn registry(answers: &[(&str, u16, Value)]) -> (FakeRegistry, String) {
    let served = FakeRegistry::default();
    for (path, status, body) in answers {
        served.answer(path, *status, body);
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    served.on(listener);
    (served, url)
}

/// A client of the registry at a URL.
pub(crate) fn client(url: &str) -> Registry {
    Registry::new(RegistryUrl::parse(url).unwrap(), None).unwrap()
}
