//! `show names`: which sites names lead to.

use fabric::Fabric;
use live::Instance;
use live::control::{Counters, NameStatus, SiteStatus};
use miette::Report;
use serde_json::{Value, json};

use super::explain;
use crate::output::Rows;

const COLUMNS: [&str; 11] =
    ["name", "ttl-s", "site", "service", "weight", "backup", "healthy", "servers", "load-%", "answers", "share-%"];

/// One row for each site of each name, and one for each thing that names and name servers have counted besides.
pub fn names(instance: &Instance) -> Result<Rows, Report> {
    let counters = instance.counters().map_err(explain)?;
    Ok(rows(&counters))
}

/// The same of a file, which says what there is.
pub fn names_of_file(fabric: &Fabric) -> Rows {
    let mut rows = Rows::new(&["name", "asked-at", "ttl-s", "site", "service", "weight", "backup", "clients"]);
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
    let mut rows = Rows::new(&COLUMNS).with_spare(&["ttl-s", "backup", "weight", "servers"]);
    for name in &counters.names {
        name.sites.iter().for_each(|site| rows.push(site_row(name, site)));
    }
    for name in &counters.names {
        // Those that sites have are in their rows.
        let others = name.counters.named().into_iter().filter(|(what, _)| !["queries", "answered"].contains(what));
        others.for_each(|(what, count)| rows.push(count_row(&name.name, what, count)));
    }
    for (what, count) in counters.name_servers.named().into_iter().filter(|(_, count)| *count > 0) {
        rows.push(count_row("(name servers)", what, count));
    }
    rows
}

fn site_row(name: &NameStatus, site: &SiteStatus) -> [Value; COLUMNS.len()] {
    let answered = name.counters.answered;
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
        json!(site.load_percent),
        json!(site.answers),
        json!(share),
    ]
}

/// Something that was counted, in the columns of a site and its answers.
fn count_row(name: &str, what: &str, count: u64) -> [Value; COLUMNS.len()] {
    let mut row = [const { Value::Null }; COLUMNS.len()];
    [row[0], row[2], row[9]] = [json!(name), json!(format!("({what})")), json!(count)];
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Format;
    use balance::names::{NameCounters, QueryCounters};

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
            sites: vec![site("east", 2), SiteStatus { load_percent: Some(70), ..site("west", 1) }],
            counters: NameCounters { queries: 4, answered: 3, no_data: 1, ..NameCounters::default() },
            ..NameStatus::default()
        };
        let name_servers = QueryCounters { messages: 6, refused: 2, ..QueryCounters::default() };
        let counters = Counters { names: vec![name], name_servers, ..Counters::default() };
        let rows = rows(&counters);
        let csv = rows.render(Format::Csv);
        assert!(csv.contains("www.example.net,5,east,web-east,1,false,2,2,,2,66.7"), "{csv}");
        assert!(csv.contains("west,web-west,1,false,2,2,70,1,33.3"), "{csv}");
        assert!(csv.contains("www.example.net,,(no-data),,,,,,,1,"), "{csv}");
        assert!(csv.contains("(name servers),,(refused),,,,,,,2,"), "{csv}");
    }
}
