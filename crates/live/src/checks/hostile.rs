//! Servers for tests, good ones and others.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use balance::health::{Check, DnsCheck, HttpCheck, RecordType};
use bytes::Bytes;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::failure::Failure;
use super::probe::{Host, Job, Probe};
use super::tls;
use crate::namespace::Namespace;

/// Longer than anything takes that is answered.
const PATIENCE: Duration = Duration::from_secs(60);

/// For what is never answered.
const SHORT: Duration = Duration::from_millis(100);

/// A server that does this with one connection.
fn serving(serve: impl FnOnce(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || serve(listener.accept().unwrap().0));
    at
}

/// A server that gives this answer to one connection.
pub(super) fn server(answer: &'static [u8]) -> SocketAddr {
    serving(move |mut stream| {
        let mut request = [0; 1_024];
        let _ = stream.read(&mut request);
        let _ = stream.write_all(answer);
    })
}

/// One that says this again and again, with a pause between.
fn repeating(answer: &'static [u8], pause: Duration) -> SocketAddr {
    serving(move |mut stream| {
        while stream.write_all(answer).is_ok() {
            thread::sleep(pause);
        }
    })
}

/// One that accepts, and says nothing.
fn silent() -> SocketAddr {
    serving(|mut stream| while matches!(stream.read(&mut [0; 1_024]), Ok(1..)) {})
}

/// Where nobody listens.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn probe_with(check: Check, authorities: Option<&[u8]>, at: SocketAddr, patience: Duration) -> Result<(), Failure> {
    let host = Host {
        service: "web".to_owned(),
        name: "h1".to_owned(),
        address: at.ip(),
        namespace: Namespace::current().unwrap(),
        hosts_file: "/etc/hosts".to_owned(),
        mounts: Vec::new(),
        folder: ".".into(),
    };
    let tls = check.trust().map(|_| tls::configure(authorities));
    Probe { host, check, tls }.run(&Job { number: 7, port: at.port(), patience })
}

fn probe(check: Check, at: SocketAddr, patience: Duration) -> Result<(), Failure> {
    probe_with(check, None, at, patience)
}

fn http(contains: Option<&str>) -> HttpCheck {
    let contains = contains.map(str::to_owned);
    HttpCheck { tls: None, path: "/".to_owned(), host: None, status: (200, 399), contains }
}

#[test]
fn a_server_is_well_if_it_answers_as_it_should() {
    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(probe(Check::connection(), listening.local_addr().unwrap(), PATIENCE).is_ok());
    assert!(matches!(probe(Check::connection(), nobody(), PATIENCE), Err(Failure::Refused)));
    assert!(matches!(probe(Check::Http(http(None)), nobody(), PATIENCE), Err(Failure::Refused)));
    for (answer, contains, is_good) in [
        (&b"HTTP/1.1 200 OK\r\n\r\nfine"[..], None, true),
        (b"HTTP/1.1 200 OK\r\n\r\nfine", Some("fine"), true),
        (b"HTTP/1.1 200 OK\r\n\r\nbad", Some("fine"), false),
        (b"HTTP/1.0 503 Service Unavailable\r\n\r\n", None, false),
        (b"SSH-2.0", None, false),
        (b"", None, false),
    ] {
        let result = probe(Check::Http(http(contains)), server(answer), PATIENCE);
        assert_eq!(result.is_ok(), is_good, "{}: {result:?}", String::from_utf8_lossy(answer));
    }
    for (expect, is_good) in [(&b"+PONG"[..], true), (b"", true), (b"-ERR", false), (b"+PONG\r\nand more", false)] {
        let check = Check::Tcp { send: b"PING\r\n".to_vec(), expect: Some(expect.to_vec()) };
        assert_eq!(probe(check, server(b"+PONG\r\n"), PATIENCE).is_ok(), is_good);
    }
    let anything = Check::Tcp { send: b"?".to_vec(), expect: Some(Vec::new()) };
    assert!(probe(anything, server(b""), PATIENCE).is_err());
}

/// Servers that say too much, too slowly, or nothing: each probe has an end.
#[test]
fn no_server_holds_a_prober() {
    let (tls, grpc) = (
        HttpCheck { tls: Some(balance::health::Trust::Anybody), ..http(Some("x")) },
        Check::Grpc { service: String::new() },
    );
    let endless = Check::Http(http(Some("never")));
    let checks = || [endless.clone(), Check::Http(tls.clone()), grpc.clone()];
    for check in checks() {
        assert!(matches!(probe(check, silent(), SHORT), Err(Failure::TimedOut)));
    }
    for check in checks() {
        let slow = repeating(b"H", Duration::from_millis(5));
        assert!(probe(check, slow, SHORT * 3).is_err());
    }
    // As fast as it can: what is kept is bounded, and so is what is looked at.
    let answer = b"HTTP/1.1 200 OK\r\nx: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n\r\n";
    for check in checks() {
        let failed = probe(check, repeating(answer, Duration::ZERO), PATIENCE);
        assert!(failed.is_err() && !matches!(failed, Err(Failure::TimedOut)), "{failed:?}");
    }
    for garbage in [&b"\x16\x03\x03\xff\xff"[..], b"\0\0\0\x04\0\0\0\0\0", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"]
    {
        for check in checks() {
            assert!(probe(check, server(garbage), PATIENCE).is_err());
        }
    }
}

#[test]
fn datagrams_are_answered_or_not_refused() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    let udp = |expect: Option<&[u8]>| Check::Udp { send: b"ping".to_vec(), expect: expect.map(<[u8]>::to_vec) };
    let refused = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for expect in [None, Some(&b"p"[..])] {
        assert!(matches!(probe(udp(expect), refused, PATIENCE), Err(Failure::Refused)));
    }
    // Nobody reads it, and nobody says so.
    assert!(probe(udp(None), at, SHORT).is_ok());
    assert!(matches!(probe(udp(Some(b"")), at, SHORT), Err(Failure::TimedOut)));
    thread::spawn(move || {
        let mut datagram = [0; 1_024];
        while let Ok((length, from)) = socket.recv_from(&mut datagram) {
            let datagram = &mut datagram[..length];
            // A name server whose answers have no records, and that knows no `gone`.
            datagram.get_mut(2).filter(|_| length > 12).into_iter().for_each(|flags| *flags |= 0x80);
            if datagram.windows(4).any(|label| label == b"gone") {
                datagram[3] |= 3;
            }
            let _ = socket.send_to(datagram, from);
        }
    });
    assert!(probe(udp(Some(b"pi")), at, PATIENCE).is_ok());
    assert!(probe(udp(Some(b"po")), at, PATIENCE).is_err());
    let dns = |name: &str, address: Option<&str>| {
        let address = address.map(|address| address.parse().unwrap());
        Check::Dns(DnsCheck { name: name.to_owned(), record: RecordType::A, address })
    };
    assert!(probe(dns("www.example", None), at, PATIENCE).is_ok());
    let absent = probe(dns("gone.example", None), at, PATIENCE).unwrap_err();
    assert_eq!(absent.to_string(), "it answers NXDOMAIN");
    assert!(probe(dns("www.example", Some("10.0.0.1")), at, PATIENCE).is_err());
}

