//! What runs in a host, and what it finds there, as it is written: `programs`, `files` and `sysctls`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::addresses::Subnet;
use crate::error::Problems;
use crate::escape::is_shown;
use crate::host_routes::RouteText;
use crate::model::{HostFile, HostRoute, HostSetup, InterfaceAddress, NetSysctl, Program, Restart, UPLINK, Uplink};
use crate::read::{Fields, Mapping, Name, Read, expected, section, shown};
use crate::source::{At, Place};
use crate::tree::{Node, Value};
use crate::words::{Words, words};

/// Programs and files of one host.
const MOST: usize = 64;

/// Routes of one host.
const MOST_ROUTES: usize = 1_024;

/// Bytes of a command line.
const LONGEST_COMMAND: usize = 64 << 10;

/// Bytes of a path, as the kernel has it (`PATH_MAX`).
const LONGEST_PATH: usize = 4_095;

/// Where files of hosts are not to be: there the kernel answers.
const OF_KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

section! {
    /// What runs in a host, and what it finds there. Live only: simulated hosts run no programs.
    SetupText {
        /// Programs that start with the network and end with it, by name: a command line for `sh`, or `{ run: .., restart: .. }`. They run in the foreground;
        /// `heddle show programs` says how each does, and where its output is.
        "programs" => programs: Option<At<Mapping<Name, ProgramText>>>,
        /// Files that programs of this host see, and nobody else does, by path: their text.
        "files" => files: Option<At<Mapping<HostPath, Contents>>>,
        /// Kernel parameters of the host's network by name, as sysctl(8) has them: `net.ipv4.ip_forward: 1`.
        "sysctls" => sysctls: Option<At<Mapping<SysctlName, SysctlValue>>>,
        /// More addresses of the host's device, each with the prefix of its subnet: `[10.0.2.7/24, fd00:2::7/64]`.
        "addresses" => addresses: Option<At<Vec<At<Subnet>>>>,
        /// Routes besides those to the subnets that the host is in, as ip-route(8) has them: `default via 10.0.1.254`, `10.9.0.0/16 via 10.0.1.254 dev eth0 metric 100`.
        "routes" => routes: Option<At<Vec<At<RouteText>>>>,
        /// `nat`: the host reaches what this machine reaches, by IPv4 and IPv6, through a device `uplink`, as an ordinary user's programs do; nothing from outside reaches the host. It needs the program
        /// pasta of the package passt.
        "uplink" => uplink: Option<At<Uplink>>,
    }
}

section! {
    /// A program in full.
    ProgramLong {
        /// A command line for `sh`, or the program and its arguments as a list.
        "run" => run: At<Command>,
        /// When it is started again after it has ended, each time after a longer wait. `on-failure` when not given.
        "restart" => restart: Option<At<Restart>>,
    }
}

words!(Uplink, "Uplink", "a kind of uplink", {
    "nat" => Uplink::Nat,
});

words!(Restart, "Restart", "a time to restart", {
    "always" => Restart::Always,
    "on-failure" => Restart::OnFailure,
    "never" => Restart::Never,
});

/// A program in full, or just its command.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum ProgramText {
    /// `web: python3 -m http.server 80`
    Short(At<Command>),
    /// `web: { run: .., restart: .. }`
    Long(ProgramLong),
}

impl Read for ProgramText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match node.value {
            Value::Map(_) => ProgramLong::read(node, problems).map(Self::Long),
            _ => At::read(node, problems).map(Self::Short),
        }
    }
}

/// A program and its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Command(Vec<String>);

impl Command {
    /// The program and its arguments.
    pub fn words(&self) -> Vec<String> {
        self.0.clone()
    }
}

impl Read for Command {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let (words, is_empty) = match &node.value {
            Value::Scalar(text) => (vec!["sh".to_owned(), "-c".to_owned(), text.clone()], text.trim().is_empty()),
            Value::List(items) if !items.is_empty() => {
                let words = items.iter().map(|item| plain_text(item, problems)).collect::<Option<Vec<String>>>()?;
                let is_empty = words[0].is_empty();
                (words, is_empty)
            }
            _ => {
                expected(node, "a command line, or a list of a program and its arguments", problems);
                return None;
            }
        };
        let bytes: usize = words.iter().map(String::len).sum();
        let (message, label, hint) = if is_empty {
            ("this command is empty".to_owned(), "nothing there", "write the command, or remove its key")
        } else if bytes > LONGEST_COMMAND {
            (format!("this command has {bytes} bytes, more than {LONGEST_COMMAND}"), "too long", "put it into a script")
        } else if words.iter().any(|word| word.contains('\0')) {
            (
                "this command has a zero byte in it".to_owned(),
                "no text",
                "remove it: programs take text that ends at such a byte",
            )
        } else {
            return Some(Self(words));
        };
        problems.add(node.place, message, label, hint);
        None
    }
}

