//! How servers are probed, as it is written.

use std::borrow::Cow;
use std::net::IpAddr;

use balance::health::{Check, DnsCheck, HealthSpec, HttpCheck, RecordType, Trust};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::error::Problems;
use crate::host_setup::{Command, plain_text};
use crate::quantity::{Length, Whole};
use crate::read::{Fields, Read, Text, expected, section, shown};
use crate::source::{At, Place};
use crate::tree::{Node, Value};
use crate::vm::FilePath;
use crate::words::{Choice, Keyword, Words, words};

/// An hour in milliseconds.
const HOUR: u64 = 3_600_000;

section! {
    /// How servers are probed: from the server's own host, at its own address.
    HealthText {
        /// `tcp`: a connection is established; `tls`: with a certificate; `http` and `https`: a request is answered as it should be; `udp`: a datagram is answered, or not
        /// refused; `dns`: a name server answers without an error; `grpc`: `grpc.health.v1.Health/Check` says `SERVING`; `command`: a program exits with 0. `tcp` when not
        /// given, or what `run` and the service's protocol say.
        "check" => check: Option<CheckWord>,
        /// With `http`, `https`: the path that is asked for. `/` when not given.
        "path" => path: Option<At<Text>>,
        /// With `http`, `https`, `tls`: the name that is asked for, which the certificate must be for. The server's address when not given.
        "host" => host: Option<At<Text>>,
        /// With `http`, `https`: the status that is good, as `200` or `200-299`. `200-399` when not given.
        "status" => status: Option<At<StatusRange>>,
        /// With `http`, `https`: what the answer's body must contain. Anything when not given.
        "contains" => contains: Option<At<Text>>,
        /// With `https`, `tls`: a file of certificates in PEM, of those who have signed the servers' certificates, relative to the folder of this file; `none`: any certificate is good.
        "ca" => ca: Option<At<FilePath>>,
        /// With `tcp`, `udp`: what is sent; bytes may be written as `0x00ff`. Nothing when not given.
        "send" => send: Option<At<Bytes>>,
        /// With `tcp`, `udp`: how the answer must begin; `""`: anything will do. No answer is waited for when not given.
        "expect" => expect: Option<At<Bytes>>,
        /// With `dns`: the name that is asked for.
        "name" => name: Option<At<Text>>,
        /// With `dns`: what is asked of the name. `a` when not given.
        "type" => record: Option<At<Choice<RecordType>>>,
        /// With `dns`: an address that must be among the answers.
        "answer" => answer: Option<At<Address>>,
        /// With `grpc`: the service that is asked for. The server as a whole when not given.
        "service" => service: Option<At<Text>>,
        /// With `command`: a command line for `sh`, or the program and its arguments as a list. It runs in the server's host, with `HEDDLE_SERVICE`, `HEDDLE_SERVER`,
        /// `HEDDLE_ADDRESS` and `HEDDLE_PORT` in its environment.
        "run" => run: Option<At<Command>>,
        /// Another port than the server's own.
        "port" => port: Option<Whole<1, 65_535>>,
        /// From probe to probe, 10 % more or less. 2s when not given.
        "interval" => interval: Option<Length<false, HOUR>>,
        /// A probe without a result for so long has failed. As long as `interval` when not given.
        "timeout" => timeout: Option<Length<false, HOUR>>,
        /// Successes one after the other until a server is up. 2 when not given.
        "rise" => rise: Option<Whole<1, 1_000>>,
        /// Failures one after the other until it is down. 3 when not given.
        "fall" => fall: Option<Whole<1, 1_000>>,
    }
}

/// What a probe does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckWord {
    Tcp,
    Tls,
    Http,
    Https,
    Udp,
    Dns,
    Grpc,
    Command,
}

words!(CheckWord, "HealthCheck", "a check", {
    "tcp" => CheckWord::Tcp,
    "tls" => CheckWord::Tls,
    "http" => CheckWord::Http,
    "https" => CheckWord::Https,
    "udp" => CheckWord::Udp,
    "dns" => CheckWord::Dns,
    "grpc" => CheckWord::Grpc,
    "command" => CheckWord::Command,
});

impl Keyword for RecordType {
    const SCHEMA: &str = "RecordType";
    const WHAT: &str = "what is asked of a name";
    const ALL: &[Self] = &Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }
}

