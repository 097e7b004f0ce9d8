//! One page that holds everything: verdict, what it ran on, tables, plots. No script, no network.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use fabric::{DriverKind, Metric, Operation};

use super::bonds::BondTable;
use super::html::{driver_class, driver_key, driver_word, table};
use super::latency::other_metrics;
use super::quantity::{self, Scale};
use super::svg::escape;
use super::table::{alike, has_published, heading, is_summed_up, published_text, runs_text, scale_of};
use super::{charts, cluster, data, distributions, drivers, lines, network, over_time, schedulers};
use crate::counted::{counted, word};
use crate::doubts::{MORE_RUNS, few_runs_in_words};
use crate::measure::metric::metric_name;
use crate::measure::statistics;
use crate::results::{CaseResult, ExperimentResult, Results, Verdict};

/// More small drawings than this would be a wall.
const DRAWINGS_MAX: usize = 32;
/// Above this many links, small drawings are grey.
const SMALL_LINKS_MAX: usize = 400;

/// With more metrics than this, three columns each don't fit a page.
const STACKED_ABOVE: usize = 3;

/// A longer table of bonds is folded.
const BOND_ROWS_OPEN: usize = 40;

const STYLE: &str = include_str!("report.css");

impl Results {
    /// The report as one self-contained HTML page.
    pub fn html(&self) -> String {
        let mut page = opening(&self.network.name);
        let drivers = drivers::section(self);
        page.push_str(&self.head());
        page.push_str(&self.contents(!drivers.is_empty()));
        page.push_str(&self.picture());
        for (number, experiment) in self.experiments.iter().enumerate() {
            page.push_str(&self.experiment(number, experiment));
        }
        page.push_str(&drivers);
        page.push_str(&schedulers::section(self));
        page.push_str(&self.ran_on());
        page.push_str("</main>\n</body>\n</html>\n");
        page
    }

    fn head(&self) -> String {
        let network = &self.network;
        let switches = network.nodes.len().saturating_sub(network.hosts as usize);
        let (class, sign, words) = headline(self);
        let mut html = format!(
            "<header>\n<p class=\"eyebrow\">Heddle · {} · seed {}</p>\n<h1>{}</h1>\n",
            escape(&self.environment.date),
            self.seed,
            escape(&network.name)
        );
        if !network.description.is_empty() {
            let _ = writeln!(html, "<p class=\"lead\">{}</p>", escape(&network.description));
        }
        let _ = writeln!(html, "<p class=\"verdict {class}\"><span>{sign}</span> {words}</p>");
        if let Some(warning) = self.warning() {
            let _ = writeln!(html, "<p class=\"warning\">{}</p>", escape(&warning));
        }
        html.push_str("<div class=\"tiles\">\n");
        let mut tile = |value: &str, what: &str| {
            let _ = writeln!(html, "<div class=\"tile\"><b>{}</b><span>{}</span></div>", escape(value), escape(what));
        };
        if !network.nodes.is_empty() {
            let functions = match network.functions {
                0 => String::new(),
                some => format!(", {}", counted(some.into(), "function")),
            };
            let hosts = network.hosts.saturating_sub(network.function_ports + network.interfaces);
            let others = [counted(switches as u64, "switch"), counted(network.links.len() as u64, "link")].join(", ");
            tile(&hosts.to_string(), &format!("{}, {others}{functions}", word(hosts.into(), "host")));
        }
        if let Some(controllers) = network.controllers {
            let what = format!("{}, unless a case says otherwise", word(controllers.into(), "controller"));
            tile(&controllers.to_string(), &what);
        }
        let count = |driver| self.records.iter().filter(|record| record.driver == driver).count();
        for &driver in &self.drivers {
            let runs = count(driver);
            tile(&runs.to_string(), &format!("{} {}", driver_word(driver), word(runs as u64, "run")));
        }
        if let Some((mean, worst)) = agreement(self) {
            let metrics: BTreeSet<&str> = self.compared_metrics().map(metric_name).collect();
            let of = metrics.into_iter().collect::<Vec<_>>().join("; ");
            tile(
                &format!("{:.1} %", mean * 100.0),
                &format!("live from simulated on average over all cases, {:.1} % at most ({of})", worst * 100.0),
            );
        }
        if let Some(speed) = self.simulator_speed() {
            tile(&format!("{}/s", quantity::rough(speed.per_second)), "packet-hops, simulated on one core");
        }
        html + "</div>\n</header>\n"
    }

