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
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use mio::Waker;
use store::status::{ReadyCheck, Unready};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use super::keepalive::notice_vanished;
use super::view::View;
use super::{Error, Tls, metrics};

/// A server that does not answer its own HTTP thread within this is not well.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the server's thread is asked: how it is.
pub(super) struct Question(oneshot::Sender<View>);

impl Question {
    /// Answers the request.
    pub fn answer(self, view: View) {
        // Whoever asked may have gone.
        let _ = self.0.send(view);
    }
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

/// Takes the port; nobody is served yet.
///
/// # Errors
/// [`Error::Listen`].
pub(super) fn listen(address: SocketAddr) -> Result<std::net::TcpListener, Error> {
    let bind = || {
        let listener = std::net::TcpListener::bind(address)?;
        notice_vanished(&listener);
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    bind().map_err(|source| Error::Listen { address, option: "--http", source })
}

/// Serves until the process ends, so many connections at a time. With `tls`, only to those who have a certificate.
///
/// # Errors
/// [`Error::System`].
pub(super) fn start(
    listener: std::net::TcpListener,
    tls: Option<&Tls>,
    connections_max: usize,
    questions: Sender<Question>,
    waker: Arc<Waker>,
) -> Result<SocketAddr, Error> {
    let bound = listener.local_addr().map_err(Error::system("see where HTTP listens"))?;
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

/// As etcd's page: `?verbose` lists all checks, `?exclude=CHECK` leaves one out, as often as it is said.
async fn readiness(State(asker): State<Asker>, RawQuery(query): RawQuery) -> Response {
    let asked = match Asked::parse(query.as_deref().unwrap_or_default()) {
        Ok(asked) => asked,
        Err(reason) => return (StatusCode::BAD_REQUEST, reason + "\n").into_response(),
    };
    match asker.ask().await {
        Ok(view) => asked.answer(&view.failed_checks()),
        Err(reason) => unwell(reason),
    }
}

/// What is asked of `/readyz`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    is_verbose: bool,
    excluded: Vec<ReadyCheck>,
}

impl Asked {
    fn parse(query: &str) -> Result<Self, String> {
        let mut asked = Self::default();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=').unwrap_or((part, "")) {
                ("verbose", _) => asked.is_verbose = true,
                ("exclude", name) => {
                    let check = ReadyCheck::ALL.into_iter().find(|check| check.name() == name);
                    let names = ReadyCheck::ALL.map(ReadyCheck::name).join(", ");
                    asked
                        .excluded
                        .push(check.ok_or_else(|| format!("there is no such check: expected one of {names}"))?);
                }
                _ => return Err("expected `verbose` or `exclude=CHECK`".to_owned()),
            }
        }
        Ok(asked)
    }

    fn answer(&self, failed: &[Unready]) -> Response {
        let checks = ReadyCheck::ALL.into_iter().filter(|check| !self.excluded.contains(check));
        let (mut is_ready, mut lines) = (true, Vec::new());
        for check in checks {
            let name = check.name();
            match failed.iter().find(|unready| unready.check == check) {
                Some(unready) => {
                    is_ready = false;
                    lines.push(format!("[-]{name} failed: {}\n", unready.reason));
                }
                None if self.is_verbose => lines.push(format!("[+]{name} ok\n")),
                None => {}
            }
        }
        let text = lines.concat();
        if is_ready {
            return (text + "ready\n").into_response();
        }
        (StatusCode::SERVICE_UNAVAILABLE, text + "not ready\n").into_response()
    }
}