impl HealthText {
    /// The keys that only some checks have, where they stand, and those checks.
    fn own_keys(&self) -> [(&'static str, Option<Place>, &'static [CheckWord]); 12] {
        use CheckWord::{Command, Dns, Grpc, Http, Https, Tcp, Tls, Udp};
        let Self { path, host, status, contains, ca, send, expect, name, record, answer, service, run, .. } = self;
        [
            ("path", path.as_ref().map(|it| it.place), &[Http, Https]),
            ("host", host.as_ref().map(|it| it.place), &[Http, Https, Tls]),
            ("status", status.as_ref().map(|it| it.place), &[Http, Https]),
            ("contains", contains.as_ref().map(|it| it.place), &[Http, Https]),
            ("ca", ca.as_ref().map(|it| it.place), &[Https, Tls]),
            ("send", send.as_ref().map(|it| it.place), &[Tcp, Udp]),
            ("expect", expect.as_ref().map(|it| it.place), &[Tcp, Udp]),
            ("name", name.as_ref().map(|it| it.place), &[Dns]),
            ("type", record.as_ref().map(|it| it.place), &[Dns]),
            ("answer", answer.as_ref().map(|it| it.place), &[Dns]),
            ("service", service.as_ref().map(|it| it.place), &[Grpc]),
            ("run", run.as_ref().map(|it| it.place), &[Command]),
        ]
    }
}

/// How servers are probed. `is_udp`: whether the service carries datagrams.
pub(super) fn health(
    At { value: text, place, .. }: &At<HealthText>,
    is_udp: bool,
    problems: &mut Problems<'_>,
) -> HealthSpec {
    let check = text.check.unwrap_or(if text.run.is_some() { CheckWord::Command } else { CheckWord::Tcp });
    if is_udp && text.port.is_none() && !matches!(check, CheckWord::Udp | CheckWord::Dns | CheckWord::Command) {
        let message = "nobody can say by a connection whether a server of datagrams is well";
        let hint = "say `check: udp`, `dns` or `command`, or name a `port` at which it takes connections of TCP";
        problems.add(*place, message, "needs a `port`", hint);
    }
    for (key, given, checks) in text.own_keys() {
        if let Some(given) = given.filter(|_| !checks.contains(&check)) {
            let word = |check: &CheckWord| CheckWord::WORDS.iter().find(|(_, it)| it == check).map_or("", |it| it.0);
            let words: Vec<String> = checks.iter().map(|check| format!("`check: {}`", word(check))).collect();
            let message = format!("`{key}` is for {}, this is `{}`", words.join(", "), word(&check));
            problems.add(given, message, "not asked for", format!("say {}", words[0]));
        }
    }
    let mut spec = HealthSpec::new(read_check(text, (check, *place), problems));
    spec.port = text.port.map(|port| port.get() as u16);
    if let Some(interval) = &text.interval {
        (spec.interval, spec.fast_interval, spec.down_interval) = (interval.0, interval.0, interval.0);
        spec.timeout = interval.0;
    }
    if let Some(timeout) = &text.timeout {
        spec.timeout = timeout.0;
    }
    if let Some(rise) = text.rise {
        spec.rise = rise.get();
    }
    if let Some(fall) = text.fall {
        spec.fall = fall.get();
    }
    if let Err(error) = spec.check() {
        problems.add(*place, error.to_string(), "cannot be", "see `docs/services.md`");
    }
    spec
}

fn read_check(text: &HealthText, (check, place): (CheckWord, Place), problems: &mut Problems<'_>) -> Check {
    let owned = |text: &Option<At<Text>>| text.as_ref().map(|text| text.value.0.clone());
    let bytes = |text: &Option<At<Bytes>>| text.as_ref().map(|text| text.value.0.clone());
    match check {
        CheckWord::Tcp => Check::Tcp { send: bytes(&text.send).unwrap_or_default(), expect: bytes(&text.expect) },
        CheckWord::Udp => Check::Udp { send: bytes(&text.send).unwrap_or_default(), expect: bytes(&text.expect) },
        CheckWord::Tls => Check::Tls { trust: trust(text, place, problems), name: host(text, problems) },
        CheckWord::Http | CheckWord::Https => {
            if let Some(path) = text.path.as_ref().filter(|path| !is_path(&path.value.0)) {
                let message = "a path begins with `/`, and has no spaces";
                problems.add(path.place, message, "no path", "write it as in `path: /health`");
            }
            Check::Http(HttpCheck {
                tls: (check == CheckWord::Https).then(|| trust(text, place, problems)),
                path: owned(&text.path).unwrap_or_else(|| "/".to_owned()),
                host: host(text, problems),
                status: text.status.as_ref().map_or((200, 399), |status| (status.value.0, status.value.1)),
                contains: owned(&text.contains),
            })
        }
        CheckWord::Dns => {
            let name = text.name.as_ref();
            if name.is_none() {
                problems.add(place, "a name server is asked for a name", "needs `name`", "add `name: www.example`");
            }
            if let Some(name) = name.filter(|name| !DnsCheck::is_name(&name.value.0)) {
                let message = format!("`{}` is no name of DNS", shown(&name.value.0));
                let hint = "write labels of at most 63 letters, digits and dashes, as in `www.example`";
                problems.add(name.place, message, "no name", hint);
            }
            let record = text.record.as_ref().map_or(RecordType::A, |record| record.value.0);
            let address = text.answer.as_ref().map(|answer| answer.value.0);
            if let Some(answer) = &text.answer
                && record != if answer.value.0.is_ipv4() { RecordType::A } else { RecordType::Aaaa }
            {
                let hint = if answer.value.0.is_ipv4() { "say `type: a`" } else { "say `type: aaaa`" };
                problems.add(answer.place, "no such answer has this address", "of another type", hint);
            }
            Check::Dns(DnsCheck { name: owned(&text.name).unwrap_or_default(), record, address })
        }
        CheckWord::Grpc => Check::Grpc { service: owned(&text.service).unwrap_or_default() },
        CheckWord::Command => {
            if text.run.is_none() {
                problems.add(place, "there is no command", "needs `run`", "add `run: ./healthy.sh`");
            }
            Check::Command { arguments: text.run.as_ref().map(|run| run.value.words()).unwrap_or_default() }
        }
    }
}

