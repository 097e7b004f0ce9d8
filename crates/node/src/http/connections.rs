//! Connections for HTTP: each has one request, a small one, and so long for all of it.
//!
//! There are so many at most; the host that has the most of them loses its oldest when there is one more.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::crowd::Crowd;
use crate::descriptors::is_short;
use crate::remote::RemoteHost;

/// A TLS handshake takes so long at most.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

/// The head of a request has come by then.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);

/// A connection is closed by then, whatever it still has to say or to read.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(30);

/// Longest head of a request, bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Fields in the head of a request, at most.
const FIELDS_MAX: usize = 64;

/// When there is no descriptor, the next attempt to accept comes after this.
const SHORT_PAUSE: Duration = Duration::from_millis(500);

/// Serves for ever.
pub(super) async fn serve(listener: TcpListener, acceptor: Option<TlsAcceptor>, router: Router, max: usize) {
    let service = router.layer(middleware::from_fn(refuse_bodies));
    let mut open = Open { crowd: Crowd::new(max), handles: HashMap::new(), tasks: JoinSet::new() };
    let mut waits = false;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(ended) = open.tasks.join_next_with_id() => {
                open.forget(ended.map_or_else(|error| error.id(), |(id, ())| id));
                continue;
            }
        };
        match accepted {
            Ok((stream, address)) => {
                waits = false;
                open.serve(stream, address, acceptor.clone(), service.clone());
            }
            Err(error) if is_short(&error) => {
                if !std::mem::replace(&mut waits, true) {
                    tracing::warn!("HTTP: cannot accept a connection: {error}; those who connect have to wait");
                }
                sleep(SHORT_PAUSE).await;
            }
            Err(error) => tracing::debug!("HTTP: cannot accept a connection: {error}"),
        }
    }
}

/// Connections that are being served.
struct Open {
    crowd: Crowd<Id>,
    handles: HashMap<Id, AbortHandle>,
    tasks: JoinSet<()>,
}

impl Open {
    fn serve(&mut self, stream: TcpStream, address: SocketAddr, acceptor: Option<TlsAcceptor>, service: Router) {
        let Ok(local) = stream.local_addr() else { return };
        let host = RemoteHost::of(&stream, address, local);
        let handle = self.tasks.spawn(async move {
            if timeout(CONNECTION_PATIENCE, converse(stream, address, acceptor, service)).await.is_err() {
                tracing::info!("HTTP: {address} took too long");
            }
        });
        let displaced = self.crowd.insert(handle.id(), host);
        self.handles.insert(handle.id(), handle);
        if let Some(handle) = displaced.and_then(|id| self.handles.get(&id)) {
            handle.abort();
        }
    }

    fn forget(&mut self, id: Id) {
        self.crowd.remove(id);
        self.handles.remove(&id);
    }
}

async fn converse(stream: TcpStream, address: SocketAddr, acceptor: Option<TlsAcceptor>, service: Router) {
    let Some(acceptor) = acceptor else { return answer(stream, address, service).await };
    match timeout(HANDSHAKE_PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => answer(stream, address, service).await,
        Ok(Err(error)) => tracing::info!("HTTP: {address}: {error}"),
        Err(_) => tracing::info!("HTTP: {address}: no handshake in time"),
    }
}

async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, address: SocketAddr, service: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).keep_alive(false);
    http.max_buf_size(HEAD_BYTES_MAX).max_headers(FIELDS_MAX);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await {
        tracing::info!("HTTP: {address}: {error}");
    }
}

/// No page takes a body.
async fn refuse_bodies(request: Request, next: Next) -> Response {
    if request.body().size_hint().upper() != Some(0) {
        return (StatusCode::PAYLOAD_TOO_LARGE, "no page takes a body\n").into_response();
    }
    next.run(request).await
}