    /// The first metric of each experiment of which live and simulated can be compared.
    fn compared_metrics(&self) -> impl Iterator<Item = Metric> {
        self.experiments.iter().filter_map(|experiment| {
            let metric = experiment.metrics.first().copied()?;
            experiment.cases.iter().any(|case| apart(case, metric).is_some()).then_some(metric)
        })
    }

    /// Where everything is; nothing if there is little.
    fn contents(&self, compares: bool) -> String {
        if self.experiments.len() < 2 && !compares {
            return String::new();
        }
        let mut html = String::from("<nav class=\"contents\" aria-label=\"Contents\"><ol>\n");
        for (number, experiment) in self.experiments.iter().enumerate() {
            let missed = experiment.verdicts.iter().filter(|verdict| !verdict.passed).count();
            let mark = match (experiment.verdicts.len(), missed) {
                (0, _) => String::new(),
                (_, 0) => " <span class=\"met\">✓</span>".to_owned(),
                (all, missed) => format!(" <span class=\"missed\">✗ {missed} of {all}</span>"),
            };
            let title = escape(title_of(experiment));
            let _ = writeln!(html, "<li><a href=\"#experiment-{number}\">{title}</a>{mark}</li>");
        }
        if compares {
            html.push_str("<li><a href=\"#drivers\">Live against simulated</a></li>\n");
        }
        html + "<li><a href=\"#machine\">What it ran on</a></li>\n</ol></nav>\n"
    }

    /// The network with the mean load of its links over all runs.
    fn picture(&self) -> String {
        let network = &self.network;
        if network.links.len() > network::DRAWN_LINKS_MAX || network.nodes.is_empty() {
            return String::new();
        }
        let share = network::utilisation(network.links.len(), self.records.iter());
        let known = share.iter().any(Option::is_some);
        let label = format!("Topology of {}", network.name);
        let drawing = network::draw(network, &share, 960.0, true, &label);
        let key =
            if known { ramp_key("utilisation of the busier direction, mean over all runs") } else { String::new() };
        format!(
            "<section class=\"card\">\n<h3>The network</h3>\n{key}<div class=\"scroll\">{drawing}</div>\n</section>\n"
        )
    }

    fn experiment(&self, number: usize, experiment: &ExperimentResult) -> String {
        let title = title_of(experiment);
        let runs = if experiment.repeat == 1 { "one run".to_owned() } else { experiment.runs_in_words() };
        let warm_up = match (experiment.warm_up_seconds, experiment.live_warm_up_seconds) {
            (0.0, None) => String::new(),
            (seconds, None) => format!(" after a warm-up of {seconds} s"),
            (seconds, Some(live)) => format!(" after a warm-up of {seconds} s (live TCP: {live} s)"),
        };
        let asks = !experiment.asks.is_empty();
        let lasts = if asks { String::new() } else { format!(" of {}{warm_up}", experiment.seconds_in_words()) };
        let mut html = format!(
            "<section id=\"experiment-{number}\">\n<h2>{}</h2>\n<p class=\"lead\"><code>{}</code> · {}. Each case: {runs}{lasts}.</p>\n",
            escape(title),
            escape(&experiment.name),
            escape(&experiment.traffic),
        );
        for line in experiment.left_out().into_iter().chain(experiment.unlike_warm_up(&self.drivers)) {
            let _ = writeln!(html, "<p class=\"small\">{}</p>", escape(&line));
        }
        // A terminal has shown it before the first run.
        let few = few_runs_in_words(experiment.repeat, !experiment.verdicts.is_empty());
        let few = few.map(|few| format!("{few}: {MORE_RUNS}"));
        for note in few.into_iter().chain(self.notes(experiment)) {
            let _ = writeln!(html, "<p class=\"warning\">{}</p>", escape(&note));
        }
        html.push_str(&verdict_table(experiment));
        if !experiment.is_measured() {
            return html + "<p class=\"small\">Nothing was measured.</p>\n</section>\n";
        }
        if asks {
            html.push_str(&self.asked(experiment));
            return html + "</section>\n";
        }
        let _ =
            writeln!(html, "<div class=\"card\">{}</div>", table_html(experiment, &experiment.metrics, &self.drivers));
        html.push_str(&bond_table(experiment));
        html.push_str(&self.plots(experiment));
        html.push_str(&over_time::section(self, experiment));
        html.push_str(&self.loads(experiment));
        html + "</section>\n"
    }

