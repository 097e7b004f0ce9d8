//! Scenarios as text: `testdata/*.txt`, run by one small interpreter.
//!
//! ```text
//! servers 3                                   start servers 1 to 3, which know and reach each other; a message takes 1 ms
//! offer 2.7 people:add-person [PATH]          provider 7, a client of server 2, offers a procedure
//! withdraw 2.7 people:add-person [PATH] | gone 2.7
//! call 1#5 NAME [PATH] [idempotent] [within 2s]       a client of server 1 makes its call number 5
//! reply 2.7 ok TEXT | reply 2.7 fail TEXT             answers the oldest delivery that the provider has not answered
//! cut 1 2 | heal | double | crash 3 | restart 3 INCARNATION | lost 1 2 (1 learns that it lost 2) | members 1 2
//! advance 20ms
//! expect deliver 2.7 NAME [PATH] | expect answer 1#5 ok TEXT | expect answer 1#5 error TEXT (how the error begins)
//! expect refused 2.7 TEXT | expect bucket 1 2 OFFER, OFFER (what 1 thinks that 2 offers) | expect unknown 1 2 | expect equal
//! expect near 1 NAME HINT, HINT (what 1 knows that looks like it) | expect near 1 NAME none
//! expect counter 1 NAME VALUE | expect messages-refused 3 TEXT (one or more, all from 3; how the error begins)
//! ```
//!
//! What comes out must be expected before the next command, in order and completely.
#![allow(clippy::disallowed_methods, reason = "scripts are files")]

use std::collections::{BTreeMap, VecDeque};

use crate::net::Net;
use machine::ServerId;
use machine::nanos::Span;
use rpc::Path;
use rpc::{Call, CallId, Config, DeliveryId, Input, Offer, Output, ProviderId};

struct Script {
    net: Net,
    /// What each provider has not answered.
    open: BTreeMap<(ServerId, ProviderId), VecDeque<DeliveryId>>,
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("a number: {text}"))
}

fn server(text: &str) -> ServerId {
    ServerId(number(text))
}

fn span(text: &str) -> Span {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    match &text[digits.len()..] {
        "us" => Span::from_us(number(digits)),
        "ms" => Span::from_ms(number(digits)),
        "s" => Span::from_secs(number(digits)),
        unit => panic!("unit {unit} of {text}: us, ms or s"),
    }
}

/// `2.7`: client 7 of server 2; `1#5`: call 5 at server 1.
fn pair(text: &str, between: char) -> (ServerId, u64) {
    let (at, n) = text.split_once(between).unwrap_or_else(|| panic!("SERVER{between}NUMBER: {text}"));
    (server(at), number(n))
}

fn provider(text: &str) -> (ServerId, ProviderId) {
    let (at, n) = pair(text, '.');
    (at, ProviderId(n))
}

