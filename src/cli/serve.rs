//! `serve`: trips over HTTP; and the same beside `run`, and after `demo`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tstar::ops::{Cancel, InvalidRequest, PartialResult, PreconditionFailed};

use anyhow::Context as _;
use clap::Args;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tstar::http::{self, App, Options, Readiness, Token};
use tstar::kafka::client::Brokers;
use tstar::kafka::producer::Producer;
use tstar::kafka::tail::{Keep, Tail};
use tstar::model::epoch::Epoch;
use tstar::ops::ingest_request::{FileSink, SampleSink, TopicIntake};
use tstar::settings::Settings;
use tstar::store::{AnyStore, EpochStore, StoreUrl, Timed};
use tstar::telemetry;

use super::exit;
use super::flags::{
    BrokerFlags, Context, EntryFlags, HttpFlags, MemoryFlag, ReaderFlags, ServerFlags, clock_ms,
};
use super::logging;
use super::open;
use super::stop;

const EXAMPLES: &str = "\
Examples:
  tstar serve
  tstar serve --store scylla://127.0.0.1:9042/fleet --listen 127.0.0.1:9000
  tstar serve --listen 0.0.0.0:8080 --token-file /run/secrets/tstar

A page and a JSON API (/openapi.json) over an existing store, and metrics (/metrics). Beyond this
machine it answers with a token alone. With a token it takes samples, too (POST /v1/samples): into a
store of files, or to the topic that the store was built from.
SIGTERM lets requests end that are at work, and ends with 0.";

/// Flags of `serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
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

/// How long between two looks for a store that is not there yet.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Answers until a signal comes.
pub async fn run(args: &ServeArgs, context: &Context) -> anyhow::Result<()> {
    let (http, reader, server) = (&args.http.0[..], &args.reader.0[..], &args.server.0[..]);
    let flags = [http, reader, server, &args.brokers.0, &args.memory.0, &args.entries.0].concat();
    let settings = context.settings(&flags);
    logging::init_logging(settings.as_ref().map_or_else(|_| <_>::default(), |it| it.0.log_format));
    context.warn();
    let (settings, _) = settings?;
    telemetry::install().context("metrics cannot be recorded")?;
    let Some(address) = settings.http.listen else {
        return Err(InvalidRequest("--listen off leaves nothing to serve".into()).into());
    };
    // What is not there is told at once; a server may come later.
    if StoreUrl::parse(&settings.store)?.path().is_some() {
        open::reader(&settings, context).await?;
    }
    let listener = bind(address).await?;
    let stop = stop::on_signals(PartialResult::Read)?;
    let surface = Surface::start(listener, &settings, context, None, stop)?;
    surface.ended().await;
    Ok(())
}

/// Listens at an address.
async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.with_context(|| format!("cannot listen on {address}; name another with --listen"))
}

/// The page over the demo's store, until a signal comes. One that cannot be shown is no fault of
/// the demo.
pub async fn after_demo(settings: &Settings, context: &Context) -> anyhow::Result<()> {
    let Some(address) = settings.http.listen else { return Ok(()) };
    match bind(address).await {
        Ok(listener) => {
            let stop = stop::on_signals(PartialResult::Read)?;
            Surface::start(listener, settings, context, None, stop)?.ended().await;
        }
        Err(error) => exit::print_status(&format!("no page: {error:#}")),
    }
    Ok(())
}

/// The surface of `run`, unless it is off. An address that nobody asked for may be taken already,
/// as by another instance on this machine: then this one goes without.
pub async fn serve_alongside(
    settings: &Settings,
    context: &Context,
    is_asked: bool,
    log: &Readiness,
    stop: &Cancel,
) -> anyhow::Result<Option<Surface>> {
    let Some(address) = settings.http.listen else { return Ok(None) };
    let listener = match bind(address).await {
        Err(error) if !is_asked => {
            exit::print_status(&format!("going on without HTTP: {error:#}"));
            return Ok(None);
        }
        bound => bound?,
    };
    Surface::start(listener, settings, context, Some(log.clone()), stop.clone()).map(Some)
}

/// HTTP that is being answered.
pub struct Surface {
    serving: JoinHandle<()>,
    opening: JoinHandle<()>,
}

impl Surface {
    /// Begins to answer; the store is opened meanwhile.
    pub fn start(
        listener: TcpListener,
        settings: &Settings,
        context: &Context,
        log: Option<Readiness>,
        mut stop: Cancel,
    ) -> anyhow::Result<Self> {
        let app = App::new(options(settings, context)?, clock_ms);
        let app = Arc::new(match log {
            Some(log) => app.reading(log),
            None => app,
        });
        let address = listener.local_addr()?;
        exit::print_status(&format!("listening on http://{address}"));
        let opening = tokio::spawn(open(Arc::clone(&app), settings.clone(), context.clone()));
        let stop = async move { stop.wait().await };
        let serving = tokio::spawn(http::serve(listener, app, stop));
        Ok(Self { serving, opening })
    }

