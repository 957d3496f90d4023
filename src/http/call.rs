//! What handlers read of a request.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use serde::de::DeserializeOwned;

use super::access::{Access, peer};
use super::app::App;
use super::clients::Peer;
use super::params::Params;
use super::problem::Problem;

/// A request without its body.
pub(crate) struct Call {
    pub app: Arc<App>,
    pub params: Params,
    pub headers: HeaderMap,
    pub uri: Uri,
    /// How it is authorised.
    pub access: Access,
    pub peer: Peer,
}

impl FromRequestParts<Arc<App>> for Call {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Infallible> {
        Ok(Self {
            app: Arc::clone(app),
            params: Params::of_uri(&parts.uri),
            headers: parts.headers.clone(),
            uri: parts.uri.clone(),
            access: parts.extensions.get::<Access>().cloned().unwrap_or(Access::Open),
            peer: peer(&parts.extensions),
        })
    }
}

impl Call {
    /// The name of the token of the request.
    pub(crate) fn token_name(&self) -> Option<&str> {
        self.access.token().map(|token| token.name())
    }
}

/// The variable segments of a URL path.
pub(crate) struct Segments<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Segments<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(it)| Self(it)).map_err(|error| Problem::fault("path", error))
    }
}
