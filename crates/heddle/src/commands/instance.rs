//! `up`, `down`, `exec`, `clean`: running networks.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fabric::{Fabric, Overrides, Source};
use live::control::{Counters, LinkCounters};
use live::{Instance, Phase, Presence, ProgramState, StartOptions};
use miette::{Report, miette};
use serde_json::{Value, json};
use topology::{NodeId, Topology};

use super::convergence::{wait_converged, wait_served};
use super::describe::note_crowded;
use super::{explain, explain_of, file, measure, renumbered};
use crate::cli::{Daemon, Down, Exec, Format, FromArg, Up};
use crate::output::{Rows, fitting, harmless, print_json, put};

/// Starts a network, or changes the running one to match the file.
pub fn up(args: &Up, format: Format) -> Result<(), Report> {
    let (source, fabric) = file::read_or_make(&args.file, args.name.as_deref())?;
    let is_of_word = args.file.topo.is_some();
    if fabric.topology.nodes.is_empty() {
        return Err(miette!(
            help = "add `topology:` to it; `heddle run` runs its experiments",
            "{} has controllers only, no network to bring up",
            source.name
        ));
    }
    note_crowded(&source, &fabric);
    let name = args.name.as_deref().unwrap_or(&fabric.name);
    let (instance, started) = match Instance::connect(name).map_err(explain)? {
        Some(instance) => (instance, false),
        None => (
            Instance::start(&StartOptions {
                name: name.to_owned(),
                ephemeral: false,
                program: measure::this_program()?,
                workers: None,
            })
            .map_err(explain)?,
            true,
        ),
    };
    let before = if started { None } else { made_before(&instance)? };
    if let Some((file, before)) = &before
        && is_of_word
    {
        refuse_another(name, (file, before), (&source.name, &fabric))?;
    }
    let applied = match instance.apply(&source, &Overrides::default()) {
        Ok(applied) => applied,
        Err(error) => {
            // What this command started and could not fill does not stay.
            if started {
                instance.down().map_err(explain)?;
            }
            return Err(explain_of(&source, error));
        }
    };
    if !args.no_wait {
        wait_converged(&instance)?;
        if fabric.setups.values().any(|setup| !setup.programs.is_empty() || setup.vm.is_some()) {
            note_failures(&instance)?;
            wait_served(&instance, &fabric)?;
        }
    }
    match format {
        Format::Table => put(&fitting(&format!("{name} is up: {applied}\n")))?,
        Format::Json => print_json(&applied)?,
        Format::Csv => put(&change_rows(&applied).render(format))?,
    }
    if let Some((_, before)) = &before {
        for note in renumbered::notes(&before.topology, &fabric.topology) {
            eprintln!("note: {note}");
        }
    }
    if !started {
        note_kept(&instance, &fabric)?;
    }
    let guests = fabric.setups.iter().filter(|(_, setup)| setup.vm.is_some()).map(|(name, _)| name.as_str());
    if let Some(guest) = guests.clone().next() {
        let others = if guests.count() > 1 { ", and so on" } else { "" };
        eprintln!("Consoles of guests: heddle logs {guest} --follow{others}");
    }
    // Where several run, each command has to say which.
    let are_several = Instance::list().map_err(explain)?.len() > 1;
    let which = if are_several { format!(" -n {name}") } else { String::new() };
    eprintln!(
        "Next: heddle ping{which} --all, heddle shell{which} {}, heddle show{which} counters, heddle down{which}",
        fabric.topology.nodes[NodeId(0)].name
    );
    Ok(())
}

/// The file that a running network was made of, and what it was until now; `None`: somebody has started it just now, and it has no hosts yet.
fn made_before(instance: &Instance) -> Result<Option<(String, Fabric)>, Report> {
    let status = instance.status().map_err(explain)?;
    if status.text.is_empty() {
        return Ok(None);
    }
    Ok(Some((status.file, definition(instance)?)))
}

/// Refuses to make another network of one that runs where nobody has written a file to say so: a word names a network, and not what becomes of another one.
fn refuse_another(name: &str, (was, before): (&str, &Fabric), (word, fabric): (&str, &Fabric)) -> Result<(), Report> {
    let changes = live::difference(Some(before), fabric);
    if was == word || (changes.created.is_empty() && changes.removed.is_empty()) {
        return Ok(());
    }
    Err(miette!(
        help = format!("`heddle down {name}` stops that one, and `-n NAME` gives this one a name of its own"),
        "there is another network `{name}` already: it was made of {was}"
    ))
}

