//! `serve`: trips over HTTP; also during `run` and after `demo`.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::flags::{
    BrokerFlags, Context, EntryFlags, HttpFlags, MemoryFlag, ReaderFlags, ServerFlags, clock_ms,
};
use super::{exit, http_files, stop};
use crate::http::{self, App, OpenStore, Options};
use crate::model::scalar::DeviceTime;
use crate::ops::demo_live::{DemoNews, LiveFleet};
use crate::ops::readiness::Readiness;
use crate::ops::serve::{self, OpenedStore, ServeRequest};
use crate::ops::{Cancel, InvalidRequest, PartialResult};
use crate::pipeline::daemon::{LiveWorkers, Owners};
use crate::settings::{HttpSettings, Settings};

const EXAMPLES: &str = "\
Examples:
  tstar serve
  tstar serve --store scylla://127.0.0.1:9042/fleet --listen 127.0.0.1:9000
  tstar serve --listen 0.0.0.0:8080 --token-file /run/secrets/tstar

Serves a page, a JSON API (/openapi.json) and metrics (/metrics) over an existing store. Addresses
other than loopback need a token. With a token it also ingests samples (POST /v1/samples), into a
store of files or into the topic that the store was built from.
SIGTERM completes running requests and exits with 0.";

/// Flags of `serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub http: HttpFlags,
    #[command(flatten)]
    pub reader: ReaderFlags,
    #[command(flatten)]
    pub server: ServerFlags,
    #[command(flatten)]
    pub brokers: BrokerFlags,
    #[command(flatten)]
    pub memory: MemoryFlag,
    #[command(flatten)]
    pub entries: EntryFlags,
}

/// Answers until a signal comes.
pub(crate) async fn run(args: &ServeArgs, context: &Context) -> anyhow::Result<()> {
    let ServeArgs { http, reader, server, brokers, memory, entries } = args;
    let flags = [&http.0, &reader.0, &server.0, &brokers.0, &memory.0, &entries.0];
    let settings = context.start_daemon(&flags)?;
    let Some(address) = settings.http.listen else {
        return Err(InvalidRequest("--listen off leaves nothing to serve".into()).into());
    };
    // A file that does not exist is an error at once; a server may come later.
    if settings.url()?.path().is_some() {
        settings.reader().await?;
    }
    let options = options(&settings)?;
    let listener = bind(address).await?;
    let stop = stop::on_signals(PartialResult::Nothing)?;
    let server = HttpServer::start(listener, options, None, stop)?;
    server.ended().await;
    Ok(())
}

/// Listens at an address.
async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.with_context(|| format!("cannot listen on {address}; name another with --listen"))
}

/// Serves the page over the demo's store until a signal comes, while its fleet drives on. The demo
/// succeeds without it.
pub(crate) async fn after_demo(settings: &Settings, fleet: LiveFleet) -> anyhow::Result<()> {
    let Some(address) = settings.http.listen else { return Ok(()) };
    let options = options(settings)?;
    match bind(address).await {
        Ok(listener) => {
            let stop = stop::on_signals(PartialResult::Nothing)?;
            let server = HttpServer::start(listener, options, None, stop)?;
            let driving = tokio::spawn(drive(fleet));
            server.ended().await;
            driving.abort();
        }
        Err(error) => exit::print_status(&format!("no page: {error:#}")),
    }
    Ok(())
}

/// How often each kind of news is printed: the page shows the others.
const NEWS: usize = 3;

/// Lets the fleet of the demo drive on, and prints what late samples do to trips.
async fn drive(mut fleet: LiveFleet) {
    let (mut merges, mut splits) = (0, 0);
    loop {
        let news = match fleet.drive(DeviceTime(clock_ms())).await {
            Ok(news) => news,
            Err(error) => return exit::print_status(&format!("the fleet has stopped: {error:#}")),
        };
        for news in news {
            let count = match news {
                DemoNews::Merged { .. } => &mut merges,
                DemoNews::Split { .. } => &mut splits,
            };
            *count += 1;
            if *count <= NEWS {
                exit::print_status(&news.to_string());
            }
        }
    }
}