    /// Waits until the last request is answered.
    pub async fn ended(self) {
        // A panic has ended the process already, by the panic hook.
        self.serving.await.ok();
        self.opening.abort();
    }
}

fn options(settings: &Settings, context: &Context) -> anyhow::Result<Options> {
    let http = &settings.http;
    let file = &http.token_file;
    let token = (!file.is_empty()).then(|| token(file, context)).transpose()?;
    let count = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    Ok(Options {
        by_address_only: token.is_none() && !http.insecure,
        token,
        tiles: (!http.tiles.is_empty()).then(|| http.tiles.clone()),
        cors: http.cors.clone(),
        settle_ms: settings.settle_ms,
        requests: count(http.requests),
        streams: count(http.streams),
        streams_per_client: count(http.client_streams),
        connections: count(http.connections),
        connections_per_client: count(http.client_connections),
    })
}

/// Shorter ones can be guessed.
const LEAST_TOKEN: usize = 16;

fn token(path: &str, context: &Context) -> anyhow::Result<Token> {
    let text = context.secret_text("token_file", path)?;
    let token = text.trim();
    if token.len() < LEAST_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let problem = format!(
            "token_file `{path}` holds no token: {LEAST_TOKEN} or more printable characters \
             without spaces; make one with: (umask 077; head -c 24 /dev/urandom | base64 > {path})"
        );
        return Err(PreconditionFailed(problem).into());
    }
    Ok(Token::new(token))
}

/// Opens the store, as soon as it is there.
async fn open(app: Arc<App<Timed<AnyStore>>>, settings: Settings, context: Context) {
    while let Err(error) = try_open(&app, &settings, &context).await {
        tracing::debug!(error = %format!("{error:#}"), "the store is not there yet");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Opens the store, and what goes by the log that it was built from.
async fn try_open(
    app: &App<Timed<AnyStore>>,
    settings: &Settings,
    context: &Context,
) -> anyhow::Result<()> {
    let url = StoreUrl::parse(&settings.store)?;
    let reader = Timed(open::reader(settings, context).await?);
    let epochs = reader.epochs().await?;
    let (newest, of_files) = match (epochs.last(), url.path()) {
        (Some(newest), _) => (Some(newest.clone()), None),
        (None, Some(path)) => {
            let rules = reader.0.rules().await?.unwrap_or_else(|| settings.rules());
            (None, Some((path.to_owned(), rules)))
        }
        (None, None) => (None, None),
    };
    if let Some(newest) = newest {
        beside_topic(app, settings, &newest, reader.0.embedded().is_none())?;
        app.open(reader, newest.rules.max_gap_ms);
    } else if let Some((path, rules)) = of_files {
        let max_gap_ms = rules.max_gap_ms;
        let intake = FileSink::new(path, rules, settings.keep_changes, clock_ms);
        if !settings.http.token_file.is_empty() {
            app.set_sink(SampleSink::File(intake));
        }
        app.open(reader, max_gap_ms);
    } else {
        app.open(reader, settings.max_gap_ms);
        first_epoch(app, settings).await;
    }
    Ok(())
}

/// Waits for a keyspace that nothing was read into yet.
async fn first_epoch(app: &App<Timed<AnyStore>>, settings: &Settings) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let Some(reader) = app.opened() else { continue };
        let epochs = reader.epochs().await.unwrap_or_default();
        let Some(newest) = epochs.last() else { continue };
        match beside_topic(app, settings, newest, true) {
            Ok(()) => return app.set_max_gap(newest.rules.max_gap_ms),
            Err(error) => tracing::debug!(error = %format!("{error:#}"), "its log is not there"),
        }
    }
}

/// Samples go to the topic that a store was built from; a keyspace's changes come from beside it.
fn beside_topic(
    app: &App<Timed<AnyStore>>,
    settings: &Settings,
    newest: &Epoch,
    is_keyspace: bool,
) -> anyhow::Result<()> {
    let brokers = Brokers::new(&settings.brokers, settings.kafka.clone())?;
    if is_keyspace {
        let topic = format!("{}.trips", newest.topic);
        app.set_feed(Tail::start(&brokers, &topic, Keep::default())?);
    }
    if !settings.http.token_file.is_empty() {
        let waiting = Arc::new(|what: &str| tracing::warn!("{what}"));
        let producer = Producer::new(&brokers, waiting)?;
        app.set_sink(SampleSink::Topic(TopicIntake::new(
            producer,
            newest.topic.clone(),
            &newest.rules,
        )?));
    }
    Ok(())
}