    /// What an experiment that asks controllers has to show.
    fn asked(&self, experiment: &ExperimentResult) -> String {
        let drivers = &experiment.drivers_of(&self.drivers);
        let mut html = String::new();
        if let Some(table) = cluster::latency_table(experiment, drivers) {
            let _ = writeln!(html, "<div class=\"card\">{table}</div>");
        }
        let others = other_metrics(experiment);
        if !others.is_empty() {
            let _ = writeln!(html, "<div class=\"card\">{}</div>", table_html(experiment, &others, drivers));
        }
        let interval = if experiment.repeat > 1 {
            "mean over the runs; whiskers: 99 % confidence interval"
        } else {
            "one run each"
        };
        html.push_str(&cluster::plots(self, experiment, drivers, interval));
        if !experiment.asks.contains(&Operation::Election) {
            html.push_str(&cluster::faults(self, experiment));
        }
        html
    }

    fn plots(&self, experiment: &ExperimentResult) -> String {
        let key = driver_key(&self.drivers);
        let mut html = String::from("<div class=\"two\">\n");
        let mut card = |title: &str, note: &str, drawing: Option<String>, link: &str| {
            if let Some(drawing) = drawing {
                let (title, note) = (escape(title), escape(note));
                let _ = writeln!(
                    html,
                    "<div class=\"card\"><h3>{title}</h3><p class=\"small\">{note}</p>{key}{drawing}{link}</div>"
                );
            }
        };
        // Over an axis of numbers as lines, else as bars.
        let drawn = |metric| {
            let lines = lines::draw(experiment, &self.drivers, metric);
            lines.or_else(|| charts::bars(experiment, &self.drivers, metric))
        };
        let behind = |metric: Metric| {
            let name = format!("{}-{}-{}", self.network.name, experiment.name, metric.word());
            data::link(&name, &data::of_metric(experiment, &self.drivers, metric))
        };
        let interval = if experiment.repeat > 1 {
            "mean over the runs; whiskers: 99 % confidence interval, with an arrow where it goes on"
        } else {
            "one run each"
        };
        let (first, rest) =
            experiment.metrics.split_first().map_or((None, &[][..]), |(first, rest)| (Some(*first), rest));
        if let Some(metric) = first {
            card(&heading(experiment, metric), interval, drawn(metric), &behind(metric));
        }
        let unit = scale_of(experiment, Metric::GoodputMean).unit;
        card(
            &format!("goodput of each flow ({unit})"),
            "a dot a flow, a stroke at the median",
            charts::strips(self, experiment),
            "",
        );
        card(
            &format!("{}, compared", first.map_or("goodput", metric_name)),
            "paired by seed: same pairs of hosts, all else equal",
            charts::forest(experiment),
            "",
        );
        for &metric in rest {
            card(&heading(experiment, metric), interval, drawn(metric), &behind(metric));
        }
        for (title, note, drawing, csv) in distributions::all(self, experiment) {
            let name = format!("{}-{}-{title}", self.network.name, experiment.name);
            card(&title, note, Some(drawing), &data::link(&name, &csv));
        }
        html + "</div>\n"
    }

