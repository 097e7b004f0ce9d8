//! A probe by gRPC's health protocol, over HTTP/2 without TLS.

use std::net::SocketAddr;
use std::time::Instant;

use balance::health::{BadAnswer, grpc};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode};
use tokio::net::TcpStream;

use super::failure::Failure;

/// Bytes of an answer: a number, and what another version may say besides.
const ANSWER_MAX: usize = 4 << 10;

/// Bytes of an answer's headers.
const HEADERS_MAX: u32 = 16 << 10;

/// Whether a server says that it serves this.
pub(super) fn check(service: &str, at: SocketAddr, deadline: Instant) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let answered = tokio::time::timeout_at(deadline.into(), call(service, at)).await;
        answered.unwrap_or(Err(Failure::TimedOut))
    })
}

async fn call(service: &str, at: SocketAddr) -> Result<(), Failure> {
    let stream = TcpStream::connect(at).await?;
    stream.set_nodelay(true)?;
    let (client, connection) = h2::client::Builder::new()
        .enable_push(false)
        .max_header_list_size(HEADERS_MAX)
        .handshake::<_, Bytes>(stream)
        .await?;
    // It ends with the runtime, at the latest.
    tokio::spawn(connection);
    let mut client = client.ready().await?;
    let request = Request::post(format!("http://{at}{}", grpc::PATH))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "heddle")
        .body(())
        .map_err(|error| Failure::Check(error.to_string()))?;
    let (response, mut sending) = client.send_request(request, false)?;
    sending.send_data(grpc::request(service).into(), true)?;
    let (head, mut body) = response.await?.into_parts();
    if head.status != StatusCode::OK {
        return Err(BadAnswer::Status(head.status.as_u16()).into());
    }
    let mut answer = BytesMut::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        answer.extend_from_slice(&part);
        if answer.len() > ANSWER_MAX {
            return Err(BadAnswer::NotGrpc.into());
        }
    }
    // A call that has failed at once says so in front.
    let trailers = body.trailers().await?;
    match trailers.as_ref().and_then(call_status).or_else(|| call_status(&head.headers)) {
        Some(0) => Ok(grpc::judge(&answer)?),
        Some(failed) => Err(BadAnswer::Grpc(failed).into()),
        None => Err(BadAnswer::NotGrpc.into()),
    }
}

fn call_status(headers: &HeaderMap) -> Option<u32> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok()
}
