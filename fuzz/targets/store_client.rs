//! What clients send to a server: any frames are refused or answered, and the server goes on.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use machine::{Control, Rng, ServerId, Span, Step, Time};
use store::protocol::{Hello, Unreadable, decode, decode_client, split_frame};
use store::{ClientId, Config, Founding, Input, Output, Server};

const CLUSTER: u64 = 1;
const ME: ServerId = ServerId(1);

fn server() -> Server {
    let config = wal::Config { cluster: Some(CLUSTER.into()), ..wal::Config::default() };
    let mut disk = wal::MemoryDisk::new();
    let (mut log, _) = wal::Log::recover(&disk, config).expect("an empty folder is fine");
    let identity = wal::Identity { format: wal::FORMAT, cluster: CLUSTER.into(), server: ME, name: "n1".into() };
    log.identify(identity).expect("it is valid");
    let servers = BTreeMap::from([(ME, ("n1".to_owned(), "127.0.0.1:6640".to_owned()))]);
    Founding {
        cluster: CLUSTER,
        servers,
        strategy: placement::Strategy::Distributed,
        protocol: store::protocol::VERSION,
        secret: None,
    }
    .write(&mut log);
    disk.carry_out(&log.take_batch().expect("there is something to write")).expect("it has room");
    let (log, recovered) = wal::Log::recover(&disk, config).expect("it was just written");
    let config = Config::new(CLUSTER, ME, "n1");
    Server::open(config, log, recovered, &disk, BTreeMap::new(), Rng::new(1), Time::ZERO).expect("it is new")
}

fn drain(server: &mut Server, now: Time) {
    let mut written = Vec::new();
    loop {
        match server.poll(now) {
            Step::Do(Output::Disk(write)) => written.push(write.id),
            Step::Do(_) => {}
            Step::Wait(_) if written.is_empty() => return,
            Step::Wait(_) => written.drain(..).for_each(|write| server.handle(now, Input::Written(write))),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let _ = decode::<Hello>(bytes);
    let _ = decode::<store::peer::Envelope>(bytes);
    let mut server = server();
    let mut now = Time::ZERO;
    let mut rest = bytes;
    while let Ok(Some((body, used))) = split_frame(rest) {
        rest = &rest[used..];
        now += Span::from_ms(20);
        let message = match decode_client(body) {
            Ok(message) => message,
            Err(Unreadable::Request { reason, .. }) => {
                // It goes into an answer.
                assert!(reason.len() < 1_024);
                continue;
            }
            Err(Unreadable::Frame(_)) => return,
        };
        server.handle(now, Input::Client { client: ClientId(1), message });
        drain(&mut server, now);
    }
    server.handle(now, Input::ClientGone(ClientId(1)));
    drain(&mut server, now + Span::from_secs(1));
});