    /// Where the load went: a strip of all links, and a small drawing of each case.
    fn loads(&self, experiment: &ExperimentResult) -> String {
        let Some(strip) = network::heat_strip(self, experiment) else { return String::new() };
        let key = ramp_key("utilisation; a cell a link direction, busiest first");
        let mut html =
            format!("<div class=\"card\"><h3>Load of the links</h3>{key}<div class=\"scroll\">{strip}</div></div>\n");
        let drawings = experiment.cases.len() * self.drivers.len();
        if drawings > DRAWINGS_MAX || self.network.links.len() > SMALL_LINKS_MAX {
            return html;
        }
        html.push_str("<div class=\"card\"><h3>Where the load went</h3>");
        html.push_str(&ramp_key("utilisation of the busier direction"));
        html.push_str("<div class=\"many\">\n");
        let mut small = network::SmallDrawings::new(&self.network, &format!("nodes-{}", experiment.name));
        for (number, case) in experiment.cases.iter().enumerate() {
            for &driver in &self.drivers {
                let records = self.records_of(experiment, number, driver);
                let share = network::utilisation(self.network.links.len(), records);
                let caption = format!("{}, {}", case.labels, driver_word(driver));
                let drawing = small.draw(&share, &caption);
                let _ = writeln!(html, "<figure>{drawing}<figcaption>{}</figcaption></figure>", escape(&caption));
            }
        }
        html + "</div></div>\n"
    }

    fn ran_on(&self) -> String {
        let environment = &self.environment;
        let mut html = String::from("<section id=\"machine\">\n<h2>What it ran on</h2>\n<div class=\"card\"><dl>\n");
        let mut row = |term: &str, value: &str| {
            if !value.is_empty() {
                let _ = writeln!(html, "<dt>{term}</dt><dd>{}</dd>", escape(value));
            }
        };
        let memory = environment.memory_bytes as f64 / (1_u64 << 30) as f64;
        row("date", &format!("{} UTC", environment.date));
        row("machine", &format!("{} cores of {}, {memory:.1} GiB", environment.cores, environment.cpu));
        row("kernel", &environment.kernel);
        row("heddle", &environment.version);
        row("live traffic", environment.iperf3.as_deref().unwrap_or_default());
        row("command", &environment.command.join(" "));
        let seconds: f64 = environment.timings.iter().map(|timing| timing.wall_seconds).sum();
        row("time in runs", &format!("{seconds:.1} s"));
        if let Some(speed) = environment.simulator {
            let text = format!(
                "{} packet-hops in {:.2} s of CPU time: {} packet-hops/s on one core",
                quantity::rough(speed.packet_hops as f64),
                speed.cpu_seconds,
                quantity::rough(speed.per_second)
            );
            row("simulator", &text);
        }
        html.push_str("</dl></div>\n</section>\n");
        let of_live = if self.drivers.contains(&DriverKind::Live) {
            "With <code>ecmp</code>, live flows hash the ports that the kernel gave them: single flows take other paths than simulated ones. "
        } else {
            ""
        };
        let _ = writeln!(
            html,
            "<footer><p>Intervals are 99 % confidence intervals of the mean by Student’s t. Percentiles are of all packets, transfers or requests \
             of a run, and shown is their mean over the runs; distributions are of all runs together. Differences are paired: live and \
             simulated runs, and the values of a policy, share their seed and their pairs of hosts. Goodput is payload that \
             reached the receiving program while measured; streams of one pair of hosts are one flow here. Reordering after RFC 4737; \
             its extent counts from the flow’s start in live runs, from the end of the warm-up in simulated ones. {of_live}Raw samples: \
             <code>samples.jsonl</code> beside this page.</p></footer>"
        );
        html
    }
}

/// A column a metric; live, simulated and difference stand beside each other where that fits, else in one cell.
fn table_html(experiment: &ExperimentResult, metrics: &[Metric], drivers: &[DriverKind]) -> String {
    if drivers.len() > 1 && metrics.len() > STACKED_ABOVE {
        return stacked_table(experiment, metrics, drivers);
    }
    let both = drivers.len() > 1;
    let mut head = String::from("<tr><th></th>");
    let mut second = String::from("<tr><th>case</th>");
    for &metric in metrics {
        let name = escape(&heading(experiment, metric));
        if both {
            let _ = write!(head, "<th class=\"group\" colspan=\"3\">{name}</th>");
            second.push_str("<th class=\"live first\">live</th><th class=\"sim\">simulated</th><th>difference</th>");
        } else {
            let _ = write!(second, "<th class=\"high\">{name}</th>");
        }
        if has_published(experiment, metric) {
            head.push_str("<th></th>");
            second.push_str("<th>published</th>");
        }
    }
    let head = if both { format!("{head}</tr>\n{second}</tr>") } else { format!("{second}</tr>") };
    let row = |case: &CaseResult| {
        let cells = metrics.iter().flat_map(|&metric| {
            let mut cells = cell_texts(experiment, case, metric, drivers).into_iter();
            let first =
                cells.next().map(|text| format!("<td class=\"{}\">{text}</td>", if both { "first" } else { "" }));
            let published =
                has_published(experiment, metric).then(|| escape(&published_text(experiment, case, metric)));
            let others = cells.chain(published).map(|text| format!("<td>{text}</td>"));
            first.into_iter().chain(others).collect::<Vec<_>>()
        });
        format!("<tr>{}{}</tr>\n", case_head(experiment, case, drivers), cells.collect::<String>())
    };
    table("", &head, &experiment.cases.iter().map(row).collect::<String>())
}

