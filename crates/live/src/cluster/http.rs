//! `/metrics`, `/healthz`, `/readyz`: HTTP for those who watch over servers, in a thread of its own.
//!
//! On loopback it is plain HTTP. Elsewhere it is HTTPS, and whoever asks needs a certificate of the cluster's authority.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use mio::Waker;
use store::status::Status;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{Error, Tls, metrics};

/// A server that does not answer its own HTTP thread within this is not well.
const PATIENCE: Duration = Duration::from_secs(2);

/// A TLS handshake takes so long at most.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

/// Connections whose handshake is done and that wait for their turn.
const ACCEPTED_MAX: usize = 16;

/// What the server's thread is asked: how it is.
pub(super) struct Question(oneshot::Sender<View>);

impl Question {
    /// Answers it.
    pub fn answer(self, view: View) {
        // Whoever asked may have gone.
        let _ = self.0.send(view);
    }
}

/// How a server is.
pub(super) struct View {
    pub status: Status,
    pub is_ready: bool,
    /// The disk does not take writes now, and why.
    pub disk_trouble: Option<String>,
    pub disk: store::status::DiskStatus,
    pub dropped_envelopes: u64,
    pub connections: usize,
}

/// Asks the server's thread.
#[derive(Clone)]
struct Asker {
    questions: Sender<Question>,
    waker: Arc<Waker>,
}

impl Asker {
    async fn ask(&self) -> Result<View, String> {
        let (to, answer) = oneshot::channel();
        let gone = |_| "the server has ended".to_owned();
        self.questions.send(Question(to)).map_err(|_| "the server has ended".to_owned())?;
        self.waker.wake().map_err(|error| error.to_string())?;
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(answer) => answer.map_err(gone),
            Err(_) => Err(format!("the server's thread did not answer within {} s", PATIENCE.as_secs())),
        }
    }
}

/// Serves until the process ends. With `tls`, only to those who have a certificate.
///
/// # Errors
/// [`Error::Listen`], [`Error::System`].
pub(super) fn start(
    address: SocketAddr,
    tls: Option<&Tls>,
    questions: Sender<Question>,
    waker: Arc<Waker>,
) -> Result<SocketAddr, Error> {
    let listen = |source| Error::Listen { address, source };
    let listener = std::net::TcpListener::bind(address).map_err(listen)?;
    listener.set_nonblocking(true).map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Error::system("make an event loop"))?;
    let acceptor = tls.map(|tls| TlsAcceptor::from(tls.server()));
    let serve = async move {
        let listener = TcpListener::from_std(listener)?;
        let router = router(Asker { questions, waker });
        match acceptor {
            None => axum::serve(listener, router).await,
            Some(acceptor) => axum::serve(Secured::new(listener, acceptor)?, router).await,
        }
    };
    let work = move || {
        if let Err(error) = runtime.block_on(serve) {
            tracing::error!("HTTP has ended: {error}");
        }
    };
    thread::Builder::new().name("http".into()).spawn(work).map_err(Error::system("make a thread"))?;
    Ok(bound)
}

fn router(asker: Asker) -> Router {
    Router::new()
        .route("/metrics", get(metrics_page))
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .with_state(asker)
}

fn unwell(reason: String) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, reason + "\n").into_response()
}

async fn metrics_page(State(asker): State<Asker>) -> Response {
    match asker.ask().await {
        Ok(view) => {
            let kind = (header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
            ([kind], metrics::page(&view)).into_response()
        }
        Err(reason) => unwell(reason),
    }
}

async fn health(State(asker): State<Asker>) -> Response {
    match asker.ask().await {
        Ok(View { disk_trouble: Some(reason), .. }) | Err(reason) => unwell(reason),
        Ok(_) => "ok\n".into_response(),
    }
}

async fn readiness(State(asker): State<Asker>) -> Response {
    match asker.ask().await {
        Ok(view) if view.is_ready => "ready\n".into_response(),
        Ok(view) if !view.status.leaders.contains_key(&placement::ShardId::META) => {
            unwell("the cluster has no leader that is known here".into())
        }
        Ok(_) => unwell("replicas here are behind".into()),
        Err(reason) => unwell(reason),
    }
}

/// A listener whose connections have done their TLS handshake. One that takes its time does not hold up the others.
struct Secured {
    accepted: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    local: SocketAddr,
}

impl Secured {
    fn new(listener: TcpListener, acceptor: TlsAcceptor) -> io::Result<Self> {
        let local = listener.local_addr()?;
        let (done, accepted) = mpsc::channel(ACCEPTED_MAX);
        tokio::spawn(async move {
            loop {
                // The next one has room for its result, so unfinished handshakes are bounded as well.
                let Ok(room) = done.clone().reserve_owned().await else { return };
                let (stream, address) = match listener.accept().await {
                    Ok(connection) => connection,
                    Err(error) => {
                        tracing::warn!("HTTP: cannot accept a connection: {error}");
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        continue;
                    }
                };
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    match tokio::time::timeout(HANDSHAKE_PATIENCE, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => drop(room.send((stream, address))),
                        Ok(Err(error)) => tracing::info!("HTTP: {address}: {error}"),
                        Err(_) => tracing::info!("HTTP: {address}: no handshake in time"),
                    }
                });
            }
        });
        Ok(Self { accepted, local })
    }
}

impl axum::serve::Listener for Secured {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        self.accepted.recv().await.expect("the task that accepts lives as long as its runtime")
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.local)
    }
}