/// How long a program has to fail at once, if it does: it is not there, or does not like its arguments.
const FIRST_LOOK: Duration = Duration::from_millis(300);

/// Says which programs of hosts have failed already, and where to read why.
fn note_failures(instance: &Instance) -> Result<(), Report> {
    std::thread::sleep(FIRST_LOOK);
    for program in instance.programs().map_err(explain)? {
        let ProgramState { host, program, phase, last, output, .. } = program;
        match (phase, last) {
            (Phase::Waiting, Some(last)) => {
                eprintln!(
                    "note: program {program} of host {host} does not run: {last} (hint: its output is in {output})"
                );
            }
            (Phase::Stopped, _) => eprintln!(
                "note: program {program} of host {host} is stopped (hint: heddle program start {host} {program})"
            ),
            _ => {}
        }
    }
    Ok(())
}

/// So many links that are down are named, one by one.
const LINKS_NAMED: usize = 5;

/// Says which links somebody has taken down, and which servers of services are not as the file has them, since somebody has said otherwise with `heddle link` or `heddle service`: that holds
/// until he says something else. A link whose device has lost its carrier is none of those: `heddle link up` would not bring it back.
fn note_kept(instance: &Instance, fabric: &Fabric) -> Result<(), Report> {
    let counters = instance.counters().map_err(explain)?;
    let down: Vec<_> = counters.links.iter().filter(|link| link.pulled).collect();
    for LinkCounters { a, b, .. } in down.iter().take(LINKS_NAMED) {
        eprintln!("note: link {a}-{b} is still down (hint: heddle link up {a} {b})");
    }
    if down.len() > LINKS_NAMED {
        eprintln!("note: so are {} more (hint: heddle show links)", down.len() - LINKS_NAMED);
    }
    for service in &counters.services {
        let Some(of_file) = fabric.services.iter().find(|it| it.name == service.service) else { continue };
        for server in &service.servers {
            let Some(spec) = of_file.spec.servers.iter().find(|spec| spec.name == server.server) else { continue };
            let (service, name) = (&service.service, &server.server);
            // An agent may have shares in hundredths, and drains as well as somebody does by hand.
            let has_agent = of_file.agent.is_some();
            if server.weight != spec.weight && !has_agent {
                eprintln!(
                    "note: {service}: {name} keeps weight {}, the file says {} (hint: heddle service weight {service} {name} {})",
                    server.weight, spec.weight, spec.weight
                );
            } else if server.out.as_deref() == Some("draining") && spec.weight > 0 && !has_agent {
                eprintln!(
                    "note: {service}: {name} still drains, as `heddle service` had it (hint: heddle service enable {service} {name})"
                );
            }
        }
    }
    Ok(())
}

fn change_rows(applied: &live::Applied) -> Rows {
    let mut rows = Rows::new(&["change", "name"]);
    let changes = [
        ("created", &applied.created),
        ("changed", &applied.changed),
        ("removed", &applied.removed),
        ("restarted", &applied.restarted),
    ];
    for (change, names) in changes {
        for name in names {
            rows.push([json!(change), json!(name)]);
        }
    }
    rows
}

/// What `up` would do with `fabric`, and what it would note of addresses that move.
pub fn changes(fabric: &Fabric) -> Result<(live::Applied, Vec<String>), Report> {
    let running = match Instance::connect(&fabric.name).map_err(explain)? {
        Some(instance) => Some(definition(&instance)?),
        None => None,
    };
    let moved = running.as_ref().map(|before| renumbered::notes(&before.topology, &fabric.topology));
    Ok((live::difference(running.as_ref(), fabric), moved.unwrap_or_default()))
}

/// What a running network is: the fabric that it was made of, with the links that were changed since.
pub fn definition(instance: &Instance) -> Result<Fabric, Report> {
    Ok(definitions(instance)?.1)
}

/// The fabric that a running network was made of, and the one that it is now.
pub fn definitions(instance: &Instance) -> Result<(Fabric, Fabric), Report> {
    let status = instance.status().map_err(explain)?;
    let source = Source { name: status.file, text: status.text };
    let made_of = fabric::parse_changed(&source, &status.changed_ports)?.with(&status.overrides);
    let now = made_of.clone().with_links(&status.changed_links)?;
    Ok((made_of, now))
}