fn stacked_table(experiment: &ExperimentResult, metrics: &[Metric], drivers: &[DriverKind]) -> String {
    let heads =
        metrics.iter().map(|&metric| format!("<th class=\"high\">{}</th>", escape(&heading(experiment, metric))));
    let head = format!("<tr><th>case</th>{}</tr>", heads.collect::<String>());
    let row = |case: &CaseResult| {
        let cells = metrics.iter().map(|&metric| {
            let texts = cell_texts(experiment, case, metric, drivers);
            let classes = drivers.iter().map(|&driver| driver_class(driver)).chain(["apart"]);
            let published = case.published(metric).map(|_| published_text(experiment, case, metric));
            let published = published.map(|text| ("apart", format!("published {text}")));
            let spans = classes.zip(texts).chain(published);
            let spans = spans.map(|(class, text)| format!("<span class=\"{class}\">{text}</span>"));
            format!("<td>{}</td>", spans.collect::<String>())
        });
        format!("<tr>{}{}</tr>\n", case_head(experiment, case, drivers), cells.collect::<String>())
    };
    let rows: String = experiment.cases.iter().map(row).collect();
    let key = "<div class=\"key\"><span><i class=\"live\"></i>live</span><span><i class=\"sim\"></i>simulated</span>\
               <span>below: live against simulated</span></div>";
    format!("{key}{}", table("wraps", &head, &rows))
}

/// One text a driver, and the difference if there are two.
fn cell_texts(experiment: &ExperimentResult, case: &CaseResult, metric: Metric, drivers: &[DriverKind]) -> Vec<String> {
    let scale = scale_of(experiment, metric);
    let unknown = || "–".to_owned();
    let show = |&driver: &DriverKind| case.summary(metric, driver).map_or_else(unknown, |s| scale.with_interval(s));
    let mut texts: Vec<String> = drivers.iter().map(show).collect();
    if drivers.len() > 1 {
        let difference = case.cell(metric).and_then(|cell| cell.difference.as_ref());
        texts.push(difference.map_or_else(unknown, |by| quantity::difference(by, metric.unit())));
    }
    texts
}

/// What bonds did, where there are any.
fn bond_table(experiment: &ExperimentResult) -> String {
    let Some(BondTable { headings, rows, figures }) = BondTable::of(experiment) else { return String::new() };
    let class = |at| if at < figures { "left" } else { "high" };
    let heads = headings.iter().enumerate().map(|(at, heading)| format!("<th class=\"{}\">{heading}</th>", class(at)));
    let heads = heads.collect::<String>();
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().skip(1);
        let cells = cells.map(|(at, cell)| format!("<td class=\"{}\">{}</td>", class(at), escape(cell)));
        format!("<tr><th scope=\"row\">{}</th>{}</tr>\n", escape(&row[0]), cells.collect::<String>())
    };
    let body = rows.iter().map(line).collect::<String>();
    let open = if rows.len() > BOND_ROWS_OPEN { "" } else { " open" };
    let table = table("", &format!("<tr>{heads}</tr>"), &body);
    format!(
        "<details class=\"card\"{open}><summary>Bonds</summary><p class=\"small\">What each sent by its members, and what order on \
         arrival cost at the other end (simulated: warm-up included; live: the longest wait since the bond began).</p>{table}</details>\n"
    )
}

/// What a page about something begins with.
pub(super) fn opening(about: &str) -> String {
    let about = escape(about);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{about} – Heddle</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
    )
}

/// What people call an experiment.
fn title_of(experiment: &ExperimentResult) -> &str {
    if experiment.title.is_empty() { &experiment.name } else { &experiment.title }
}

