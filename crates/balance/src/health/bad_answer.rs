//! What may be wrong with an answer.

/// Why an answer is not the one of a server that is well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    /// It does not begin as one of HTTP does.
    #[error("its answer is none of HTTP/1")]
    NotHttp,
    /// It has another status.
    #[error("it answers with status {0}")]
    Status(u16),
    /// The body does not have what it must.
    #[error("its answer does not contain what it should")]
    Lacks,
    /// It begins otherwise.
    #[error("its answer does not begin as it should")]
    Beginning,
    /// It is no message of DNS, or answers another question.
    #[error("its answer is none of DNS to this question")]
    NotDns,
    /// The name server could not answer.
    #[error("it answers {0}")]
    Dns(&'static str),
    /// The address is not among the answers.
    #[error("the address that is expected is not in its answer")]
    NoAddress,
    /// A call that failed, with gRPC's number for why.
    #[error("its call fails with gRPC's status {0}")]
    Grpc(u32),
    /// It is no message of gRPC's health checks.
    #[error("its answer is none of grpc.health.v1")]
    NotGrpc,
    /// It says so itself.
    #[error("it says {0}")]
    NotServing(&'static str),
}
