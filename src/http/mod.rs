//! The HTTP API and the map page.
//!
//! | module | contents |
//! |---|---|
//! | `app` | state shared by all requests |
//! | `phase` | what the server does now: waits for its store, answers from it, or drains |
//! | `token`, `session`, `sessions`, `origin` | authentication |
//! | `middleware`, `budget`, `clients` | limits per server and per client; request metrics |
//! | `connection`, `stream_pace` | connection limits and timeouts |
//! | `params`, `body` | parameters and bodies of requests |
//! | `trips`, `explain`, `devices`, `changes`, `samples`, `health` | the routes |
//! | `feed` | the source of the change feed: the store or a topic |
//! | `trip_response`, `problem` | responses |
//! | `page` | the map page, embedded |
//! | `openapi` | the description of the API |

mod app;
mod body;
mod budget;
mod changes;
mod clients;
mod connection;
mod devices;
mod explain;
mod feed;
mod health;
mod middleware;
pub mod openapi;
mod origin;
mod page;
mod params;
mod phase;
mod problem;
mod samples;
mod session;
mod sessions;
mod stream_pace;
mod token;
mod trip_response;
mod trips;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{delete, get, post};
use tokio::net::TcpListener;
use tower_http::compression::CompressionLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

pub use app::{App, Options, Readiness};
pub use phase::OpenStore;
pub use token::Token;

/// The routes and their middleware.
fn router(app: &Arc<App>) -> Router {
    let guarded = Router::new()
        .route("/v1/trips/lookup", get(trips::lookup).post(trips::lookup_many))
        .route("/v1/trips/{id}", get(trips::by_id))
        .route("/v1/trips/{id}/explain", get(explain::by_id))
        .route("/v1/trips", get(trips::of_day))
        .route("/v1/devices", get(devices::list))
        .route("/v1/devices/{token}/trips", get(trips::of_device))
        .route("/v1/changes", get(changes::list))
        .route("/v1/changes/stream", get(changes::follow))
        .route("/v1/samples", post(samples::post_samples))
        .route("/v1/page", get(session::page))
        .route("/v1/sessions", get(session::list))
        .route("/v1/sessions/{id}", delete(session::revoke))
        .layer(from_fn_with_state(Arc::clone(app), middleware::limit_requests))
        .route("/metrics", get(health::metrics))
        .layer(from_fn_with_state(Arc::clone(app), middleware::limit_memory))
        .layer(from_fn_with_state(Arc::clone(app), session::require_auth));
    let open = Router::new()
        .route("/v1/login", post(session::login))
        .route("/v1/logout", post(session::logout))
        .route("/openapi.json", get(openapi::answer))
        .route("/", get(page::index))
        .route("/assets/{name}", get(page::asset))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/version", get(health::version));
    guarded
        .merge(open)
        .fallback(middleware::not_found)
        .method_not_allowed_fallback(middleware::method_not_allowed)
        .layer(from_fn(middleware::limit_time))
        .layer(from_fn_with_state(Arc::clone(app), middleware::check_host))
        .layer(cors(&app.options.cors))
        .layer(CompressionLayer::new())
        .layer(from_fn_with_state(Arc::clone(app), middleware::set_headers))
        .route_layer(from_fn(middleware::measure))
        .with_state(Arc::clone(app))
}

/// Allows pages of these origins to read answers.
fn cors(origins: &[String]) -> CorsLayer {
    let origins = origins.iter().filter_map(|it| HeaderValue::from_str(it).ok());
    let exposed = [header::ETAG, header::LINK, header::CONTENT_LOCATION];
    let last_event = HeaderName::from_static("last-event-id");
    CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE, last_event])
        .expose_headers(exposed)
}

/// Serves requests until `stop` completes, then waits for those in progress.
pub async fn serve(listener: TcpListener, app: Arc<App>, stop: impl Future<Output = ()>) {
    let limits = connection::Limits {
        connections: app.options.connections,
        per_client: app.options.connections_per_client,
    };
    let serving = connection::serve(listener, router(&app), limits, app.phase());
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => (),
        () = stop => {
            app.drain();
            serving.await;
        }
    }
}