fn case_head(experiment: &ExperimentResult, case: &CaseResult, drivers: &[DriverKind]) -> String {
    let runs = experiment.precision.map(|_| {
        let count = runs_text(case, drivers);
        let word = word(count.parse().unwrap_or_default(), "run");
        format!("<br><span class=\"small\">{count} {word}</span>")
    });
    format!("<th scope=\"row\">{}{}</th>", escape(&case.labels.to_string()), runs.unwrap_or_default())
}

fn headline(results: &Results) -> (&'static str, &'static str, String) {
    let (missed, all) = results
        .verdicts()
        .fold((0_u32, 0_u32), |(missed, all), (_, verdict)| (missed + u32::from(!verdict.passed), all + 1));
    match (missed, all) {
        (_, 0) => ("plain", "·", "Measured; the file expects nothing".to_owned()),
        (0, 1) => ("good", "✓", "The expectation is met".to_owned()),
        (0, all) => ("good", "✓", format!("All {all} expectations are met")),
        (missed, all) => ("bad", "✗", format!("{missed} of {all} expectations missed")),
    }
}

/// How far live and simulated lie apart in each experiment's first metric: mean and largest, as fractions.
fn agreement(results: &Results) -> Option<(f64, f64)> {
    let of_experiments = results.experiments.iter().flat_map(|experiment| {
        let metric = experiment.metrics.first().copied();
        experiment.cases.iter().filter_map(move |case| apart(case, metric?))
    });
    let all: Vec<f64> = of_experiments.collect();
    Some((statistics::mean(&all)?, all.into_iter().fold(0.0, f64::max)))
}

/// How far live is from simulated, as a share.
fn apart(case: &CaseResult, metric: Metric) -> Option<f64> {
    // A table has no share of a mean that may be nothing. Left out here, the worst cases would be.
    let cell = case.cell(metric)?;
    let (difference, simulated) = (cell.difference?, cell.sim?.mean);
    let share = difference.relative.unwrap_or(difference.mean / simulated).abs();
    (share <= statistics::RELATIVE_MAX).then_some(share)
}

fn verdict_table(experiment: &ExperimentResult) -> String {
    if experiment.verdicts.is_empty() {
        return String::new();
    }
    let row = |verdict: &Verdict| {
        let (class, word) = if verdict.passed { ("met", "✓ met") } else { ("missed", "✗ missed") };
        let scale = Scale::of(verdict.metric.unit(), verdict.measured.unwrap_or(0.0));
        let measured = verdict.measured.map_or_else(|| "not measured".to_owned(), |mean| scale.with_unit(mean));
        format!(
            "<tr><td class=\"{class}\">{word}</td><td class=\"left\"><code>{} {}</code></td><td class=\"left\">{}</td>\
             <td class=\"left\">{}</td><td>{}</td><td>{}</td></tr>\n",
            escape(verdict.metric.word()),
            escape(&verdict.text),
            escape(&verdict.labels.to_string()),
            driver_word(verdict.driver),
            escape(&measured),
            verdict.line
        )
    };
    let all = |same: &[Verdict]| {
        let Verdict { metric, text, line, .. } = &same[0];
        format!(
            "<tr><td class=\"met\">✓ met</td><td class=\"left\"><code>{} {}</code></td><td class=\"left\">{} times</td>\
             <td></td><td></td><td>{line}</td></tr>\n",
            escape(metric.word()),
            escape(text),
            same.len()
        )
    };
    let rows: String = alike(&experiment.verdicts)
        .map(|same| if is_summed_up(same) { all(same) } else { same.iter().map(row).collect() })
        .collect();
    format!(
        "<div class=\"card\"><h3>Expectations</h3><div class=\"scroll\"><table>\n<thead><tr><th></th><th class=\"left\">expected</th>\
         <th class=\"left\">case</th><th class=\"left\">driver</th><th>measured</th><th>line</th></tr></thead>\n\
         <tbody>\n{rows}</tbody></table></div></div>\n"
    )
}

fn ramp_key(what: &str) -> String {
    format!("<div class=\"key\"><span>0 % <i class=\"ramp\"></i>100 %</span><span>{}</span></div>", escape(what))
}
