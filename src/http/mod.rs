//! Trips over HTTP, as JSON and as a page.
//!
//! | file | what happens there |
//! |---|---|
//! | `app` | what every request is answered from |
//! | `token`, `session`, `sessions`, `origin` | who may ask |
//! | `guard`, `budget`, `clients` | how much at once, in all and of one client; what is counted |
//! | `connection`, `pace` | how many connections, and how slow they may be |
//! | `ask`, `body` | a request, read with all its faults |
//! | `trips`, `explain`, `devices`, `changes`, `samples`, `health` | the routes |
//! | `feed` | where changes are read: the store, or the topic beside it |
//! | `answer`, `problem` | what is answered |
//! | `page` | the page, embedded |
//! | `openapi` | the description of it all |

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
use tokio::sync::watch;
use tower_http::compression::CompressionLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

pub use app::{App, Options, Readiness, ServableStore};
pub use token::Token;

/// The routes, with what guards them.
fn router<S: ServableStore>(app: &Arc<App<S>>) -> Router {
    let asked = Router::new()
        .route("/v1/trips/lookup", get(trips::lookup::<S>).post(trips::lookup_many::<S>))
        .route("/v1/trips/{id}", get(trips::by_id::<S>))
        .route("/v1/trips/{id}/explain", get(explain::by_id::<S>))
        .route("/v1/trips", get(trips::of_day::<S>))
        .route("/v1/devices", get(devices::list::<S>))
        .route("/v1/devices/{token}/trips", get(trips::of_device::<S>))
        .route("/v1/changes", get(changes::list::<S>))
        .route("/v1/changes/stream", get(changes::follow::<S>))
        .route("/v1/samples", post(samples::post_samples::<S>))
        .route("/v1/page", get(session::page::<S>))
        .route("/v1/sessions", get(session::list::<S>))
        .route("/v1/sessions/{id}", delete(session::revoke::<S>))
        .layer(from_fn_with_state(Arc::clone(app), middleware::limit::<S>))
        .route("/metrics", get(health::metrics))
        .layer(from_fn_with_state(Arc::clone(app), middleware::pay::<S>))
        .layer(from_fn_with_state(Arc::clone(app), session::require_auth::<S>));
    let open = Router::new()
        .route("/v1/login", post(session::login::<S>))
        .route("/v1/logout", post(session::logout::<S>))
        .route("/openapi.json", get(openapi::answer))
        .route("/", get(page::index))
        .route("/assets/{name}", get(page::asset))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready::<S>))
        .route("/version", get(health::version));
    asked
        .merge(open)
        .fallback(middleware::not_found)
        .method_not_allowed_fallback(middleware::method_not_allowed)
        .layer(from_fn(middleware::end_slow))
        .layer(from_fn_with_state(Arc::clone(app), middleware::name::<S>))
        .layer(cors(&app.options.cors))
        .layer(CompressionLayer::new())
        .layer(from_fn_with_state(Arc::clone(app), middleware::set_headers::<S>))
        .route_layer(from_fn(middleware::measure))
        .with_state(Arc::clone(app))
}

/// Pages of these origins may read answers; without one, none may.
fn cors(origins: &[String]) -> CorsLayer {
    let origins = origins.iter().filter_map(|it| HeaderValue::from_str(it).ok());
    let etag = [header::ETAG, header::LINK, header::CONTENT_LOCATION];
    let last_event = HeaderName::from_static("last-event-id");
    CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE, last_event])
        .expose_headers(etag)
}

/// Answers requests until `stop` comes, and lets those end that are at work.
pub async fn serve<S: ServableStore>(
    listener: TcpListener,
    app: Arc<App<S>>,
    stop: impl Future<Output = ()>,
) {
    let (stopper, stopping) = watch::channel(false);
    let limits = connection::Limits {
        connections: app.options.connections,
        per_client: app.options.connections_per_client,
    };
    let serving = connection::serve(listener, router(&app), limits, stopping);
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => (),
        () = stop => {
            app.stop();
            stopper.send_replace(true);
            serving.await;
        }
    }
}
