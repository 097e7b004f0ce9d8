//! `/metrics`, `/healthz`, `/readyz`: HTTP for those who watch over servers, in a thread of its own.
//!
//! On loopback it is plain HTTP. Elsewhere it is HTTPS, and whoever asks needs a certificate of the cluster's authority.

mod connections;

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
use store::alarm::Alarms;
use store::status::{Latencies, RefusalCount, Status, StoppedReplica};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use super::{Error, Tls, metrics};

/// A server that does not answer its own HTTP thread within this is not well.
const PATIENCE: Duration = Duration::from_secs(2);

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
    /// Replicas that have stopped.
    pub stopped: Vec<StoppedReplica>,
    /// The disk does not take writes now, and why.
    pub disk_trouble: Option<String>,
    pub disk: store::status::DiskStatus,
    pub alarms: Alarms,
    pub dropped_envelopes: u64,
    /// Connections that were closed since too many held parts of messages.
    pub unfinished_frames: u64,
    pub memory: store::budget::Usage,
    pub connections: usize,
    /// Of the audit log, if there is one.
    pub audit: Option<super::audit::Figures>,
    /// Connections that had to go for another one before they had said who they are.
    pub displaced: u64,
    /// Who was refused what, and refusals that there is no counter for.
    pub refusals: Vec<RefusalCount>,
    pub other_refusals: u64,
    /// How long writes to the log took.
    pub log_writes: Latencies,
    /// The version of the protocol that all servers speak.
    pub protocol: u32,
    /// Who was refused as a peer or a joiner, by reason.
    pub refused: Vec<(&'static str, u64)>,
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

/// Serves until the process ends, so many connections at a time. With `tls`, only to those who have a certificate.
///
/// # Errors
/// [`Error::Listen`], [`Error::System`].
pub(super) fn start(
    address: SocketAddr,
    tls: Option<&Tls>,
    connections_max: usize,
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
        connections::serve(listener, acceptor, router(Asker { questions, waker }), connections_max).await;
        Ok::<_, std::io::Error>(())
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
        Ok(View { stopped, .. }) if !stopped.is_empty() => {
            unwell(stopped.into_iter().map(|replica| replica.reason).collect::<Vec<_>>().join("\n"))
        }
        Ok(_) => unwell("replicas here are behind".into()),
        Err(reason) => unwell(reason),
    }
}
