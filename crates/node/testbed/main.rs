//! A bare controller, for the tests of this crate. Users have `heddle`.

use std::error::Error;
use std::process::ExitCode;

use node::{ControllerOptions, TlsFiles};

const USAGE: &str =
    "usage: heddle-node-testbed NAME DATA LISTEN [--join HOST:PORT] [--http HOST:PORT] [--election-timeout SECONDS]
           [--memory BYTES] [--quota BYTES] [--tls FOLDER CERTIFICATE]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, data, listen, rest @ ..] = &args[..] else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match controller(name, data, listen, rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            if let Some(hint) = error.downcast_ref().and_then(node::Error::hint) {
                eprintln!("hint: {hint}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Runs a controller; says where it listens, on one line: for it, for HTTP (or `-`), cluster, server.
fn controller(name: &str, data: &str, listen: &str, rest: &[String]) -> Result<(), Box<dyn Error>> {
    let mut options = ControllerOptions {
        node: name.to_owned(),
        data: data.into(),
        listen: listen.to_owned(),
        advertise: None,
        join: Vec::new(),
        replaces: None,
        http: None,
        election: placement::TimeoutConfig::default(),
        pre_vote: true,
        rebuild: std::collections::BTreeSet::new(),
        strategy: placement::Strategy::Single,
        balance_leaders: true,
        reads: store::Reads::Lease { drift_per_mille: 50 },
        token: None,
        audit: None,
        tls: None,
        memory_bytes: store::budget::DEFAULT_BYTES,
        quota_bytes: None,
        hasten: || {},
    };
    let mut rest = rest.iter().cloned();
    while let Some(option) = rest.next() {
        let mut value = || rest.next().ok_or(USAGE);
        match option.as_str() {
            "--join" => options.join.push(value()?),
            "--http" => options.http = Some(value()?),
            "--election-timeout" => options.election = fixed_election_timeout(value()?.parse()?),
            "--memory" => options.memory_bytes = value()?.parse()?,
            "--quota" => options.quota_bytes = Some(value()?.parse()?),
            "--tls" => {
                let (folder, name) = (std::path::PathBuf::from(value()?), value()?);
                let file = |ending: &str| folder.join(format!("{name}.{ending}"));
                let authority = folder.join("ca.pem");
                options.tls = Some(TlsFiles { certificate: file("pem"), key: file("key"), authority });
            }
            _ => return Err(USAGE.into()),
        }
    }
    node::run(&options, |ready| {
        let http = ready.http.map_or_else(|| "-".to_owned(), |address| address.to_string());
        println!("{} {http} {:016x} {}", ready.advertise, ready.cluster, ready.server);
    })?;
    Ok(())
}

fn fixed_election_timeout(seconds: u64) -> placement::TimeoutConfig {
    let span = machine::nanos::Span::from_secs(seconds);
    placement::TimeoutConfig { min: span, max: span, fixed: Some(span) }
}
