//! What a name may look like, and which known word an unknown one was meant to be.

/// The longest name, in characters: what Linux allows a host name.
pub(crate) const LONGEST: usize = 63;

/// Whether `text` can name a fabric, a node, an experiment: it becomes a host name and a part of paths.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= LONGEST
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Names that every machine's `/etc/hosts` or its resolver gives to addresses of its own (RFC 6761, 6.3; Debian's and Red Hat's files).
const OWN_NAMES: [&str; 12] = [
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost4.localdomain4",
    "localhost6",
    "localhost6.localdomain6",
    "ip6-localhost",
    "ip6-loopback",
    "ip6-localnet",
    "ip6-mcastprefix",
    "ip6-allnodes",
    "ip6-allrouters",
];

/// Whom programs reach by the name of a host, if not that host.
pub(crate) fn reaches(name: &str) -> Option<&'static str> {
    let name = canonical(name);
    if OWN_NAMES.contains(&name.as_str()) || name.ends_with(".localhost") {
        Some("each host itself")
    } else if is_address(&name) {
        Some("an address")
    } else {
        None
    }
}

/// What resolvers make of a name: they know no case, and a dot at the end is none of its own (RFC 4343; RFC 1034, 3.1).
pub(crate) fn canonical(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Whether programs take text for an IPv4 address before they look for a name: one to four numbers, also octal and hexadecimal ones (`inet_aton`, POSIX).
fn is_address(name: &str) -> bool {
    let is_number = |part: &str| match part.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        None => !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit()),
    };
    name.split('.').count() <= 4 && name.split('.').all(is_number)
}

/// What others call it, and what it is called here.
const OTHERS_WORDS: &[(&str, &str)] = &[
    ("ip", "ipv4"),
    ("ip4", "ipv4"),
    ("ipaddr", "ipv4"),
    ("ip-address", "ipv4"),
    ("mgmt-ipv4", "ipv4"),
    ("address", "ipv4"),
    ("ip6", "ipv6"),
    ("hwaddr", "mac"),
    ("mac-address", "mac"),
    ("latency", "delay"),
    ("bw", "rate"),
    ("bandwidth", "rate"),
    ("max-queue-size", "queue"),
    ("queue-size", "queue"),
    ("cc", "congestion-control"),
    ("congestion", "congestion-control"),
    ("initcwnd", "initial-window"),
    ("mss", "segment"),
    // Schedulers of HAProxy, nginx and Envoy.
    ("leastconn", "lc"),
    ("least-conn", "lc"),
    ("least-connections", "lc"),
    ("roundrobin", "rr"),
    ("round-robin", "rr"),
    ("static-rr", "wrr"),
    ("source", "sh"),
    ("ip-hash", "sh"),
    ("maglev", "mh"),
    ("random", "p2c"),
    ("least-request", "p2c"),
    ("ewma", "peak-ewma"),
    // Ways to forward, of ipvsadm and keepalived.
    ("ipip", "tunnel"),
    ("tun", "tunnel"),
    ("ip-in-ip", "tunnel"),
    ("masquerading", "nat"),
    ("gatewaying", "dr"),
    // Modes of bonds, of switches and of hypervisors.
    ("lacp", "802.3ad"),
    // A port's VLANs, as switches' command lines have them.
    ("vlan", "tag"),
    ("vid", "tag"),
    ("vlan-id", "tag"),
    ("pvid", "tag"),
    ("access", "tag"),
    ("access-vlan", "tag"),
    ("native", "tag"),
    ("native-vlan", "tag"),
    ("trunk", "trunks"),
    ("vlans", "trunks"),
    ("allowed-vlans", "trunks"),
];

/// What others call it, and the words that stand for it here, or how they begin (`delay-`): of metrics, of which each has several.
const FAMILIES: &[(&str, &[&str])] = &[
    ("latency", &["delay-", "rtt-"]),
    ("ping", &["rtt-"]),
    ("rtt", &["rtt-"]),
    ("round-trip", &["rtt-"]),
    ("jitter", &["delay-"]),
    ("throughput", &["goodput-"]),
    ("bandwidth", &["goodput-", "utilisation-"]),
    ("rate", &["goodput-"]),
    ("goodput", &["goodput-"]),
    ("loss", &["lost", "link-losses", "drops"]),
    ("packet-loss", &["lost", "link-losses", "drops"]),
    ("fct", &["completion-mean", "completion-p50", "completion-p99"]),
    ("response-time", &["response-"]),
];

/// A word of so many letters is not the beginning of another one by chance.
const PREFIX: usize = 4;

/// The known word that is nearest to `word`, if one is near enough to be a slip, or the same thing by another name.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Distances to a long word take long and mean nothing.
    if word.len() > LONGEST {
        return None;
    }
    let allowed = word.chars().count().max(3) / 3;
    let word = word.to_lowercase().replace('_', "-");
    let known: Vec<&str> = known.into_iter().collect();
    // `links.latency` is `links.delay`.
    let (section, key) = word.rsplit_once('.').map_or(("", &*word), |(section, key)| (section, key));
    if let Some((_, here)) = OTHERS_WORDS.iter().find(|(other, _)| *other == key) {
        let meant = if section.is_empty() { (*here).to_owned() } else { format!("{section}.{here}") };
        if let Some(found) = known.iter().copied().find(|candidate| *candidate == meant) {
            return Some(found);
        }
    }
    let slip = known
        .iter()
        .copied()
        // Words that differ more in length than is allowed need no closer look.
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= allowed)
        .map(|candidate| (distance(&word, &candidate.replace('_', "-")), candidate))
        .filter(|&(far, _)| far <= allowed)
        .min_by_key(|&(far, _)| far)
        .map(|(_, candidate)| candidate);
    // Or what somebody has not written to its end.
    let begins = |candidate: &&str| word.len() >= PREFIX && candidate.starts_with(&*word);
    slip.or_else(|| known.iter().copied().find(begins))
}