/// A scalar as it is.
pub(crate) fn plain_text(node: &Node, problems: &mut Problems<'_>) -> Option<String> {
    let Value::Scalar(text) = &node.value else {
        expected(node, "text", problems);
        return None;
    };
    Some(text.clone())
}

/// A path of a file in a host.
#[derive(Clone, Debug)]
pub(crate) struct HostPath(String);

impl Read for HostPath {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let text = plain_text(node, problems)?;
        let parts = || text.split('/').skip(1);
        let (message, hint) = if !text.starts_with('/') || text.len() > LONGEST_PATH {
            (
                format!("`{}` is not a path from the root on", shown(&text)),
                "begin it with `/`: `/etc/frr/frr.conf`".to_owned(),
            )
        } else if !text.chars().all(|character| is_shown(character) && !matches!(character, '\n' | '\t')) {
            (format!("`{}` has control characters in it", shown(&text)), "give the file another name".to_owned())
        } else if parts().any(|part| matches!(part, "" | "." | "..")) {
            (
                format!("`{}` is not the path of a file", shown(&text)),
                "leave out `.`, `..`, and slashes at its end or side by side".to_owned(),
            )
        } else if let Some(of) = OF_KERNEL.iter().find(|of| text.starts_with(&format!("{of}/"))) {
            (
                format!("`{}` is not a file that can be written: {of} is the kernel's", shown(&text)),
                "`sysctls:` sets what is below /proc/sys/net".to_owned(),
            )
        } else if text == "/etc/hosts" {
            (
                "`/etc/hosts` names the hosts of the network".to_owned(),
                "remove it, or give programs a file of another name".to_owned(),
            )
        } else {
            return Some(Self(text));
        };
        problems.add(node.place, message, "not here", hint);
        None
    }
}

/// What is in a file: as the file has it, and with a line break at its end.
#[derive(Clone, Debug)]
pub(crate) struct Contents(String);

impl Read for Contents {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        if matches!(node.value, Value::Map(_) | Value::List(_)) {
            let message = "the text of this file is expected here";
            let hint = "write it as in `/etc/motd: Hello`, several lines behind `|`; what this machine has at other paths, its hosts see there";
            problems.add(node.place, message, "no text", hint);
            return None;
        }
        let mut text = plain_text(node, problems)?;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        Some(Self(text))
    }
}

/// The name of a kernel parameter of a network namespace.
#[derive(Clone, Debug)]
pub(crate) struct SysctlName(String);

impl Read for SysctlName {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let text = plain_text(node, problems)?;
        // As sysctl(8) has it: with slashes, a dot is a part of a name, as in that of a VLAN's device.
        let name = if text.contains('/') { text.clone() } else { text.replace('.', "/") };
        let is_sound = name.split('/').all(|part| {
            !matches!(part, "" | "." | "..") && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        });
        let (message, hint) = match name.split_once('/') {
            Some(("net", _)) if is_sound => return Some(Self(name)),
            Some((of @ ("kernel" | "vm" | "fs" | "dev" | "user" | "abi" | "debug"), _)) => (
                format!("`{}` belongs to the whole machine, and not to a host", shown(&text)),
                format!("only `net.*` is a host's own; `sysctl -w` sets what is below `{of}.` for the machine"),
            ),
            Some(("ipv4" | "ipv6" | "core", _)) if is_sound => (
                format!("`{}` is not the name of a sysctl", shown(&text)),
                format!("did you mean `net.{}`?", shown(&text)),
            ),
            _ if text.starts_with("tcp_") || text.starts_with("ip_") => (
                format!("`{}` is not the whole name of a sysctl", shown(&text)),
                format!("did you mean `net.ipv4.{}`?", shown(&text)),
            ),
            _ => (
                format!("`{}` is not the name of a sysctl of a network", shown(&text)),
                "write it as sysctl(8) does: `net.ipv4.ip_forward`".to_owned(),
            ),
        };
        problems.add(node.place, message, "not a host's", hint);
        None
    }
}

/// What is written to a kernel parameter.
#[derive(Clone, Debug)]
pub(crate) struct SysctlValue(String);

impl Read for SysctlValue {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        const LONGEST: usize = 1_000;
        let text = plain_text(node, problems)?.trim().to_owned();
        if text.len() > LONGEST || !text.chars().all(|character| is_shown(character) && character != '\n') {
            expected(node, "a value on one line, as `1` or `4096 131072 6291456`", problems);
            return None;
        }
        Some(Self(text))
    }
}

/// The further addresses of a device.
pub(crate) fn addresses_of(text: Option<&At<Vec<At<Subnet>>>>) -> Vec<InterfaceAddress> {
    text.iter().flat_map(|text| &text.value).map(|address| address.value.0).collect()
}