/// Whether a request may have it as it stands.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A name that a request may have.
fn host(text: &HealthText, problems: &mut Problems<'_>) -> Option<String> {
    let host = text.host.as_ref()?;
    if host.value.0.is_empty() || !host.value.0.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/') {
        let message = format!("`{}` is no name of a host", shown(&host.value.0));
        problems.add(host.place, message, "no name", "write it as in `host: web.example`");
    }
    Some(host.value.0.clone())
}

/// Whose certificates are good.
fn trust(text: &HealthText, place: Place, problems: &mut Problems<'_>) -> Trust {
    let Some(ca) = &text.ca else {
        let hint = "add `ca: FILE` with the certificate of who has signed those of the servers, or `ca: none`";
        problems.add(place, "it is not said whose certificates are good", "needs `ca`", hint);
        return Trust::Anybody;
    };
    match ca.value.path() {
        "none" => Trust::Anybody,
        file => Trust::Authorities(file.to_owned()),
    }
}

/// The statuses of HTTP that are good: the lowest and the highest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatusRange(pub u16, pub u16);

impl Read for StatusRange {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let status = |text: &str| text.trim().parse::<u16>().ok().filter(|status| (100..=599).contains(status));
        if let Value::Scalar(text) = &node.value {
            let (lowest, highest) = text.split_once('-').unwrap_or((text, text));
            if let (Some(lowest), Some(highest)) = (status(lowest), status(highest))
                && lowest <= highest
            {
                return Some(Self(lowest, highest));
            }
        }
        expected(node, "a status of HTTP like `200`, or a range like `200-299`", problems);
        None
    }
}

impl JsonSchema for StatusRange {
    fn schema_name() -> Cow<'static, str> {
        "StatusRange".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "string"],
            "pattern": "^[1-5][0-9][0-9]( *- *[1-5][0-9][0-9])?$",
            "minimum": 100,
            "maximum": 599,
            "examples": [200, "200-299"],
        })
    }
}

/// Bytes, as text or in hexadecimal digits.
#[derive(Clone, Debug)]
pub(crate) struct Bytes(pub Vec<u8>);

impl Read for Bytes {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        /// What fits a datagram on any link.
        const LONGEST: usize = 1_200;
        let text = plain_text(node, problems)?;
        let bytes = match text.strip_prefix("0x") {
            Some(digits) => from_hex(digits),
            None => Some(text.into_bytes()),
        };
        match bytes {
            Some(bytes) if bytes.len() <= LONGEST => return Some(Self(bytes)),
            Some(bytes) => {
                let message = format!("these are {} bytes, more than {LONGEST}", bytes.len());
                problems.add(node.place, message, "too long", "shorten it");
            }
            None => expected(node, "bytes as text, or in pairs of digits like `0x00ff`", problems),
        }
        None
    }
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = digits.chars().map(|digit| digit.to_digit(16).map(|it| it as u8)).collect::<Option<_>>()?;
    digits.chunks(2).map(|pair| if let [high, low] = pair { Some(high << 4 | low) } else { None }).collect()
}

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "SentBytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"], "examples": ["PING\r\n", "0x00ff"] })
    }
}

/// An address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address(pub IpAddr);

impl Read for Address {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        if let Value::Scalar(text) = &node.value
            && let Ok(address) = text.parse()
        {
            return Some(Self(address));
        }
        expected(node, "an address like `10.1.0.7` or `\"fd68:6564:646c::7\"`", problems);
        None
    }
}

impl JsonSchema for Address {
    fn schema_name() -> Cow<'static, str> {
        "Address".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["10.1.0.7", "fd68:6564:646c::7"] })
    }
}