/// Optimal string alignment distance: insertions, deletions, substitutions, and swaps of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + differs);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// `a`, `b` or `c`, each in backticks.
pub(crate) fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// The hint for an unknown word: the one that was probably meant, else what there is.
pub(crate) fn did_you_mean(word: &str, known: &[&str]) -> String {
    /// More than this are not read anyway, but for the first words of what has several.
    const SHOWN: usize = 16;
    if known.len() <= SHOWN {
        return match nearest(word, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("write {}", one_of(known.iter().copied())),
        };
    }
    match family(word, known)[..] {
        [] => {}
        [only] => return format!("did you mean `{only}`?"),
        ref several => return format!("did you mean {}?", one_of(several.iter().copied())),
    }
    if let Some(near) = nearest(word, known.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    let (begin, all): (Vec<&str>, Vec<&str>) = known.iter().partition(|word| beginning(word, known).is_some());
    let mut begin: Vec<&str> = begin.iter().filter_map(|word| beginning(word, known)).collect();
    begin.dedup();
    let begin = begin.iter().map(|begin| format!("`{begin}..`"));
    let all = all.iter().map(|word| format!("`{word}`")).chain(begin);
    format!("there are {}", all.collect::<Vec<_>>().join(", "))
}

/// The known words of the family that a word is another name of: all of them, or the one that ends as it does.
fn family<'a>(word: &str, known: &[&'a str]) -> Vec<&'a str> {
    let word = word.to_lowercase().replace('_', "-");
    let names = |other: &str| word.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    let Some((other, begin)) = FAMILIES.iter().filter(|(other, _)| names(other)).max_by_key(|(other, _)| other.len())
    else {
        return Vec::new();
    };
    let of_family = known
        .iter()
        .copied()
        .filter(|word| begin.iter().any(|begin| word == begin || (begin.ends_with('-') && word.starts_with(begin))));
    let all: Vec<&str> = of_family.collect();
    let end = &word[other.len()..];
    let same: Vec<&str> = all.iter().copied().filter(|word| !end.is_empty() && word.ends_with(end)).collect();
    if same.is_empty() { all } else { same }
}

/// How a word begins that others begin like: `goodput-`.
fn beginning<'a>(word: &'a str, known: &[&str]) -> Option<&'a str> {
    /// Fewer are shown as they are.
    const SEVERAL: usize = 4;
    let begin = &word[..=word.find('-')?];
    (known.iter().filter(|other| other.starts_with(begin)).count() >= SEVERAL).then_some(begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let known = ["single", "ecmp", "packet-scatter", "packet-scatter-random"];
        assert_eq!(nearest("packet_scatter", known), Some("packet-scatter"));
        assert_eq!(nearest("ECMP", known), Some("ecmp"));
        assert_eq!(nearest("sinlge", known), Some("single"));
        assert_eq!(nearest("flowlet", known), None);
        let links = ["rate", "delay", "links.rate", "links.delay"];
        assert_eq!((nearest("latency", links), nearest("links.bw", links)), (Some("delay"), Some("links.rate")));
        assert_eq!((nearest("latency", known), nearest("hosts.bandwidth", links)), (None, None));
        assert_eq!(nearest("LACP", ["balance-rr", "802.3ad"]), Some("802.3ad"));
    }

    #[test]
    fn vlans_of_a_port_are_known_by_other_words() {
        let port = ["vlan-mode", "tag", "trunks", "learning", "flood", "storm-control"];
        for (word, meant) in [("vlan", "tag"), ("vid", "tag"), ("access", "tag"), ("PVID", "tag"), ("trunk", "trunks")]
        {
            assert_eq!(nearest(word, port), Some(meant), "{word}");
        }
        assert_eq!(nearest("vlan-mod", port), Some("vlan-mode"));
    }

    #[test]
    fn names_are_fit_for_hosts_and_paths() {
        assert!(["h1", "a.b", "0-x_y"].into_iter().all(is_name));
        assert!(!["", "-x", ".", "..", "a/b", "a b", "µ", &"x".repeat(64)].into_iter().any(is_name));
    }

    #[test]
    fn some_names_reach_somebody_else() {
        for name in ["localhost", "LocalHost", "localhost.", "a.localhost", "ip6-loopback"] {
            assert_eq!(reaches(name), Some("each host itself"), "{name}");
        }
        for name in ["10.0.0.1", "127", "0x7f000001", "0177.1", "127.1", "1.2.3.4."] {
            assert_eq!(reaches(name), Some("an address"), "{name}");
        }
        for name in ["h1", "1a", "10.0.0.1.5", "0xfoo", "a.1", "local", "localhosts", "1-2"] {
            assert_eq!(reaches(name), None, "{name}");
        }
        assert_eq!(canonical("H1."), canonical("h1"));
    }
}
