//! The daemon, and a bare client, for the tests and benches of this crate. Users have `heddle`.

use std::error::Error;
use std::process::ExitCode;

use fabric::{Overrides, Source};
use live::cluster::{ControllerOptions, TlsFiles};
use live::{Instance, StartOptions};

const USAGE: &str = "usage: heddle-live-testbed daemon --instance NAME [--ephemeral]
       heddle-live-testbed up NAME FILE | exec NAME HOST COMMAND... | counters NAME | down NAME | clean
       heddle-live-testbed controller NAME DATA LISTEN [--join HOST:PORT] [--http HOST:PORT] [--memory BYTES] [--quota BYTES] [--tls FOLDER CERTIFICATE]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            let of_cluster = error.downcast_ref().and_then(live::cluster::Error::hint);
            if let Some(hint) = error.downcast_ref().and_then(live::Error::hint).or(of_cluster) {
                eprintln!("hint: {hint}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<ExitCode, Box<dyn Error>> {
    let network = |name: &str| Instance::connect(name)?.ok_or_else(|| live::Error::NotRunning(name.to_owned()));
    match *args {
        ["daemon", "--instance", instance, ref rest @ ..] => {
            let options = live::daemon::Options { instance: instance.to_owned(), ephemeral: rest == ["--ephemeral"] };
            live::daemon::serve(&options)?;
        }
        ["controller", name, data, listen, ref rest @ ..] => controller(name, data, listen, rest)?,
        ["up", name, file] => up(name, file)?,
        ["exec", name, host, program, ref rest @ ..] => {
            let status = network(name)?.command(host, program, rest.iter().copied())?.status()?;
            return Ok(ExitCode::from(status.code().unwrap_or(1) as u8));
        }
        ["counters", name] => println!("{:#?}", network(name)?.counters()?),
        ["down", name] => network(name)?.down()?,
        ["clean"] => println!("{:?}", live::clean()?),
        _ => return Err(USAGE.into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a controller; says where it listens, on one line: for it, for HTTP (or `-`), cluster, server.
fn controller(name: &str, data: &str, listen: &str, rest: &[&str]) -> Result<(), Box<dyn Error>> {
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
        rollover_after: live::cluster::ROLLOVER_AFTER,
        memory_bytes: store::budget::DEFAULT_BYTES,
        quota_bytes: None,
    };
    let mut rest = rest.iter().map(|word| (*word).to_owned());
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
    live::cluster::run(&options, |ready| {
        let http = ready.http.map_or_else(|| "-".to_owned(), |address| address.to_string());
        println!("{} {http} {:016x} {}", ready.advertise, ready.cluster, ready.server);
    })?;
    Ok(())
}

fn fixed_election_timeout(seconds: u64) -> placement::TimeoutConfig {
    let span = machine::Span::from_secs(seconds);
    placement::TimeoutConfig { min: span, max: span, fixed: Some(span) }
}

fn up(name: &str, file: &str) -> Result<(), Box<dyn Error>> {
    let source = Source { name: file.to_owned(), text: std::fs::read_to_string(file)? };
    let network = if let Some(network) = Instance::connect(name)? {
        network
    } else {
        let program = std::env::current_exe()?;
        Instance::start(&StartOptions { name: name.to_owned(), ephemeral: false, program, workers: None })?
    };
    println!("{:?}", network.apply(&source, &Overrides::default())?);
    Ok(())
}
