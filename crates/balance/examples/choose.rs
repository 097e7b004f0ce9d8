//! The choices of a service for a script of arrivals and departures, to be held against those of another balancer: `benches/ipvs.sh`.
//!
//! ```text
//! choose script SEED EVENTS       prints a script
//! choose play SCHEDULER           reads a script, and prints who got each connection
//! ```
//!
//! A script has a line for each event: `add SERVER WEIGHT MAX RESUME` (zeros: no limit), `weight SERVER WEIGHT`, `del SERVER`, `open NUMBER ADDRESS PORT`,
//! `close NUMBER` (inactive from now on), `counts`, `flush` (what is inactive is forgotten). Server N is `10.2.0.N`, port 80.

use std::fmt::Write as _;
use std::io::Read as _;
use std::net::Ipv4Addr;

use balance::config::address_bits;
use balance::{Client, Outcome, Scheduler, ServerId, ServerSpec, Service, ServiceSpec};
use machine::{Rng, Time};

const USAGE: &str = "usage: choose script SEED EVENTS | choose play SCHEDULER";

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let text = match words[..] {
        ["script", seed, events] => script(seed.parse().expect("a seed"), events.parse().expect("a number of events")),
        ["play", scheduler] => {
            let mut script = String::new();
            std::io::stdin().read_to_string(&mut script).expect("standard input is text");
            Player::new(scheduler.parse().expect("a scheduler")).play(&script)
        }
        _ => panic!("{USAGE}"),
    };
    print!("{text}");
}

/// Servers that are there, with their limits, and connections that are open.
struct Script {
    text: String,
    rng: Rng,
    servers: Vec<u32>,
    next_server: u32,
    open: Vec<u32>,
    next_connection: u32,
}

/// Events between two moments at which inactive connections are forgotten: few, since IPVS forgets them after ten seconds by itself.
const PART: u32 = 50;

/// A script by chance.
fn script(seed: u64, events: u32) -> String {
    let mut script = Script {
        text: String::new(),
        rng: Rng::new(seed),
        servers: vec![],
        next_server: 1,
        open: vec![],
        next_connection: 1,
    };
    for _ in 0..3 + script.rng.below(4) {
        script.add();
    }
    for event in 0..events {
        script.event();
        if event % PART == PART - 1 {
            script.text += "counts\nflush\ncounts\n";
        }
    }
    script.text
}

impl Script {
    fn weight(&mut self) -> u32 {
        const WEIGHTS: [u32; 10] = [1, 1, 2, 3, 4, 6, 10, 50, 100, 0];
        WEIGHTS[self.rng.below(10) as usize]
    }

    fn any<T: Copy>(rng: &mut Rng, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[rng.below(of.len() as u32) as usize])
    }

    fn add(&mut self) {
        let (weight, server) = (self.weight(), self.next_server);
        let max = if self.rng.below(3) == 0 { 10 + self.rng.below(40) } else { 0 };
        let _ = writeln!(self.text, "add {server} {weight} {max} {}", max / 2);
        self.servers.push(server);
        self.next_server += 1;
    }

    fn event(&mut self) {
        match self.rng.below(100) {
            0..66 => {
                let (client, number) = (self.rng.below(500), self.next_connection);
                let address = Ipv4Addr::from(0x0a01_0001 + client * 97);
                let _ = writeln!(self.text, "open {number} {address} {}", 1_024 + number);
                self.open.push(number);
                self.next_connection += 1;
            }
            66..94 if !self.open.is_empty() => {
                let place = self.rng.below(self.open.len() as u32) as usize;
                let number = self.open.swap_remove(place);
                let _ = writeln!(self.text, "close {number}");
            }
            94..98 => {
                let weight = self.weight();
                if let Some(server) = Self::any(&mut self.rng, &self.servers) {
                    let _ = writeln!(self.text, "weight {server} {weight}");
                }
            }
            98 if self.servers.len() < 8 => self.add(),
            99 if self.servers.len() > 2 => {
                let place = self.rng.below(self.servers.len() as u32) as usize;
                let server = self.servers.remove(place);
                let _ = writeln!(self.text, "del {server}");
            }
            _ => {}
        }
    }
}

/// A service, and where its connections are.
struct Player {
    service: Service,
    /// By number of the connection: its server, and whether it is inactive.
    open: Vec<Option<(ServerId, bool)>>,
    output: String,
}

impl Player {
    fn new(scheduler: Scheduler) -> Self {
        let mut spec = ServiceSpec::new(scheduler, vec![]);
        // As IPVS has it without flags.
        spec.hash_fallback = false;
        spec.ejection = None;
        let service = Service::new(Time::ZERO, spec, 1).expect("nothing is wrong with no servers");
        Self { service, open: vec![], output: String::new() }
    }

    fn play(mut self, script: &str) -> String {
        for line in script.lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            self.event(&words).unwrap_or_else(|| panic!("`{line}` is no event"));
        }
        self.output
    }

    fn event(&mut self, words: &[&str]) -> Option<()> {
        match *words {
            ["add", server, weight, max, resume] => {
                let [weight, max, resume] = [weight.parse().ok()?, max.parse().ok()?, resume.parse().ok()?];
                let mut added = ServerSpec::new(server, Ipv4Addr::new(10, 2, 0, server.parse().ok()?).into(), 80);
                added.weight = weight;
                added.connections_max = Some(max).filter(|&max| max > 0);
                added.connections_resume = Some(resume).filter(|&resume| resume > 0);
                self.change(|servers| servers.push(added));
            }
            ["weight", server, weight] => {
                let weight = weight.parse().ok()?;
                self.change(|servers| {
                    for it in servers.iter_mut().filter(|it| it.name == server) {
                        it.weight = weight;
                    }
                });
            }
            ["del", server] => self.change(|servers| servers.retain(|it| it.name != server)),
            ["open", number, address, port] => {
                let address: Ipv4Addr = address.parse().ok()?;
                let client = Client { address: address_bits(address.into()), port: port.parse().ok()? };
                let chosen = self.service.open(Time::ZERO, &client).ok();
                let name = chosen.and_then(|id| self.service.name(id)).unwrap_or("none").to_owned();
                let _ = writeln!(self.output, "{number} {name}");
                let number: usize = number.parse().ok()?;
                self.open.resize(self.open.len().max(number + 1), None);
                self.open[number] = chosen.map(|id| (id, false));
            }
            ["close", number] => {
                if let Some((id, is_idle)) = self.open.get_mut(number.parse::<usize>().ok()?)?.as_mut() {
                    *is_idle = true;
                    self.service.idle(Time::ZERO, *id);
                }
            }
            ["counts"] => {
                self.output += "counts";
                for server in self.service.status(Time::ZERO).filter(|it| self.service.server(&it.name) == Some(it.id))
                {
                    let _ = write!(self.output, " {}={}/{}", server.name, server.active, server.inactive);
                }
                self.output.push('\n');
            }
            ["flush"] => {
                for (id, _) in self.open.iter_mut().filter_map(|open| open.take_if(|(_, is_idle)| *is_idle)) {
                    self.service.close(Time::ZERO, id, true, Outcome::Completed);
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn change(&mut self, change: impl FnOnce(&mut Vec<ServerSpec>)) {
        let mut spec = self.service.spec().clone();
        change(&mut spec.servers);
        self.service.apply(Time::ZERO, spec).expect("a script's servers are in order");
    }
}