/// The HTTP server of `run`, unless it is off. The default address may be in use, as by another
/// instance on this machine: then this one runs without HTTP.
pub(crate) async fn serve_alongside(
    settings: &Settings,
    reading: Reading,
    stop: &Cancel,
) -> anyhow::Result<Option<HttpServer>> {
    let Some(address) = settings.http.listen else { return Ok(None) };
    let options = options(settings)?;
    let listener = match bind(address).await {
        Err(error) if !settings.is_given("listen") => {
            exit::print_status(&format!("continuing without HTTP: {error:#}"));
            return Ok(None);
        }
        bound => bound?,
    };
    HttpServer::start(listener, options, Some(reading), stop.clone()).map(Some)
}

/// The daemon of the process of a server.
pub(crate) struct Reading {
    /// Whether the log is read.
    pub log: Readiness,
    /// Its partition workers.
    pub live: Arc<LiveWorkers>,
    /// The names of the other instances, if they have names.
    pub owners: Option<Arc<Owners>>,
}

/// A running HTTP server.
pub(crate) struct HttpServer {
    serving: JoinHandle<()>,
    opening: JoinHandle<()>,
}

impl HttpServer {
    /// Starts to answer; the store is opened meanwhile.
    ///
    /// # Errors
    /// The address of the listener cannot be read.
    pub(crate) fn start(
        listener: TcpListener,
        options: Options,
        reading: Option<Reading>,
        mut stop: Cancel,
    ) -> anyhow::Result<Self> {
        let request =
            ServeRequest { settings: options.settings.clone(), reads_topic: reading.is_some() };
        let mut app = App::new(options, clock_ms);
        if let Some(Reading { log, live, owners }) = reading {
            app = app.reading(log, live, owners);
        }
        let app = Arc::new(app);
        let address = listener.local_addr()?;
        let scheme = if request.settings.http.tls_cert.is_empty() { "http" } else { "https" };
        exit::print_status(&format!("listening on {scheme}://{address}"));
        warn_of_clear_text(&request.settings.http, address);
        let opening = tokio::spawn(open_store(Arc::clone(&app), request));
        let stop = async move { stop.wait().await };
        let serving = tokio::spawn(http::serve(listener, app, stop));
        Ok(Self { serving, opening })
    }

    /// Waits until the last request is answered.
    pub(crate) async fn ended(self) {
        // A panic has ended the process already, by the panic hook.
        self.serving.await.ok();
        self.opening.abort();
    }
}

/// Warns if tokens can be read by others on the way.
fn warn_of_clear_text(http: &HttpSettings, address: SocketAddr) {
    if !http.token_file.is_empty() && http.tls_cert.is_empty() && !address.ip().is_loopback() {
        exit::print_status(
            "warning: tokens are sent to this address in the clear, unless a proxy in front adds \
             TLS; set tls_cert and tls_key",
        );
    }
}

/// Reads the files that the server needs.
///
/// # Errors
/// One cannot be read or used.
fn options(settings: &Settings) -> anyhow::Result<Options> {
    let file = &settings.http.token_file;
    let tokens = (!file.is_empty()).then(|| http_files::tokens(file, settings)).transpose()?;
    let tls = http_files::certificate(settings)?;
    Ok(Options {
        tokens: tokens.map(Arc::new),
        tls: tls.map(Arc::new),
        basemap: http_files::basemap(settings)?.map(Arc::new),
        settings: settings.clone(),
    })
}

/// Passes the store and its log to the server as soon as they are open.
async fn open_store(app: Arc<App>, request: ServeRequest) {
    let OpenedStore { store, log } = serve::open_store(&request).await;
    let store = Arc::new(store);
    let log = match log {
        Some(log) => log,
        None => {
            app.open(OpenStore::without_log(Arc::clone(&store), request.new_rules()));
            serve::first_log(&request, &store).await
        }
    };
    app.open(OpenStore::new(store, log));
}
