//! The daemon, and a bare client, for the tests and benches of this crate. Users have `heddle`.

#[path = "../../sim/tests/pipelines/mod.rs"]
mod pipelines;
mod queries;
mod segments;
mod served;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use fabric::{Overrides, Source};
use live::{Instance, StartOptions};

const USAGE: &str = "usage: heddle-live-testbed daemon --instance NAME [--ephemeral]
       heddle-live-testbed up NAME FILE | exec NAME HOST COMMAND... | counters NAME | down NAME | clean
       heddle-live-testbed serve PORT | serve-once PORT | agent PORT TEXT | ask ADDRESS TIMES | ask-from ADDRESS TIMES | ask-much ADDRESS TIMES | ask-long ADDRESS TIMES | ask-udp ADDRESS TIMES | ask-much-udp ADDRESS TIMES | hold ADDRESS | hold-udp ADDRESS PORT | send-udp ADDRESS PORT TIMES
       heddle-live-testbed query SERVER NAME TYPE TIMES [SUBNET] | resolve NAME
       heddle-live-testbed segments [SCRIPT|FILE.txt [PLAYS]] | trace SCRIPT | agree SCRIPT | random SEED COUNT";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            if let Some(hint) = error.downcast_ref().and_then(live::Error::hint) {
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
            let options = live::daemon::Options::new(instance, rest == ["--ephemeral"]);
            // What tests of pipelines call their networks.
            let pipelines = match instance {
                "translating" => pipelines::translating(),
                "greeting" | "aged" => pipelines::greeting(),
                "circling" => pipelines::circling(),
                _ => options.pipelines,
            };
            // A test of what happens after months calls its network so: its clock is set back in a few seconds, for the first time.
            let soon = || live::daemon::CLOCK_LIMIT.saturating_sub(Duration::from_secs(8));
            let clock_age = if instance == "aged" { soon() } else { Duration::ZERO };
            let options = live::daemon::Options { pipelines, clock_age, ..options };
            live::daemon::serve(&options)?;
        }
        ["up", name, file] => up(name, file)?,
        ["exec", name, host, program, ref rest @ ..] => {
            let status = network(name)?.command(host, program, rest.iter().copied())?.status()?;
            return Ok(ExitCode::from(status.code().unwrap_or(1) as u8));
        }
        ["counters", name] => println!("{:#?}", network(name)?.counters()?),
        ["down", name] => network(name)?.down()?,
        ["segments"] => return segments::run("", 3, false),
        ["segments", script] => return segments::run(script, 3, false),
        ["segments", script, plays] => return segments::run(script, plays.parse()?, false),
        ["agree", script] => return segments::agree(script),
        ["trace", script] => return segments::run(script, 1, true),
        ["random", seed, count] => print!("{}", segments::random::scripts(seed.parse()?, count.parse()?)),
        ["serve", port] => served::serve(port.parse()?)?,
        ["serve-once", port] => served::serve_and_reset(port.parse()?)?,
        ["agent", port, text] => served::say(port.parse()?, text)?,
        ["ask", address, times] => served::ask(address, times.parse()?, "who"),
        ["ask-from", address, times] => served::ask(address, times.parse()?, "from"),
        ["ask-much", address, times] => served::ask(address, times.parse()?, "much"),
        ["ask-long", address, times] => served::ask(address, times.parse()?, &"who ".repeat(1_000_000)),
        ["ask-udp", address, times] => served::ask_by_udp(address, times.parse()?)?,
        ["ask-much-udp", address, times] => served::ask_much_by_udp(address, times.parse()?)?,
        ["query", server, name, record, times] => queries::query(server, name, record, times.parse()?, None)?,
        ["query", server, name, record, times, subnet] => {
            queries::query(server, name, record, times.parse()?, Some(subnet))?;
        }
        ["resolve", name] => queries::resolve(name)?,
        ["hold", address] => served::hold(address)?,
        ["hold-udp", address, port] => served::hold_udp(address, port.parse()?)?,
        ["send-udp", address, port, times] => served::send_udp(address, port.parse()?, times.parse()?)?,
        ["clean"] => println!("{:?}", live::clean()?),
        _ => return Err(USAGE.into()),
    }
    Ok(ExitCode::SUCCESS)
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
