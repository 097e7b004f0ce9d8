//! HTTP/1.1 as far as these programs speak it (RFC 9112): bytes in, bytes out, no sockets.

mod chunked;
pub mod request;
pub mod response;

pub use request::{Request, RequestError};
pub use response::{Answer, AnswerReader, Body, Response};
