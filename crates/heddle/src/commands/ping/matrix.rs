//! Answers as text: a matrix, or a line a host where there are many.

use std::fmt::Write as _;
use std::net::IpAddr;

use live::pings::Answers;

use super::Asked;

/// More columns than this do not stand side by side.
const MATRIX_HOSTS_MAX: usize = 16;

/// How many hosts a line names.
const NAMED_MAX: usize = 8;

/// All pairs, and how many of them got an answer.
pub fn table(asked: &[Asked]) -> String {
    let body = if asked.len() <= MATRIX_HOSTS_MAX { matrix(asked) } else { summaries(asked) };
    let answers = || asked.iter().flat_map(|asked| &asked.of);
    let [sent, received] = [|it: &Answers| it.sent, |it: &Answers| it.received]
        .map(|of| answers().map(|(_, answers)| u64::from(of(answers))).sum::<u64>());
    let lost = 100.0 * (sent - received) as f64 / sent.max(1) as f64;
    format!("{body}\n{received}/{sent} received ({} lost)\n{}", per_cent(lost), failures(asked))
}

/// One pair in one line, with the address that was asked.
pub fn pair(asked: &[Asked], address: IpAddr) -> String {
    let lines = asked.iter().flat_map(|Asked { from, of }| of.iter().map(move |(to, answers)| (from, to, answers)));
    let line = |(from, to, answers): (&String, &String, &Answers)| {
        let rtt = answers.rtt_ns.map_or_else(String::new, |rtt| {
            let [min, mean, max] = rtt.map(ms);
            format!(", round-trip time {min} / {mean} / {max} ms (min / mean / max)")
        });
        let failure = answers.failure.as_ref().map_or_else(String::new, |failure| format!("; {failure}"));
        let at = address.to_string();
        let to = if *to == at { at } else { format!("{to} ({at})") };
        format!("{from} -> {to}: {}/{} received{rtt}{failure}\n", answers.received, answers.sent)
    };
    lines.map(line).collect()
}

/// A row for each host that has asked, a column for each that was asked: round-trip times, or `X`.
fn matrix(asked: &[Asked]) -> String {
    let mut names: Vec<&str> = asked.iter().map(|asked| asked.from.as_str()).collect();
    // Those that only answer.
    let others = asked.iter().flat_map(|asked| asked.of.iter().map(|(name, _)| name.as_str()));
    for name in others {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let cell = |row: &Asked, to: &str| match row.of.iter().find(|(name, _)| name == to) {
        None => "-".to_owned(),
        Some((_, Answers { rtt_ns: Some([_, mean, _]), .. })) => ms(*mean),
        Some(_) => "X".to_owned(),
    };
    let rows: Vec<Vec<String>> = asked.iter().map(|row| names.iter().map(|to| cell(row, to)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].len());
        cells.chain([names[column].chars().count()]).max().unwrap_or(0)
    };
    let first = names.iter().map(|name| name.chars().count()).chain(["ms".len()]).max().unwrap_or(0);
    let line = |name: &str, cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells.enumerate().map(|(column, cell)| format!("  {cell:>width$}", width = width(column)));
        format!("{name:<first$}{}\n", cells.collect::<String>())
    };
    let head = line("ms", &mut names.iter().copied());
    let body = asked.iter().zip(&rows).map(|(row, cells)| line(&row.from, &mut cells.iter().map(String::as_str)));
    std::iter::once(head).chain(body).collect()
}

