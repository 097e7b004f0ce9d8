//! Programs that ask, one in each host.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use live::Instance;
use live::pings::{Answers, remembered_max};
use miette::{Report, miette};

use super::{Asked, Whom};
use crate::commands::explain;
use crate::commands::measure::this_program;

/// So many ask at a time. Where hundreds do, on a machine of few cores, answers come so late that the kernel's table of neighbours is full of those of earlier questions; it is
/// an even number, so that both of a pair are among them.
const AT_ONCE: usize = 64;

/// All that ask. They end with this: each when its standard input does.
pub struct Asking {
    askers: Vec<Asker>,
    names: Vec<String>,
}

/// A program in a host.
struct Asker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Asking {
    /// Starts them in the first ones of these; each may ask all.
    pub fn start(instance: &Instance, (asked, askers): (&[Whom], usize), patience: Duration) -> Result<Self, Report> {
        live::raise_file_limit().map_err(explain)?;
        let program = this_program()?;
        let names: Vec<String> = asked.iter().map(|whom| whom.name.clone()).collect();
        let addresses: Vec<String> = asked.iter().map(|whom| whom.address.to_string()).collect();
        let (remembered, patience) = (remembered_max(askers).to_string(), patience.as_millis().to_string());
        let options = ["pings", "--remembered", &remembered, "--patience-ms", &patience];
        let arguments: Vec<&str> = options.into_iter().chain(addresses.iter().map(String::as_str)).collect();
        let start = |host: &String| {
            let mut command = instance.command(host, &program, &arguments).map_err(explain)?;
            let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut child = child.map_err(|error| miette!("{host} cannot ask: {error}"))?;
            let (input, output) = (child.stdin.take(), child.stdout.take());
            let (input, output) = input.zip(output).expect("both are piped");
            Ok::<_, Report>(Asker { child, input, output: BufReader::new(output) })
        };
        Ok(Self { askers: names[..askers].iter().map(start).collect::<Result<_, _>>()?, names })
    }

    /// Has hosts ask others, each one other at most, both of a pair one after the other; they are numbered as they were given. Waits until all have heard, or wait no more.
    pub fn round(&mut self, pairs: &[(usize, usize)]) -> Result<(), Report> {
        pairs.chunks(AT_ONCE).try_for_each(|pairs| self.ask(pairs))
    }

    fn ask(&mut self, pairs: &[(usize, usize)]) -> Result<(), Report> {
        for (from, to) in pairs {
            writeln!(self.askers[*from].input, "{to}").map_err(|_| self.silent(*from))?;
        }
        let mut line = String::new();
        for (from, _) in pairs {
            line.clear();
            if self.askers[*from].output.read_line(&mut line).unwrap_or(0) == 0 {
                return Err(self.silent(*from));
            }
        }
        Ok(())
    }

    fn silent(&self, host: usize) -> Report {
        miette!("the program that asks in {} has ended too early", self.names[host])
    }

    /// Ends them all: what each has heard of those that it has asked.
    pub fn end(self) -> Result<Vec<Asked>, Report> {
        let Self { askers, names } = self;
        // All wait for their last answers at the same time.
        let ended = askers.into_iter().map(|Asker { child, input, output }| {
            drop(input);
            (child, output)
        });
        let ended: Vec<(Child, BufReader<ChildStdout>)> = ended.collect();
        let mut asked = Vec::new();
        for ((mut child, output), from) in ended.into_iter().zip(&names) {
            let answers: Result<Vec<Answers>, _> = serde_json::from_reader(output);
            let _ = child.wait();
            let answers = answers.map_err(|_| miette!("the program that asks in {from} has not said what it heard"))?;
            let of = names.iter().cloned().zip(answers).filter(|(_, answers)| answers.sent > 0);
            asked.push(Asked { from: from.clone(), of: of.collect() });
        }
        Ok(asked)
    }
}
