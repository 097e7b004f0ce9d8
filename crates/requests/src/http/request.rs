//! Requests as a server reads them. Whoever sends them may be an enemy: heads and bodies are bounded, and what could be understood in two ways is refused.

/// The longest head: request line and headers.
pub const HEAD_MAX: usize = 8 << 10;
/// The longest body.
pub const BODY_MAX: usize = 64 << 10;
/// The most headers.
const HEADERS_MAX: usize = 64;

/// A request that is all there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// `GET`, `POST`, ..
    pub method: &'a str,
    /// The path, with its query.
    pub path: &'a str,
    /// What was sent with it.
    pub body: &'a [u8],
    /// Whether the client wants to ask again on this connection.
    pub keep_alive: bool,
    /// What kinds of content the client takes, as it says it; empty if it does not.
    pub accept: &'a [u8],
    /// Bytes of head and body.
    pub length: usize,
}

/// What is wrong with a request. The connection is of no use after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It is no HTTP.
    #[error("this is no HTTP/1.1 request")]
    Malformed,
    /// Its head is too long.
    #[error("the head of a request is at most 8 KiB long, and has at most 64 headers")]
    HeadTooLong,
    /// Its body is too long.
    #[error("the body of a request is at most 64 KiB long")]
    BodyTooLong,
    /// It has a transfer coding.
    #[error("expected Content-Length: transfer codings are not read")]
    TransferCoding,
}

impl RequestError {
    /// The status to answer with.
    pub const fn status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::HeadTooLong => 431,
            Self::BodyTooLong => 413,
            Self::TransferCoding => 501,
        }
    }
}

impl<'a> Request<'a> {
    /// The request that these bytes begin with; nothing if more have to come first.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<Self>, RequestError> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut headers);
        let head = match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(head)) if head <= HEAD_MAX => head,
            Ok(httparse::Status::Partial) if bytes.len() < HEAD_MAX => return Ok(None),
            Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(RequestError::HeadTooLong),
            Err(_) => return Err(RequestError::Malformed),
        };
        let (Some(method), Some(path), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
            return Err(RequestError::Malformed);
        };
        let fields = Fields::read(parsed.headers)?;
        let length = head + fields.body;
        let Some(body) = bytes.get(head..length) else { return Ok(None) };
        let keep_alive = if version == 0 { fields.keeps } else { !fields.closes };
        Ok(Some(Self { method, path, body, keep_alive, accept: fields.accept, length }))
    }

    /// Whether the client names this kind of content, `text/html`, and takes it (RFC 9110, 12.5.1).
    pub fn names(&self, media: &str) -> bool {
        self.accept.split(|byte| *byte == b',').any(|part| {
            let mut parts = part.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let is_it = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(media.as_bytes()));
            let is_refused = |parameter: &[u8]| {
                let weight = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="));
                weight.is_some_and(|weight| weight.iter().all(|digit| matches!(digit, b'0' | b'.')))
            };
            is_it && !parts.any(is_refused)
        })
    }
}

/// What is of interest in the headers.
#[derive(Default)]
struct Fields<'a> {
    body: usize,
    closes: bool,
    keeps: bool,
    accept: &'a [u8],
}

impl<'a> Fields<'a> {
    fn read(headers: &[httparse::Header<'a>]) -> Result<Self, RequestError> {
        let mut fields = Self::default();
        let mut length = None;
        for header in headers {
            if header.name.eq_ignore_ascii_case("content-length") {
                let this = content_length(header.value).ok_or(RequestError::Malformed)?;
                // Two that differ are how requests are smuggled.
                if length.is_some_and(|other| other != this) {
                    return Err(RequestError::Malformed);
                }
                length = Some(this);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                return Err(RequestError::TransferCoding);
            } else if header.name.eq_ignore_ascii_case("connection") {
                fields.closes |= has_token(header.value, "close");
                fields.keeps |= has_token(header.value, "keep-alive");
            } else if header.name.eq_ignore_ascii_case("accept") {
                fields.accept = header.value;
            }
        }
        let length = length.unwrap_or(0);
        if length > BODY_MAX as u64 {
            return Err(RequestError::BodyTooLong);
        }
        fields.body = length as usize;
        Ok(fields)
    }
}

/// The value of Content-Length: digits only.
pub(super) fn content_length(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.len() <= 18 && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// Whether a list of tokens has this one.
pub(super) fn has_token(value: &[u8], token: &str) -> bool {
    value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn parse(text: &str) -> Result<Option<Request<'_>>, RequestError> {
        Request::parse(text.as_bytes())
    }

    #[test]
    fn kinds_of_content_are_named_with_their_weights() {
        let named = |accept: &str| {
            let text = format!("GET / HTTP/1.1\r\nAccept: {accept}\r\n\r\n");
            parse(&text).expect("it is one").expect("it is whole").names("text/plain")
        };
        for accept in ["text/plain", "a/b, TEXT/plain;version=0.0.4;q=0.5 ,*/*", "text/plain; q=0.001"] {
            assert!(named(accept), "{accept}");
        }
        for accept in ["", "*/*", "text/plain;q=0", "text/plain; q=0.000", "text/plainer", "text/html"] {
            assert!(!named(accept), "{accept}");
        }
    }

    #[test]
    fn a_request_has_a_method_a_path_and_a_body() {
        let text = "POST /push?a=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET";
        let request = parse(text).expect("it is one").expect("it is whole");
        assert_eq!((request.method, request.path, request.body), ("POST", "/push?a=1", &b"abc"[..]));
        assert_eq!((request.keep_alive, request.length), (true, text.len() - 3));
        for cut in 0..text.len() - 3 {
            assert_eq!(parse(&text[..cut]), Ok(None), "{cut}");
        }
    }

    #[test]
    fn connections_are_kept_as_the_versions_say() {
        let keeps = |text| parse(text).expect("it is one").expect("it is whole").keep_alive;
        assert!(keeps("GET / HTTP/1.1\r\n\r\n") && !keeps("GET / HTTP/1.0\r\n\r\n"));
        assert!(!keeps("GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\n"));
        assert!(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    }

    #[test]
    fn what_an_enemy_sends_is_refused() {
        for (wrong, error) in [
            ("GET\r\n\r\n", RequestError::Malformed),
            ("GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", RequestError::Malformed),
            ("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", RequestError::Malformed),
            ("GET / HTTP/1.1\r\nContent-Length: 65537\r\n\r\n", RequestError::BodyTooLong),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", RequestError::TransferCoding),
            ("\u{16}\u{3}\u{1}", RequestError::Malformed),
        ] {
            assert_eq!(parse(wrong), Err(error), "{wrong}");
            assert!((400..600).contains(&error.status()));
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65));
        let long = format!("GET /{}", "a".repeat(HEAD_MAX));
        assert_eq!((parse(&many), parse(&long)), (Err(RequestError::HeadTooLong), Err(RequestError::HeadTooLong)));
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(0..=255_u8, 0..200)) {
            let _ = Request::parse(&bytes);
        }

        #[test]
        fn what_is_read_lies_within_the_bytes(headers in "([A-Za-z-]{1,20}: [ -~]{0,20}\r\n){0,5}", body in "[ -~]{0,30}") {
            let bytes = format!("GET /a HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
            if let Ok(Some(request)) = Request::parse(bytes.as_bytes()) {
                prop_assert!(request.length <= bytes.len());
                prop_assert_eq!(request.body, body.as_bytes());
            }
        }
    }
}