impl SetupText {
    /// Where the first of its keys has its value; `None`: the host has nothing of this.
    pub fn place(&self) -> Option<Place> {
        let Self { programs, files, sysctls, addresses, routes, uplink } = self;
        let places = [
            programs.as_ref().map(|text| text.place),
            files.as_ref().map(|text| text.place),
            sysctls.as_ref().map(|text| text.place),
            addresses.as_ref().map(|text| text.place),
            routes.as_ref().map(|text| text.place),
            uplink.as_ref().map(|text| text.place),
        ];
        places.into_iter().flatten().min_by_key(|place| place.offset)
    }

    /// Where it says something of addresses or routes.
    pub fn addresses_place(&self) -> Option<Place> {
        let addresses = self.addresses.as_ref().map(|text| text.place);
        addresses.or_else(|| self.routes.as_ref().map(|text| text.place))
    }

    /// Where it says something of programs, or of files that they see.
    pub fn programs_place(&self) -> Option<Place> {
        let programs = self.programs.as_ref().map(|text| text.place);
        programs.or_else(|| self.files.as_ref().map(|text| text.place))
    }

    /// What it says. Notes what can't be together.
    pub fn setup(&self, problems: &mut Problems<'_>) -> HostSetup {
        let programs = self.programs.iter().flat_map(|text| &text.value.0).map(|(name, text)| {
            let (run, restart) = match &text.value {
                ProgramText::Short(run) => (run, None),
                ProgramText::Long(long) => (&long.run, long.restart.as_ref()),
            };
            let restart = restart.map_or(Restart::OnFailure, |restart| restart.value);
            Program { name: name.value.0.clone(), run: run.value.0.clone(), restart }
        });
        let files = self.files.iter().flat_map(|text| &text.value.0);
        let setup = HostSetup {
            programs: programs.collect(),
            files: files
                .map(|(path, text)| HostFile { path: path.value.0.clone(), text: text.value.0.clone() })
                .collect(),
            sysctls: self
                .sysctls
                .iter()
                .flat_map(|text| &text.value.0)
                .map(|(name, value)| NetSysctl { name: name.value.0.clone(), value: value.value.0.clone() })
                .collect(),
            addresses: addresses_of(self.addresses.as_ref()),
            routes: self.routes.iter().flat_map(|text| &text.value).map(|text| text.value.0.clone()).collect(),
            forwards: false,
            image: None,
            bundle: None,
            uplink: self.uplink.as_ref().map(|uplink| uplink.value),
            vm: None,
        };
        self.check(&setup, problems);
        setup
    }

    /// Notes what an uplink brings by itself.
    fn check_uplink(&self, setup: &HostSetup, problems: &mut Problems<'_>) {
        let Some(uplink) = &self.uplink else { return };
        let is_default = |route: &&HostRoute| route.destination.prefix == 0 && route.destination.address.is_ipv4();
        if setup.routes.iter().any(|route| is_default(&route) && route.metric.is_none()) {
            let hint = "give the other one a `metric`, or routes to the subnets of this network: `10.0.0.0/8 via ..`";
            problems.add(
                uplink.place,
                "an uplink is the host's default route, and `routes` has another one",
                "a second one",
                hint,
            );
        }
        if setup.programs.iter().any(|program| program.name == UPLINK) {
            let message = format!("a program is called `{UPLINK}`, as the uplink's own is");
            problems.add(uplink.place, message, "there already", "give that program another name");
        }
    }

    fn check(&self, setup: &HostSetup, problems: &mut Problems<'_>) {
        let counts = [
            self.programs.as_ref().map(|text| (text.place, setup.programs.len(), "programs", MOST)),
            self.files.as_ref().map(|text| (text.place, setup.files.len(), "files", MOST)),
            self.addresses.as_ref().map(|text| (text.place, setup.addresses.len(), "addresses", MOST)),
            self.routes.as_ref().map(|text| (text.place, setup.routes.len(), "routes", MOST_ROUTES)),
        ];
        for (place, count, what, most) in counts.into_iter().flatten().filter(|(_, count, _, most)| count > most) {
            let message = format!("a host has {count} {what}, more than {most}");
            problems.add(place, message, "too many", format!("leave some out, or give other hosts some of the {what}"));
        }
        self.check_uplink(setup, problems);
        for (path, _) in self.files.iter().flat_map(|text| &text.value.0) {
            let folder = format!("{}/", path.value.0);
            if let Some(inside) = setup.files.iter().find(|file| file.path.starts_with(&folder)) {
                let message =
                    format!("`{}` is a file, and the folder of `{}`", shown(&path.value.0), shown(&inside.path));
                problems.add(path.place, message, "both", "give one of them another path");
            }
        }
        let names = self.sysctls.iter().flat_map(|text| &text.value.0);
        let mut known = Vec::new();
        for (name, _) in names {
            if known.contains(&&name.value.0) {
                let message = format!("`{}` is there twice, once with dots and once with slashes", name.value.0);
                problems.add(name.place, message, "the second one", "remove one of them");
            }
            known.push(&name.value.0);
        }
    }
}