/// A server by TLS for `web.example`, who has signed its certificate itself; and that certificate.
fn by_tls() -> (impl Fn() -> SocketAddr, String) {
    let signed = rcgen::generate_simple_self_signed(["web.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(signed.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![signed.cert.der().clone()], key).unwrap();
    let config = Arc::new(config);
    let start = move || {
        let config = Arc::clone(&config);
        serving(move |stream| {
            let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
            let mut request = [0; 1_024];
            if matches!(stream.read(&mut request), Ok(1..)) {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nfine");
            }
        })
    };
    (start, signed.cert.pem())
}

#[test]
fn certificates_are_verified_unless_anybody_is_good() {
    use balance::health::Trust;
    let (start, own) = by_tls();
    let (_, another) = by_tls();
    let https = |host: Option<&str>| {
        let host = host.map(str::to_owned);
        Check::Http(HttpCheck { tls: Some(Trust::Authorities(String::new())), host, ..http(Some("fine")) })
    };
    for (host, authorities, is_good) in [
        (Some("web.example"), Some(&own), true),
        (Some("web.example:8443"), Some(&own), true),
        (Some("web.example"), Some(&another), false),
        (Some("other.example"), Some(&own), false),
        (None, Some(&own), false),
        (None, None, true),
    ] {
        let result = probe_with(https(host), authorities.map(String::as_bytes), start(), PATIENCE);
        assert_eq!(result.is_ok(), is_good, "{host:?}: {result:?}");
        assert!(is_good || matches!(result, Err(Failure::Tls(_))), "{result:?}");
        let check = Check::Tls { trust: Trust::Anybody, name: host.map(str::to_owned) };
        let result = probe_with(check, authorities.map(String::as_bytes), start(), PATIENCE);
        assert_eq!(result.is_ok(), is_good, "{host:?}: {result:?}");
    }
    let plain = probe(https(None), server(b"HTTP/1.1 400 Bad Request\r\n\r\n"), PATIENCE);
    assert!(matches!(plain, Err(Failure::Tls(_))), "{plain:?}");
}

/// A server of gRPC that answers one call so: by this status of HTTP, this body, these trailers.
fn by_grpc(status: u16, body: &'static [u8], grpc_status: Option<&'static str>) -> SocketAddr {
    serving(move |stream| {
        stream.set_nonblocking(true).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::from_std(stream).unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let mut is_answered = false;
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                assert!(!is_answered && request.uri().path() == "/grpc.health.v1.Health/Check");
                is_answered = true;
                let response = http::Response::builder().status(status).body(()).unwrap();
                let mut sending = respond.send_response(response, false).unwrap();
                sending.send_data(Bytes::from_static(body), grpc_status.is_none()).unwrap();
                if let Some(grpc_status) = grpc_status {
                    let mut trailers = http::HeaderMap::new();
                    trailers.insert("grpc-status", grpc_status.parse().unwrap());
                    sending.send_trailers(trailers).unwrap();
                }
            }
        });
    })
}

#[test]
fn a_server_of_grpc_says_how_it_does() {
    const SERVING: &[u8] = &[0, 0, 0, 0, 2, 8, 1];
    const NOT_SERVING: &[u8] = &[0, 0, 0, 0, 2, 8, 2];
    let check = || Check::Grpc { service: "web".to_owned() };
    let long: &'static [u8] = vec![0; 100_000].leak();
    for (status, body, grpc_status, expected) in [
        (200, SERVING, Some("0"), Ok(())),
        (200, NOT_SERVING, Some("0"), Err("it says NOT_SERVING")),
        (200, &[], Some("12"), Err("its call fails with gRPC's status 12")),
        (200, SERVING, None, Err("its answer is none of grpc.health.v1")),
        (404, SERVING, Some("0"), Err("it answers with status 404")),
        (200, long, Some("0"), Err("its answer is none of grpc.health.v1")),
    ] {
        let result = probe(check(), by_grpc(status, body, grpc_status), PATIENCE);
        assert_eq!(result.map_err(|failure| failure.to_string()), expected.map_err(str::to_owned));
    }
    assert!(matches!(probe(check(), nobody(), PATIENCE), Err(Failure::Refused)));
}
