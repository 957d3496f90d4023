//! The HTTP API and the map page.
//!
//! A route is a handler with `utoipa::path`, and its name in one of the lists below. The lists make
//! both the router and the OpenAPI document.
//!
//! | module | contents |
//! |---|---|
//! | `app` | state shared by all requests |
//! | `phase` | what the server does now: waits for its store, answers from it, or drains |
//! | `access`, `token`, `tokens`, `session`, `sessions`, `origin` | authentication |
//! | `audit` | log lines of who did what, and of who was refused |
//! | `reloaded` | files that are read again when they change |
//! | `middleware`, `budget`, `clients` | limits per server and per client; request metrics |
//! | `connection`, `stream_pace` | connection limits and timeouts |
//! | `call`, `params`, `body` | what handlers read of a request |
//! | `trips`, `trip_lists`, `trip_page`, `list_options`, `summary`, `tags` | routes of trips |
//! | `devices`, `changes`, `samples`, `apps`, `health` | the other routes |
//! | `fresh` | answers that see the memory of the daemon in this process, and name other owners |
//! | `trip_response`, `problem` | responses |
//! | `page`, `basemap` | the map page, embedded; the file of its base map |
//! | `openapi`, `descriptions`, `examples` | the description of the API |

mod access;
mod app;
mod apps;
mod audit;
mod basemap;
mod body;
mod budget;
mod call;
mod changes;
mod clients;
mod connection;
mod descriptions;
mod devices;
mod examples;
mod fresh;
mod health;
mod list_options;
mod middleware;
pub mod openapi;
mod origin;
mod page;
mod params;
mod phase;
mod problem;
mod reloaded;
mod samples;
mod session;
mod sessions;
mod stream_pace;
mod summary;
mod tags;
mod token;
mod tokens;
mod trip_lists;
mod trip_page;
mod trip_response;
mod trips;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::time::MissedTickBehavior;
use tower_http::compression::CompressionLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};
use tower_http::set_header::SetResponseHeaderLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use app::{App, Options};
pub use basemap::Basemap;
pub(crate) use phase::OpenStore;
pub use reloaded::Tls;
use token::Right;
pub(crate) use tokens::TokenSet;
pub use tokens::Tokens;

/// Routes with their OpenAPI descriptions.
type Routes = OpenApiRouter<Arc<App>>;

/// Routes that require a token with the right to read, if the server has tokens, and count as
/// requests.
fn read_routes() -> Routes {
    Routes::default()
        .routes(routes!(trips::lookup, trips::lookup_many))
        .routes(routes!(trips::by_id))
        .routes(routes!(trips::explain))
        .routes(routes!(tags::list))
        .routes(routes!(tags::list_device))
        .routes(routes!(trip_lists::of_fleet))
        .routes(routes!(summary::summary))
        .routes(routes!(devices::list))
        .routes(routes!(trip_lists::of_device))
        .routes(routes!(changes::list))
        .routes(routes!(changes::follow))
        .routes(routes!(session::page))
        .routes(routes!(session::basemap))
        .merge(trip_lists::suffixed())
}

/// Routes that require a token with the right to write, if the server has tokens, and count as
/// requests.
fn write_routes() -> Routes {
    Routes::default()
        .routes(routes!(tags::put, tags::delete))
        .routes(routes!(tags::put_device, tags::delete_device))
        .routes(routes!(samples::post_samples))
}

/// Routes for apps. They require a token with the right to write, as a bearer or as a password, and
/// count as requests.
fn app_routes() -> Routes {
    Routes::default()
        .routes(routes!(apps::owntracks))
        .routes(routes!(apps::overland))
        .routes(routes!(apps::traccar))
        .routes(routes!(apps::traccar_client, apps::osmand))
        .routes(routes!(apps::flespi))
}

/// Routes that require a token with the right to read, and are answered however many requests
/// there are.
fn unlimited_routes() -> Routes {
    Routes::default().routes(routes!(health::metrics))
}

/// Routes for everyone. The page and the document are not described.
fn open_routes() -> Routes {
    Routes::default()
        .routes(routes!(session::login))
        .routes(routes!(session::logout))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::version))
        .route("/openapi.json", get(openapi::answer))
        .route("/", get(page::index))
        .route("/assets/{name}", get(page::asset))
}

/// The routes and their middleware.
fn router(app: &Arc<App>) -> Router {
    let limit_requests = || from_fn_with_state(Arc::clone(app), middleware::limit_requests);
    let require_right = |right| from_fn_with_state((Arc::clone(app), right), access::require_right);
    let reads = Router::from(read_routes())
        .layer(limit_requests())
        .merge(unlimited_routes())
        .layer(require_right(Right::Read));
    let writes =
        Router::from(write_routes()).layer(limit_requests()).layer(require_right(Right::Write));
    let guarded = reads
        .merge(writes)
        .layer(from_fn_with_state(Arc::clone(app), middleware::limit_memory))
        .layer(from_fn_with_state(Arc::clone(app), access::require_auth));
    let of_apps = Router::from(app_routes())
        .layer(limit_requests())
        .layer(from_fn_with_state(Arc::clone(app), access::require_token));
    let router = guarded
        .merge(of_apps)
        .merge(open_routes())
        .fallback(middleware::not_found)
        .method_not_allowed_fallback(middleware::method_not_allowed)
        .layer(from_fn(middleware::limit_time))
        .layer(from_fn_with_state(Arc::clone(app), middleware::check_host))
        .layer(cors(&app.options.settings.http.cors))
        .layer(CompressionLayer::new());
    let with_header = |router: Router<_>, (name, value)| {
        router.layer(SetResponseHeaderLayer::if_not_present(name, value))
    };
    middleware::headers(app)
        .fold(router, with_header)
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
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE])
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            header::IF_MATCH,
            header::IF_NONE_MATCH,
            last_event,
        ])
        .expose_headers(exposed)
}

/// How often the files are read that count without a restart when they change.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// Reads the files again from time to time, for ever.
async fn reload(app: &Arc<App>) {
    let mut ticks = tokio::time::interval(RELOAD_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let app = Arc::clone(app);
        // A panic has ended the process already, by the panic hook.
        tokio::task::spawn_blocking(move || app.check_files()).await.ok();
    }
}

/// Serves requests until `stop` completes, then waits for those in progress.
pub async fn serve(listener: TcpListener, app: Arc<App>, stop: impl Future<Output = ()>) {
    let serving = connection::serve(listener, router(&app), &app);
    tokio::pin!(serving);
    let reloading = reload(&app);
    tokio::select! {
        () = &mut serving => (),
        () = reloading => (),
        () = stop => {
            app.drain();
            serving.await;
        }
    }
}
