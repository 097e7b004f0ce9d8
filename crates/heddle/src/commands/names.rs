//! `show names`: which sites names lead to.

use balance::names::NameCounters;
use fabric::Fabric;
use live::Instance;
use live::control::{Counters, NameStatus, SiteStatus};
use miette::Report;
use serde_json::{Value, json};

use super::explain;
use crate::output::Rows;

const COLUMNS: [&str; 16] = [
    "name",
    "ttl-s",
    "site",
    "service",
    "weight",
    "backup",
    "healthy",
    "servers",
    "drained",
    "load-%",
    "answers",
    "share-%",
    "name-queries",
    "name-failed-over",
    "name-failed-open",
    "name-no-data",
];

const NO_NAMES: &str = "No names: `names: { www.example.net: { address: 10.0.0.53, sites: { east: { service: web } } } }` in the file makes one.";

/// One row for each site of each name. What names and name servers have counted besides stands below a table; what names have, in columns of their own elsewhere.
pub fn names(instance: &Instance) -> Result<Rows, Report> {
    let counters = instance.counters().map_err(explain)?;
    Ok(rows(&counters))
}

/// The same of a file, which says what there is.
pub fn names_of_file(fabric: &Fabric) -> Rows {
    let columns = ["name", "asked-at", "ttl-s", "site", "service", "weight", "backup", "clients"];
    let mut rows = Rows::new(&columns).or_say(NO_NAMES);
    for name in &fabric.names {
        let asked_at: Vec<String> = name.spec.asked_at.iter().map(ToString::to_string).collect();
        for (site, service) in name.spec.sites.iter().zip(&name.services) {
            let clients: Vec<String> = site.clients.iter().map(ToString::to_string).collect();
            rows.push([
                json!(name.spec.name.to_string()),
                json!(asked_at.join(" ")),
                json!(name.spec.ttl_s),
                json!(site.name),
                json!(fabric.services[*service].name),
                json!(site.weight),
                json!(site.is_backup),
                json!(clients.join(" ")),
            ]);
        }
    }
    rows
}

fn rows(counters: &Counters) -> Rows {
    let mut rows = Rows::new(&COLUMNS)
        .or_say(NO_NAMES)
        .with_spare(&["ttl-s", "backup", "weight", "servers"])
        .with_rare(&["drained"])
        .with_hidden(&["name-queries", "name-failed-over", "name-failed-open", "name-no-data"]);
    for name in &counters.names {
        name.sites.iter().for_each(|site| rows.push(site_row(name, site)));
    }
    for name in &counters.names {
        let counts = counts_in_words(&name.counters.named(), |what, count| what == "queries" || count > 0);
        rows.remark(format!("{}: {counts}", name.name));
    }
    if counters.name_servers.messages > 0 {
        let counts = counts_in_words(&counters.name_servers.named(), |_, count| count > 0);
        rows.remark(format!("Name servers: {counts}"));
    }
    rows
}

/// `6 messages, 2 refused`.
fn counts_in_words(counts: &[(&str, u64)], is_said: impl Fn(&str, u64) -> bool) -> String {
    let said = counts.iter().filter(|(what, count)| is_said(what, *count));
    said.map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

fn site_row(name: &NameStatus, site: &SiteStatus) -> [Value; COLUMNS.len()] {
    let NameCounters { queries, answered, failed_over, failed_open, no_data } = name.counters;
    let share = (answered > 0).then(|| (site.answers as f64 * 1e3 / answered as f64).round() / 10.0);
    [
        json!(name.name),
        json!(name.ttl_s),
        json!(site.site),
        json!(site.service),
        json!(site.weight),
        json!(site.is_backup),
        json!(site.healthy),
        json!(site.servers),
        json!(site.drained),
        json!(site.load_percent),
        json!(site.answers),
        json!(share),
        json!(queries),
        json!(failed_over),
        json!(failed_open),
        json!(no_data),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Format;
    use balance::names::QueryCounters;

    #[test]
    fn sites_have_their_shares_of_the_answers() {
        let site = |site: &str, answers| SiteStatus {
            site: site.to_owned(),
            service: format!("web-{site}"),
            weight: 1,
            servers: 2,
            healthy: 2,
            answers,
            ..SiteStatus::default()
        };
        let name = NameStatus {
            name: "www.example.net".to_owned(),
            ttl_s: 5,
            sites: vec![
                site("east", 2),
                SiteStatus { load_percent: Some(70), servers: 1, healthy: 1, drained: 1, ..site("west", 1) },
            ],
            counters: NameCounters { queries: 4, answered: 3, no_data: 1, ..NameCounters::default() },
            ..NameStatus::default()
        };
        let name_servers = QueryCounters { messages: 6, refused: 2, ..QueryCounters::default() };
        let counters = Counters { names: vec![name], name_servers, ..Counters::default() };
        let rows = rows(&counters);
        let csv = rows.render(Format::Csv);
        assert!(csv.contains("www.example.net,5,east,web-east,1,false,2,2,0,,2,66.7,4,0,0,1\n"), "{csv}");
        assert!(csv.contains("west,web-west,1,false,1,1,1,70,1,33.3,4,0,0,1\n"), "{csv}");
        assert_eq!(csv.lines().count(), 1 + 2, "a row is a site: {csv}");
        let table = rows.render(Format::Table);
        let said = "www.example.net: 4 queries, 3 answered, 1 no-data\nName servers: 6 messages, 2 refused\n";
        assert!(table.ends_with(said) && !table.contains("name-queries") && table.contains("drained"), "{table}");
        assert!(table.lines().all(|line| line.len() <= 110), "{table}");
    }
}