/// Stops the networks that are named, the only one, or all.
pub fn down(args: &Down, format: Format) -> Result<(), Report> {
    let names = if args.all {
        Instance::list().map_err(explain)?
    } else if args.networks.is_empty() {
        let name = args.at.name.as_deref();
        let of_file = name.map(network_of_file).transpose()?.flatten();
        vec![running(of_file.as_deref().or(name), "`heddle down NETWORK`, or `heddle down --all`")?]
    } else {
        all_named(&args.networks)?
    };
    let mut rows = Rows::new(&["name", "fabric", "file", "hosts", "switches", "links"]);
    let mut outcome = Ok(());
    for name in names {
        outcome = stop(&name).map(|was| {
            let of = |value: fn(&live::Status) -> Value| json!(was.as_ref().map(value));
            rows.push([
                json!(name),
                of(|was| json!(was.fabric)),
                of(|was| json!(was.file)),
                of(|was| json!(was.host_count)),
                of(|was| json!(was.switches)),
                of(|was| json!(was.links)),
            ]);
        });
        if outcome.is_err() {
            break;
        }
        if format == Format::Table {
            put(&format!("{name} is down\n"))?;
        }
    }
    // What has been stopped is said, whatever came of the next one.
    if format != Format::Table {
        put(&rows.render(format))?;
    }
    outcome
}