/// A line for each host that has asked: how many have answered, and how fast.
fn summaries(asked: &[Asked]) -> String {
    let mut rows = vec![["from", "answered", "min ms", "mean ms", "max ms"].map(str::to_owned)];
    for Asked { from, of } in asked {
        let times: Vec<[u64; 3]> = of.iter().filter_map(|(_, answers)| answers.rtt_ns).collect();
        let mean = times.iter().map(|[_, mean, _]| mean).sum::<u64>() / times.len().max(1) as u64;
        let least = times.iter().map(|[min, ..]| *min).min();
        let most = times.iter().map(|[.., max]| *max).max();
        let [min, mean, max] = [least, least.map(|_| mean), most].map(|time| time.map_or_else(|| "-".to_owned(), ms));
        rows.push([from.clone(), format!("{}/{}", times.len(), of.len()), min, mean, max]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3, 4].map(width);
    let line = |[from, rest @ ..]: &[String; 5]| {
        let rest = rest.iter().zip(&widths[1..]).map(|(cell, width)| format!("  {cell:>width$}"));
        format!("{from:<width$}{}\n", rest.collect::<String>(), width = widths[0])
    };
    rows.iter().map(line).collect()
}

/// Who got no answer of whom, and why: a line for each host that has asked and each reason.
fn failures(asked: &[Asked]) -> String {
    let mut lines = String::new();
    for Asked { from, of } in asked {
        let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
        for (to, answers) in of.iter().filter(|(_, answers)| answers.received == 0) {
            let reason = answers.failure.as_deref().unwrap_or("no answer");
            match by_reason.iter_mut().find(|(other, _)| *other == reason) {
                Some((_, names)) => names.push(to),
                None => by_reason.push((reason, vec![to])),
            }
        }
        for (reason, names) in by_reason {
            let more = names.len().saturating_sub(NAMED_MAX);
            let named = names[..names.len() - more].join(", ");
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            let _ = writeln!(lines, "{from} -> {named}{more}: {reason}");
        }
    }
    lines
}

/// Milliseconds with three digits that count.
fn ms(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    let decimals = match ms {
        ..1.0 => 3,
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{ms:.decimals$}")
}

fn per_cent(share: f64) -> String {
    if share == 0.0 || share >= 10.0 { format!("{share:.0} %") } else { format!("{share:.1} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(received: u32, mean_us: u64) -> Answers {
        let rtt_ns = (received > 0).then(|| [mean_us * 500, mean_us * 1_000, mean_us * 2_000]);
        Answers { sent: 1, received, rtt_ns, failure: (received == 0).then(|| "no answer".to_owned()) }
    }

    fn host(from: &str, of: &[(&str, u32, u64)]) -> Asked {
        let of = of.iter().map(|(to, received, mean_us)| ((*to).to_owned(), answers(*received, *mean_us)));
        Asked { from: from.to_owned(), of: of.collect() }
    }

    #[test]
    fn pairs_stand_in_a_matrix() {
        let asked = [
            host("h1", &[("h2", 1, 123), ("web.10", 0, 0)]),
            host("h2", &[("h1", 1, 12_345), ("web.10", 1, 1_234)]),
            host("web.10", &[("h1", 0, 0), ("h2", 0, 0)]),
        ];
        let expected = "\
ms        h1     h2  web.10
h1         -  0.123       X
h2      12.3      -    1.23
web.10     X      X       -

3/6 received (50 % lost)
h1 -> web.10: no answer
web.10 -> h1, h2: no answer
";
        assert_eq!(table(&asked), expected);
        assert_eq!(
            pair(&[host("h1", &[("h2", 1, 123)])], [10, 0, 0, 2].into()),
            "h1 -> h2 (10.0.0.2): 1/1 received, round-trip time 0.061 / 0.123 / 0.246 ms (min / mean / max)\n"
        );
        assert_eq!(
            pair(&[host("h1", &[("10.0.0.9", 0, 0)])], [10, 0, 0, 9].into()),
            "h1 -> 10.0.0.9: 0/1 received; no answer\n"
        );
    }

    #[test]
    fn many_hosts_have_a_line_each() {
        let names: Vec<String> = (1..=20).map(|n| format!("h{n}")).collect();
        let asked: Vec<Asked> = names
            .iter()
            .map(|from| {
                let others = names.iter().filter(|to| *to != from);
                let of: Vec<(&str, u32, u64)> = others.map(|to| (to.as_str(), u32::from(from != "h3"), 100)).collect();
                host(from, &of)
            })
            .collect();
        let table = table(&asked);
        assert!(
            table.starts_with("from  answered  min ms  mean ms  max ms\nh1       19/19   0.050    0.100   0.200\n"),
            "{table}"
        );
        assert!(table.contains("h3        0/19       -        -       -\n"), "{table}");
        assert!(
            table.contains(
                "361/380 received (5.0 % lost)\nh3 -> h1, h2, h4, h5, h6, h7, h8, h9 and 11 more: no answer\n"
            ),
            "{table}"
        );
    }
}
