//! Controllers as processes, which end with the test.

mod raw;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path as FilePath, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use node::{Client, Error, Tls, TlsFiles};
use store::protocol::{Admin, Answer, Consistency, RequestBody};
use store::status::Status;
use tree::{Change, Location, Path, Transaction};

pub use raw::Raw;

/// Long enough for a machine that compiles meanwhile.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A controller that listens.
pub struct Controller {
    child: Child,
    pub address: String,
    pub http: String,
    pub cluster: String,
    pub server: u64,
}

/// A controller that ended instead of listening.
#[derive(Debug)]
pub struct Refusal {
    pub status: ExitStatus,
    pub text: String,
}

/// The command line of a controller on a free port.
pub fn command(name: &str, data: &FilePath, options: &[&str]) -> Command {
    at(name, data, "127.0.0.1:0", options)
}

/// The command line of a controller.
pub fn at(name: &str, data: &FilePath, listen: &str, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heddle-node-testbed"));
    command.arg(name).arg(data).arg(listen).args(options);
    command
}

impl Controller {
    /// Starts it; it listens when this returns.
    pub fn try_start(mut command: Command) -> Result<Self, Refusal> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("it is piped")).read_line(&mut line).expect("it says something");
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, http, cluster, server] = words[..] else {
            let mut text = String::new();
            child.stderr.take().expect("it is piped").read_to_string(&mut text).expect("UTF-8");
            return Err(Refusal { status: child.wait().expect("it is our child"), text });
        };
        let (address, http, cluster) = (address.to_owned(), http.to_owned(), cluster.to_owned());
        let server = server.parse().expect("a number");
        Ok(Self { child, address, http, cluster, server })
    }

    pub fn start(command: Command) -> Self {
        Self::try_start(command).unwrap_or_else(|refusal| panic!("{}", refusal.text))
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("it is our child");
    }

    /// Sends a signal and waits for its end.
    pub fn end(mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.child.wait().expect("it is our child")
    }

    /// The status code and the text of a page of its HTTP server.
    pub fn page(&self, path: &str) -> (u32, String) {
        let mut stream = TcpStream::connect(&self.http).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.http).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("UTF-8");
        let (head, body) = text.split_once("\r\n\r\n").expect("an empty line behind the head");
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line");
        (code, body.to_owned())
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Certificates that `certificates::make` has put into a folder.
pub fn tls_files(folder: &FilePath, name: &str) -> TlsFiles {
    let file = |ending: &str| -> PathBuf { folder.join(format!("{name}.{ending}")) };
    TlsFiles { certificate: file("pem"), key: file("key"), authority: folder.join("ca.pem") }
}

pub fn client(controllers: &[&Controller]) -> Client {
    let endpoints: Vec<String> = controllers.iter().map(|controller| controller.address.clone()).collect();
    Client::connect(&endpoints, None).expect("addresses")
}

pub fn client_with(controller: &Controller, tls: Option<&Tls>) -> Client {
    Client::connect(std::slice::from_ref(&controller.address), tls).expect("an address")
}

pub fn car(key: u64) -> Location {
    Location::config(Path::parse(&format!("/car:cars/car-entry={key}")).expect("a path"))
}

/// Writes a car.
pub fn put(client: &Client, key: u64, value: &[u8], timeout: Duration) -> Result<u64, Error> {
    let change = Change::Put { at: car(key), value: value.into() };
    match client.request(RequestBody::Write(Transaction::of(change)), timeout)? {
        Answer::Written { revision } => Ok(revision),
        other => panic!("{other:?}"),
    }
}

/// Reads a car, linearizably.
pub fn get(client: &Client, key: u64) -> Result<Option<Vec<u8>>, Error> {
    let body = RequestBody::Get { at: car(key), consistency: Consistency::Linearizable };
    match client.request(body, PATIENCE)? {
        Answer::Value(value) => Ok(value.map(|(_, bytes)| bytes)),
        other => panic!("{other:?}"),
    }
}

pub fn status(client: &Client) -> Status {
    match client.request(RequestBody::Admin(Admin::Status), PATIENCE).expect("it answers") {
        Answer::Status(status) => *status,
        other => panic!("{other:?}"),
    }
}

/// Waits for something to become so.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < give_up, "it did not happen: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Its metrics, as soon as it has time to say them.
pub fn metrics(controller: &Controller) -> String {
    let mut page = String::new();
    eventually("it says its metrics", || {
        let (code, text) = controller.page("/metrics");
        page = text;
        code == 200
    });
    page
}

/// A gauge or counter of its metrics, by how its line begins.
pub fn metric(controller: &Controller, name: &str) -> u64 {
    let page = metrics(controller);
    let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {page}"));
    line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// Three controllers that all vote, each with so many bytes of memory for others.
pub fn three(folders: &[tempfile::TempDir], memory: &str) -> Vec<Controller> {
    let mut three: Vec<Controller> = Vec::new();
    for (n, folder) in folders.iter().enumerate() {
        let join = three.first().map(|first| first.address.clone());
        let mut options = vec!["--memory", memory, "--http", "127.0.0.1:0"];
        if let Some(join) = &join {
            options.extend(["--join", join]);
        }
        three.push(Controller::start(command(&format!("c{}", n + 1), folder.path(), &options)));
    }
    wait_until_all_vote(&three.iter().collect::<Vec<_>>(), None);
    three
}

/// Waits until each of them says that all of them vote in all shards: who leads a shard is certain of it.
pub fn wait_until_all_vote(controllers: &[&Controller], tls: Option<&Tls>) {
    let clients: Vec<Client> = controllers.iter().map(|controller| client_with(controller, tls)).collect();
    eventually("all vote", || {
        clients.iter().map(status).all(|status| {
            let mut groups = status.groups.iter();
            groups.len() >= 2 && groups.all(|group| group.voters.len() == clients.len() && group.learners.is_empty())
        })
    });
}