/// The networks that these words name, each once. All of them are up.
fn all_named(words: &[String]) -> Result<Vec<String>, Report> {
    let mut names: Vec<String> = Vec::new();
    for word in words {
        let name = network_of_file(word)?.unwrap_or_else(|| word.clone());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.len() > 1 {
        // Before any of them is stopped.
        names.iter().try_for_each(|name| connect(name).map(drop))?;
    }
    Ok(names)
}

/// The network that a file's name leads to, if a word is one: what the file calls it, or the running one that was made of it; `None`: it is a network's name.
fn network_of_file(word: &str) -> Result<Option<String>, Report> {
    let up = Instance::list().map_err(explain)?;
    if !is_file(word) || up.iter().any(|name| name == word) {
        return Ok(None);
    }
    let made_of = |name: &String| {
        let status = Instance::connect(name).ok().flatten().and_then(|instance| instance.status().ok());
        status.filter(|status| status.file == word).map(|status| (name.clone(), status.fabric))
    };
    let made_of_it: Vec<(String, String)> = up.iter().filter_map(made_of).collect();
    let fabric = match (file::read(Path::new(word)), made_of_it.as_slice()) {
        (Ok((_, fabric)), _) => fabric.name,
        // Nobody has to mend a file to stop what was made of it.
        (Err(_), [(name, _)]) => return Ok(Some(name.clone())),
        (Err(error), _) => return Err(error),
    };
    if up.contains(&fabric) {
        return Ok(Some(fabric));
    }
    let mut so_called = made_of_it.into_iter().filter(|(_, its)| *its == fabric);
    Ok(Some(match (so_called.next(), so_called.next()) {
        (Some((only, _)), None) => only,
        _ => fabric,
    }))
}

/// Stops a network; what it was, if it has said so: one that cannot is stopped all the same.
fn stop(name: &str) -> Result<Option<live::Status>, Report> {
    let instance = connect(name)?;
    let was = instance.status().ok();
    instance.down().map_err(explain)?;
    Ok(was)
}

/// Becomes a program in a host.
pub fn exec(args: &Exec) -> Result<(), Report> {
    let instance = connect(&running(args.network.name.as_deref(), "`heddle exec --name NETWORK HOST COMMAND`")?)?;
    let mut command = instance.command_of_host(&args.host, &args.command[0], &args.command[1..]).map_err(explain)?;
    if becomes_another_user(&args.command) && instance.has_one_user() {
        eprintln!("{ONE_USER}");
    }
    become_program(&mut command, &args.host)
}

/// What is said to an ordinary user who starts tcpdump.
const ONE_USER: &str = "\
note: tcpdump becomes a user of its own, and this network has one user only. Here `-Z root` keeps it that user, which is you; for more of them, install `uidmap`, have a range of ids in \
/etc/subuid and /etc/subgid (`sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER`), and start the network anew";

/// Whether a command is tcpdump's, as root starts it by default.
fn becomes_another_user(command: &[String]) -> bool {
    let (program, arguments) = command.split_first().expect("a command has a program");
    let stays = |argument: &String| argument.starts_with("-Z") || argument.starts_with("--relinquish-privileges");
    Path::new(program).file_name() == Some(OsStr::new("tcpdump")) && !arguments.iter().any(stays)
}

/// Becomes a program in a host. If it cannot be run, it ends as shells do, so that this is not taken for the program's own status.
pub fn become_program(command: &mut Command, host: &str) -> ! {
    let error = command.exec();
    eprintln!("{:?}", miette!("cannot run {} in {host}: {error}", command.get_program().display()));
    std::process::exit(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
}

/// Removes what crashed networks left behind.
pub fn clean(format: Format) -> Result<(), Report> {
    let cleaned = live::clean().map_err(explain)?;
    match format {
        Format::Table => put(&format!("{cleaned}\n")),
        Format::Json => print_json(&cleaned),
        Format::Csv => {
            let mut rows = Rows::new(&["removed"]);
            for name in &cleaned.instances {
                rows.push([json!(name)]);
            }
            put(&rows.render(format))
        }
    }
}

/// The process behind `up`.
pub fn daemon(args: &Daemon) -> Result<(), Report> {
    live::daemon::serve(&live::daemon::Options::new(&args.instance, args.ephemeral)).map_err(explain)?;
    Ok(())
}

/// A connection to a running network.
pub fn connect(name: &str) -> Result<Instance, Report> {
    let instance = Instance::connect(name).map_err(explain)?;
    if let Some(instance) = instance {
        return Ok(instance);
    }
    let up = Instance::list().map_err(explain)?;
    // Of one that has crashed there is more to say.
    if !up.is_empty() && !live::has_crashed(name) {
        return Err(miette!(
            help = format!("there is {}; `heddle up FILE` starts another one", up.join(", ")),
            "no network named `{name}` is up"
        ));
    }
    Err(explain(live::Error::NotRunning(name.to_owned())))
}

/// What a command is about: a file, or a network that runs.
pub enum Subject {
    /// What a file says, and the folder that it is in.
    File(Box<Fabric>, PathBuf),
    /// A network, and the fabric that it was made of.
    Running(Box<Instance>, Box<Fabric>),
}

/// What is named by a file or by a running network; `how` the latter is named there.
pub fn subject(args: &FromArg, how: &str) -> Result<Subject, Report> {
    if let Some(word) = &args.topo {
        return Ok(Subject::File(Box::new(file::make(word, None)?.1), PathBuf::new()));
    }
    let from = args.from.as_deref();
    if let Some(path) = from.filter(|word| is_file(word)) {
        let (source, fabric) = file::read(Path::new(path))?;
        return Ok(Subject::File(Box::new(fabric), live::folder_of(&source)));
    }
    let instance = connect(&running(from.or(args.network.name.as_deref()), how)?)?;
    let fabric = definition(&instance)?;
    Ok(Subject::Running(Box::new(instance), Box::new(fabric)))
}

/// Whether a word names a file, and not a network.
pub fn is_file(word: &str) -> bool {
    let path = Path::new(word);
    path.is_file() || is_of_a_file(path)
}

/// Whether it can be no network's name, or is unlikely to be one.
fn is_of_a_file(path: &Path) -> bool {
    let ending = path.extension().and_then(OsStr::to_str);
    path.as_os_str() == "-" || path.components().count() > 1 || ending.is_some_and(|it| ["yaml", "yml"].contains(&it))
}

/// The host of this name.
pub fn host(topology: &Topology, name: &str) -> Result<NodeId, Report> {
    match topology.node(name) {
        Some(node) if topology.is_host(node) => Ok(node),
        Some(_) => Err(miette!(help = fabric::host_hint(topology, ""), "`{name}` is a switch: expected a host")),
        None => Err(miette!(help = fabric::host_hint(topology, name), "there is no host `{name}`")),
    }
}

/// The network that is meant when the command line may leave it out; `how` it is named there.
pub fn running(name: Option<&str>, how: &str) -> Result<String, Report> {
    let named = || std::env::var("HEDDLE_NETWORK").ok().filter(|name| !name.is_empty());
    if let Some(name) = name.map(str::to_owned).or_else(named) {
        return Ok(name);
    }
    let mut names = Instance::list().map_err(explain)?;
    match names.len() {
        0 => Err(nothing_runs()),
        1 => Ok(names.remove(0)),
        _ => {
            let line: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
            let meant = names[meant(&line, &names)].as_str();
            // `down` may mean all of them.
            let shown = naming(&line, meant).filter(|_| how.contains("--name NETWORK"));
            let how = shown.unwrap_or_else(|| how.replace("NETWORK", meant));
            let shell = format!("`export HEDDLE_NETWORK={meant}` does for all commands of a shell");
            let help = format!("say which one: {how}; {shell}");
            Err(miette!(help = harmless(&help), "several networks are running: {}", names.join(", ")))
        }
    }
}

/// So many networks are looked into for what a command line names.
const LOOKED_INTO: usize = 16;

/// Which of the networks has most of what a command line names: hosts, switches and services.
fn meant(line: &[String], networks: &[String]) -> usize {
    let known = |network: &String| {
        let fabric = connect(network).and_then(|instance| definition(&instance)).ok();
        fabric.map_or(0, |fabric| named(line, &fabric))
    };
    let counts: Vec<usize> = networks.iter().take(LOOKED_INTO).map(known).collect();
    let most = counts.iter().max().copied().unwrap_or(0);
    counts.iter().position(|count| *count == most).unwrap_or(0)
}

/// How many words of a command line are names of a network's nodes and services, or begin with one, as `h1:80` and `h1-s1` do.
fn named(line: &[String], fabric: &Fabric) -> usize {
    let is_known =
        |name: &str| fabric.topology.node(name).is_some() || fabric.services.iter().any(|service| service.name == name);
    let is_one = |word: &&String| {
        let mut ends = word.match_indices([':', '-', '/']).map(|(at, _)| at);
        is_known(word) || ends.any(|at| is_known(&word[..at]))
    };
    line.iter().skip(2).filter(is_one).count()
}

/// The command line with the name of a network in it; `None` if options stand before the command.
fn naming(line: &[String], network: &str) -> Option<String> {
    let [_, command, behind @ ..] = line else { return None };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    let quoted = |word: &String| {
        let is_word = !word.is_empty() && word.chars().all(is_plain);
        if is_word { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    let words = behind.iter().map(quoted).fold(String::new(), |words, word| format!("{words} {word}"));
    (!command.starts_with('-')).then(|| format!("`heddle {command} -n {network}{words}`"))
}

/// That no network runs; and what to do about one that has died.
fn nothing_runs() -> Report {
    let crashed = live::inventory()
        .unwrap_or_default()
        .into_iter()
        .filter(|listed| matches!(listed.presence, Presence::Crashed { .. }));
    let crashed: Vec<String> = crashed.map(|listed| listed.name).collect();
    if crashed.is_empty() {
        return miette!(help = "heddle up FILE starts one", "no network is running");
    }
    miette!(
        help = "`heddle clean` removes what it left, and `heddle up FILE` starts it anew",
        "no network is running: the process of {} has died",
        crashed.join(", ")
    )
}

/// Counters at two moments, and the seconds between them, for rates; `has_any` says of the first ones whether there is anything to rate.
pub fn readings(instance: &Instance, has_any: impl Fn(&Counters) -> bool) -> Result<(Counters, Counters, f64), Report> {
    /// Rates are those of this time.
    const RATED: Duration = Duration::from_millis(500);
    let read = || instance.counters().map_err(explain);
    let before = read()?;
    if !has_any(&before) {
        return Ok((before.clone(), before, 1.0));
    }
    std::thread::sleep(RATED);
    let after = read()?;
    let seconds = after.at.as_ns().saturating_sub(before.at.as_ns()) as f64 / 1e9;
    Ok((before, after, seconds))
}

#[cfg(test)]
mod tests {
    use super::{named, naming};

    #[test]
    fn words_of_a_command_are_looked_for_in_a_network() {
        let text = "nodes: { h1: host, h2: host, s1: switch }\nlinks: [{ between: [h1, s1] }, { between: [h2, s1] }]\n\
                    services: { web: { address: '10.1.0.80:80', servers: [h2] } }\n";
        let source = fabric::Source { name: "net".to_owned(), text: text.to_owned() };
        let fabric = fabric::parse(&source).expect("a file");
        for (line, expected) in [
            ("heddle ping h1 h2", 2),
            ("heddle service drain web h9", 1),
            ("heddle capture h1-s1", 1),
            ("heddle exec h1 heddle load web:80", 2),
            ("heddle show services", 0),
            ("heddle h1", 0),
        ] {
            let line: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(named(&line, &fabric), expected, "{line:?}");
        }
    }

    #[test]
    fn a_network_is_named_behind_the_command() {
        let naming = |words: &[&str]| naming(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>(), "lab");
        assert_eq!(naming(&["heddle", "ping", "h1", "h2"]).as_deref(), Some("`heddle ping -n lab h1 h2`"));
        let quoted = naming(&["/bin/heddle", "exec", "h1", "sh", "-c", "it's"]);
        assert_eq!(quoted.as_deref(), Some("`heddle exec -n lab h1 sh -c 'it'\\''s'`"));
        assert_eq!(naming(&["heddle", "-v", "list"]), None);
        assert_eq!(naming(&["heddle"]), None);
    }
}