fn path(text: &str) -> Path {
    Path::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn offer(words: &[&str]) -> Offer {
    Offer { name: words[0].to_owned(), path: words.get(1).map(|text| path(text)) }
}

impl Script {
    fn command(&mut self, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        if words[0] == "expect" {
            return self.expect(&words[1..], line);
        }
        assert!(self.net.events.is_empty(), "not expected: {:?}", self.net.events);
        match words[0] {
            "servers" => self.net = Net::cluster(1, number(words[1]), Config::default()),
            "offer" => {
                let (at, provider) = provider(words[1]);
                self.net.input(at, Input::Offer { provider, offers: vec![offer(&words[2..])] });
            }
            "withdraw" => {
                let (at, provider) = provider(words[1]);
                self.net.input(at, Input::Withdraw { provider, offers: vec![offer(&words[2..])] });
            }
            "gone" => {
                let (at, provider) = provider(words[1]);
                self.open.remove(&(at, provider));
                self.net.input(at, Input::ProviderGone(provider));
            }
            "call" => self.call(&words),
            "cancel" => {
                let (at, id) = pair(words[1], '#');
                self.net.input(at, Input::Cancel(CallId(id)));
            }
            "reply" => self.reply(&words),
            "advance" => self.net.advance(span(words[1])),
            _ => self.fault(&words),
        }
    }

    fn fault(&mut self, words: &[&str]) {
        match words[0] {
            "cut" => {
                let (a, b) = (server(words[1]), server(words[2]));
                self.net.cut.extend([(a, b), (b, a)]);
            }
            "heal" => self.net.cut.clear(),
            "double" => self.net.faults.doubled = 100,
            "crash" => self.net.crash(server(words[1])),
            "restart" => {
                let all: Vec<_> = self.net.servers.keys().copied().chain([server(words[1])]).collect();
                self.net.start(server(words[1]), number(words[2]), Config::default());
                self.net.everybody(&all);
            }
            "lost" => self.net.input(server(words[1]), Input::ServerLost(server(words[2]))),
            "members" => {
                let members: Vec<_> = words[1..].iter().map(|word| server(word)).collect();
                self.net.everybody(&members);
            }
            other => panic!("no command {other}"),
        }
    }

    fn call(&mut self, words: &[&str]) {
        let (at, id) = pair(words[1], '#');
        let within = words.iter().position(|&word| word == "within");
        let call = Call {
            id: CallId(id),
            name: words[2].to_owned(),
            path: words.iter().find(|word| word.starts_with('/')).map(|text| path(text)),
            input: b"input"[..].into(),
            timeout: within.map_or(Span::from_secs(5), |i| span(words[i + 1])),
            idempotent: words.contains(&"idempotent"),
        };
        self.net.input(at, Input::Call(call));
    }

    fn reply(&mut self, words: &[&str]) {
        let (at, provider) = provider(words[1]);
        let open = self.open.get_mut(&(at, provider)).and_then(VecDeque::pop_front);
        let delivery = open.unwrap_or_else(|| panic!("nothing is open at {}", words[1]));
        let text = words[3..].join(" ");
        let result = if words[2] == "ok" { Ok(text.as_str().into()) } else { Err(text) };
        self.net.input(at, Input::Reply { provider, delivery, result });
    }

    fn expect(&mut self, words: &[&str], line: &str) {
        match words[0] {
            "deliver" | "answer" | "refused" => {
                let wanted = words.join(" ");
                let got = self.event();
                let matches = if words.get(2) == Some(&"error") || words[0] == "refused" {
                    got.starts_with(&wanted)
                } else {
                    got == wanted
                };
                assert!(matches, "{line}: but it was {got}");
            }
            "bucket" => {
                let held = self.net.servers[&server(words[1])].registry().buckets().get(&server(words[2]));
                let held = held.unwrap_or_else(|| panic!("{line}: nothing is known"));
                let offers: Vec<_> = held.offers.iter().map(ToString::to_string).collect();
                assert_eq!(offers.join(", "), words[3..].join(" "), "{line}");
            }
            "near" => {
                let near = self.net.servers[&server(words[1])].near(words[2]).join(", ");
                assert_eq!(if near.is_empty() { "none" } else { &near }, words[3..].join(" "), "{line}");
            }
            "unknown" => {
                let buckets = self.net.servers[&server(words[1])].registry().buckets();
                assert!(!buckets.contains_key(&server(words[2])), "{line}");
            }
            "equal" => assert!(self.net.agrees(), "{line}"),
            "messages-refused" => self.expect_messages_refused(server(words[1]), &words[2..].join(" ")),
            "counter" => {
                let counters = format!("{:?}", self.net.servers[&server(words[1])].counters());
                let field = format!(" {}: {}", words[2], words[3]);
                assert!(
                    counters.contains(&format!("{field},")) || counters.contains(&format!("{field} ")),
                    "{line}: {counters}"
                );
            }
            other => panic!("no expectation {other}"),
        }
    }

    fn expect_messages_refused(&mut self, sender: ServerId, text: &str) {
        let mut count = 0;
        while let Some((.., Output::MessageRefused { from, error })) = self.net.events.front() {
            assert!(*from == sender && error.to_string().starts_with(text), "{from}: {error}");
            self.net.events.pop_front();
            count += 1;
        }
        assert!(count > 0, "no message was refused");
    }

    /// The next event as text.
    fn event(&mut self) -> String {
        let (_, at, output) = self.net.events.pop_front().unwrap_or_else(|| panic!("nothing came out"));
        match output {
            Output::Deliver { provider, delivery, name, path, input } => {
                assert_eq!(&*input, b"input");
                self.open.entry((at, provider)).or_default().push_back(delivery);
                let path = path.map_or(String::new(), |path| format!(" {}", path.as_str()));
                format!("deliver {at}.{provider} {name}{path}")
            }
            Output::Answer { id, result: Ok(output) } => {
                format!("answer {at}#{id} ok {}", String::from_utf8_lossy(&output))
            }
            Output::Answer { id, result: Err(error) } => {
                format!("answer {at}#{id} error {}", error.to_string().replace('\n', " "))
            }
            Output::OfferRefused { provider, error } => format!("refused {at}.{provider} {error}"),
            other => panic!("not expected: {other:?}"),
        }
    }
}

#[test]
fn scripts_run_as_written() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("testdata").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(files.len() >= 10, "scripts are missing: {files:?}");
    for file in files {
        let mut script = Script { net: Net::new(1), open: BTreeMap::new() };
        for (n, line) in std::fs::read_to_string(&file).expect("a readable script").lines().enumerate() {
            if !line.trim().is_empty() && !line.starts_with('#') {
                eprintln!("{}:{}: {line}", file.display(), n + 1);
                script.command(line);
            }
        }
        assert!(script.net.events.is_empty(), "{}: not expected: {:?}", file.display(), script.net.events);
    }
}
