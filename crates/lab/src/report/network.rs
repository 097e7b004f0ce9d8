//! The topology as a drawing, and the utilisation of its links as colours.

use fabric::DriverKind;

use super::html::{driver_class, driver_word};
use super::layout::{Bundles, Layout, rows};
use super::svg::{Anchor, Svg};
use crate::measure::record::Record;
use crate::results::{ExperimentResult, Network, Results};

/// Above this many links a drawing is a grey area, and a strip says more.
pub(super) const DRAWN_LINKS_MAX: usize = 1_200;
/// Lines of so many links are thinner.
const THIN_ABOVE: usize = 150;
/// What a character of a name takes.
const CHARACTER: f64 = 6.2;
/// What is between two of them.
const SPACE: f64 = 10.0;
/// Names of hosts that stand close stand in as many lines at most.
const NAME_LINES: usize = 3;

/// Utilisation of each link: the busier direction's mean over the runs. `None` for links without a rate.
pub(super) fn utilisation<'a>(links: usize, records: impl Iterator<Item = &'a Record>) -> Vec<Option<f64>> {
    let mut sums = vec![[0.0; 2]; links];
    let mut known = vec![true; links];
    let mut runs = 0_u32;
    for record in records.filter(|record| record.links.len() == 2 * links) {
        runs += 1;
        for (i, both) in record.links.chunks_exact(2).enumerate() {
            for (sum, direction) in sums[i].iter_mut().zip(both) {
                *sum += direction.utilisation.unwrap_or(0.0);
                known[i] &= direction.utilisation.is_some();
            }
        }
    }
    let mean = |[a, b]: [f64; 2]| f64::max(a, b) / f64::from(runs);
    sums.into_iter().zip(known).map(|(sum, known)| (known && runs > 0).then(|| mean(sum))).collect()
}

/// How a network is drawn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look<'a> {
    /// How wide, in units of the drawing.
    pub width: f64,
    /// Whether nodes have their names beside them.
    pub names: bool,
    /// Whether all names are to be read, and hosts may stand in columns for that.
    pub is_large: bool,
    /// How full each link is; it is coloured by that. Empty: not known of any.
    pub share: &'a [Option<f64>],
    /// Links that have no carrier.
    pub down: &'a [usize],
    /// What the nodes are called that several drawings of a page have alike, and whether this is the one that has them.
    pub nodes: Option<(&'a str, bool)>,
}

/// Draws the network; `share` colours its links.
pub(super) fn draw(network: &Network, share: &[Option<f64>], width: f64, names: bool, label: &str) -> String {
    sketch(network, &Look { width, names, share, ..Look::default() }).finish(label)
}

/// Small drawings of one network in a page: where nodes are is written in the first one.
pub(super) struct SmallDrawings<'a> {
    network: &'a Network,
    /// What their nodes are called in the page.
    nodes: String,
    is_first: bool,
}

impl<'a> SmallDrawings<'a> {
    /// None yet, of a network in a page where nothing else is called `name`.
    pub fn new(network: &'a Network, name: &str) -> Self {
        Self { network, nodes: name.to_owned(), is_first: true }
    }

    /// Draws one; `share` colours its links.
    pub fn draw(&mut self, share: &[Option<f64>], label: &str) -> String {
        let is_first = std::mem::replace(&mut self.is_first, false);
        let look = Look { width: 200.0, share, nodes: Some((&self.nodes, is_first)), ..Look::default() };
        sketch(self.network, &look).finish(label)
    }
}

/// The same as [`draw`], not finished yet.
pub(super) fn sketch(network: &Network, look: &Look<'_>) -> Svg {
    let Look { names, share, .. } = *look;
    let layout = Layout::of(network, look.width, names, look.is_large);
    let size = layout.size;
    let mut svg = Svg::new(layout.width, layout.height);
    for spine in &layout.spines {
        svg.line("bare", spine[0], spine[1]);
    }
    let mut order: Vec<usize> = (0..network.links.len()).collect();
    // The busiest links lie on top.
    order.sort_by(|&a, &b| share_of(share, a).total_cmp(&share_of(share, b)));
    let bundles = Bundles::of(network, size);
    let thin = if network.links.len() > THIN_ABOVE { 0.6 } else { 1.0 };
    for i in order {
        let (a, b) = (network.links[i].a as usize, network.links[i].b as usize);
        if a >= network.nodes.len() || b >= network.nodes.len() || layout.is_on_spine(network, i) {
            continue;
        }
        let (from, to) = bundles.ends(i, layout.at[a], layout.at[b]);
        let pair = format!("{} – {}", network.nodes[a].name, network.nodes[b].name);
        match share.get(i).copied().flatten() {
            Some(share) => svg.heat_line((share, thin), from, to, &format!("{pair}: {:.0} %", share * 100.0)),
            None if look.down.contains(&i) => svg.named_line("down", from, to, &format!("{pair}: down")),
            None if look.is_large => svg.named_line("bare", from, to, &pair),
            None => svg.line("bare", from, to),
        };
    }
    for joint in &network.joints {
        let [a, b] = joint.map(|node| node as usize);
        if let (Some(a), Some(b), Some(node)) = (layout.at.get(a), layout.at.get(b), network.nodes.get(a)) {
            let host = node.name.split_once(".eth").map_or(&*node.name, |(host, _)| host);
            svg.named_line("joint", *a, *b, &format!("{host}: two of its interfaces"));
        }
    }
    let rings = if names { bundles.rings(network) } else { Vec::new() };
    for ring in rings.into_iter().filter(|ring| !ring.nodes.iter().any(|node| layout.is_in_column(*node))) {
        let [a, b] = ring.nodes.map(|node| layout.at[node]);
        let middle = (f64::midpoint(a.0, b.0), f64::midpoint(a.1, b.1));
        let angle = (b.1 - a.1).atan2(b.0 - a.0).to_degrees();
        svg.ring("bond", middle, (3.0, ring.width / 2.0 + 3.0), angle, &ring.tip);
    }
    match look.nodes {
        Some((name, false)) => svg.reuse(name),
        Some((name, true)) => svg.named(name, |svg| draw_nodes(svg, network, &layout)),
        None => {
            draw_nodes(&mut svg, network, &layout);
            &mut svg
        }
    };
    if names {
        name_nodes(&mut svg, network, &layout, look);
    }
    svg
}

fn draw_nodes(svg: &mut Svg, network: &Network, layout: &Layout) {
    let (hosts, size) = (network.hosts as usize, layout.size);
    for (i, node) in network.nodes.iter().enumerate() {
        let (x, y) = layout.at[i];
        if i < hosts {
            svg.circle("host", (x, y), layout.host_radius, &node.name);
        } else {
            svg.rect("switch", [x - size, y - size * 0.7, 2.0 * size, size * 1.4], &node.name);
        }
    }
}

fn share_of(share: &[Option<f64>], link: usize) -> f64 {
    share.get(link).copied().flatten().unwrap_or(0.0)
}

fn name_nodes(svg: &mut Svg, network: &Network, layout: &Layout, look: &Look<'_>) {
    let top = layout.rows.iter().copied().max().unwrap_or(0);
    let fits: Vec<bool> = (0..=top).map(|row| names_fit(network, layout, row)).collect();
    if !look.is_large && !fits[0] {
        name_groups_of_hosts(svg, network, layout);
    }
    for (i, node) in network.nodes.iter().enumerate() {
        if !look.is_large && !fits[layout.rows[i]] {
            continue;
        }
        let ((x, y), size) = (layout.at[i], layout.size);
        if layout.is_in_column(i) {
            let parallel = Layout::parallel(network, i).count();
            let name = if parallel > 1 { format!("{} ×{parallel}", node.name) } else { node.name.clone() };
            let is_cut_off = Layout::parallel(network, i).all(|link| look.down.contains(&link));
            let name = if is_cut_off { format!("{name} (down)") } else { name };
            svg.text("name", (x + size * 0.55 + 3.0, y + 4.0), Anchor::Start, &name);
            continue;
        }
        let below = if layout.rows[i] == 0 { size + 11.0 } else { -size - 4.0 };
        svg.text("name", (x, y + below), Anchor::Middle, &node.name);
    }
}

/// Whether the names of a row's nodes stand beside each other.
fn names_fit(network: &Network, layout: &Layout, row: usize) -> bool {
    let nodes: Vec<usize> = (0..network.nodes.len()).filter(|node| layout.rows[*node] == row).collect();
    let longest = nodes.iter().map(|node| network.nodes[*node].name.chars().count()).max().unwrap_or(0);
    let mut places: Vec<f64> = nodes.iter().map(|node| layout.at[*node].0).collect();
    places.sort_by(f64::total_cmp);
    let nearest = places.windows(2).map(|two| two[1] - two[0]).fold(f64::INFINITY, f64::min);
    longest <= 14 && nearest > CHARACTER * longest as f64
}

/// The hosts of each switch by the first and the last of them: `h1–h4`.
fn name_groups_of_hosts(svg: &mut Svg, network: &Network, layout: &Layout) {
    let hosts = network.hosts as usize;
    let mut switch_of: Vec<Option<u32>> = vec![None; hosts];
    for link in &network.links {
        for (host, other) in [(link.a, link.b), (link.b, link.a)] {
            if let Some(switch) = switch_of.get_mut(host as usize) {
                switch.get_or_insert(other);
            }
        }
    }
    let order: Vec<usize> = (0..hosts).filter(|host| layout.rows[*host] == 0).collect();
    let groups: Vec<&[usize]> = order.chunk_by(|a, b| switch_of[*a] == switch_of[*b]).collect();
    let name = |group: &[usize]| {
        let [first, last] = [group[0], group[group.len() - 1]].map(|host| network.nodes[host].name.as_str());
        if first == last { first.to_owned() } else { format!("{first}–{last}") }
    };
    let names: Vec<String> = groups.iter().map(|group| name(group)).collect();
    let middle = |group: &[usize]| f64::midpoint(layout.at[group[0]].0, layout.at[group[group.len() - 1]].0);
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as f64 * CHARACTER;
    let nearest = groups.windows(2).map(|two| middle(two[1]) - middle(two[0])).fold(f64::INFINITY, f64::min);
    let lines = if nearest > 0.0 { ((longest + SPACE) / nearest).ceil() } else { f64::INFINITY };
    if lines > NAME_LINES as f64 {
        return;
    }
    for (number, (group, name)) in groups.iter().zip(&names).enumerate() {
        let line = number % (lines as usize).max(1);
        let y = layout.at[group[0]].1 + layout.host_radius + 12.0 + 11.0 * line as f64;
        svg.text("name", (middle(group), y), Anchor::Middle, name);
    }
}

/// The strip's groups of link directions: where they lead, seen from the hosts.
const GROUPS: [&str; 4] = ["host → switch", "up", "down", "switch → host"];
/// A group is drawn with at most this many cells; more are thinned out to as many quantiles.
const CELLS_MAX: usize = 96;
/// All groups of a drawing together have so many, but each this many at least.
const CELLS_ALL: usize = 4_000;
const CELLS_MIN: usize = 16;
/// With more cells than these, a pointer is not shown which is which.
const CELLS_NAMED: usize = 1_600;

/// Room for who drove a row, beside the name of the case, and how much both have at most.
const DRIVER_SPACE: f64 = 76.0;
const LABEL_MAX: f64 = 460.0;

/// One row a case and driver; each cell a link direction, busiest first within its group.
pub(super) fn heat_strip(results: &Results, experiment: &ExperimentResult) -> Option<String> {
    let network = &results.network;
    let rows = rows(network);
    let groups = group_directions(network, &rows);
    let (width, row) = (960.0, 17.0);
    let shown: Vec<usize> = (0..GROUPS.len()).filter(|&g| !groups[g].is_empty()).collect();
    // A case's name stands in front of who drove it.
    let longest = experiment.cases.iter().map(|case| case.labels.to_string().chars().count()).max().unwrap_or(0);
    let label = (longest as f64 * CHARACTER + DRIVER_SPACE).clamp(250.0, LABEL_MAX);
    let room = (width - label - 14.0 * (shown.len().max(1) - 1) as f64) / shown.len().max(1) as f64;
    let lines: Vec<(String, DriverKind, Vec<Option<f64>>)> = experiment
        .cases
        .iter()
        .enumerate()
        .flat_map(|(case, result)| results.drivers.iter().map(move |&driver| (case, result, driver)))
        .map(|(case, result, driver)| {
            let shares = directions(network.links.len(), results.records_of(experiment, case, driver));
            (result.labels.to_string(), driver, shares)
        })
        .filter(|(_, _, shares)| shares.iter().any(Option::is_some))
        .collect();
    if lines.is_empty() || shown.is_empty() {
        return None;
    }
    let mut svg = Svg::new(width, 20.0 + row * lines.len() as f64);
    let strips = lines.len() * shown.len();
    let cells_max = (CELLS_ALL / strips).clamp(CELLS_MIN, CELLS_MAX);
    let most = (cells_max, cells_max * strips <= CELLS_NAMED);
    for (column, &group) in shown.iter().enumerate() {
        let x = label + (room + 14.0) * column as f64;
        svg.text("tick", (x, 11.0), Anchor::Start, GROUPS[group]);
        for (i, (name, driver, shares)) in lines.iter().enumerate() {
            let y = 18.0 + row * i as f64;
            if column == 0 {
                let first = i == 0 || lines[i - 1].0 != *name;
                if first {
                    svg.label((0.0, y + 12.0), name);
                }
                let word = driver_word(*driver);
                svg.text(&format!("who {}", driver_class(*driver)), (label - 8.0, y + 12.0), Anchor::End, word);
            }
            let known = groups[group].iter().filter_map(|&direction| Some((shares[direction]?, direction)));
            let mut cells: Vec<(f64, usize)> = known.collect();
            cells.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            draw_cells(&mut svg, network, &cells, (most, [x, y, room, row - 3.0]));
        }
    }
    Some(svg.finish(&format!("Utilisation of every link direction in each case of {}", experiment.name)))
}

/// Cells of a group, `most` of them, named if they are `named`.
fn draw_cells(
    svg: &mut Svg,
    network: &Network,
    cells: &[(f64, usize)],
    ((most, named), [x, y, width, height]): ((usize, bool), [f64; 4]),
) {
    let count = cells.len().min(most);
    let step = width / count.max(1) as f64;
    let at = |cell: usize| [x + step * cell as f64, y, (step - 0.6).max(0.4), height];
    let shown: Vec<(usize, (f64, usize))> = (0..count).map(|cell| (cell, cells[cell * cells.len() / count])).collect();
    if named {
        for (cell, (share, direction)) in shown {
            let tip = format!("{}: {:.0} %", direction_name(network, direction), share * 100.0);
            svg.heat_rect(share, at(cell), &tip);
        }
        return;
    }
    // As full ones stand beside each other.
    let percent = |share: f64| (share * 100.0).round() as u32;
    let alike = shown.chunk_by(|(_, (a, _)), (_, (b, _))| percent(*a) == percent(*b));
    let runs: Vec<(f64, usize)> = alike.map(|alike| (alike[0].1.0, alike.len())).collect();
    let first = at(0);
    svg.heat_row(first, (step - first[2]).max(0.0), &runs);
}

/// `edge1 → agg2` for a direction's number (2 x link, plus 1 for the way back).
fn direction_name(network: &Network, direction: usize) -> String {
    let link = &network.links[direction / 2];
    let ends = if direction.is_multiple_of(2) { [link.a, link.b] } else { [link.b, link.a] };
    ends.map(|node| network.nodes.get(node as usize).map_or("?", |node| node.name.as_str())).join(" → ")
}

/// Mean utilisation of each link direction over the runs.
fn directions<'a>(links: usize, records: impl Iterator<Item = &'a Record>) -> Vec<Option<f64>> {
    let mut sums = vec![Some(0.0); 2 * links];
    let mut runs = 0_u32;
    for record in records.filter(|record| record.links.len() == 2 * links) {
        runs += 1;
        for (sum, link) in sums.iter_mut().zip(&record.links) {
            *sum = sum.zip(link.utilisation).map(|(sum, share)| sum + share);
        }
    }
    sums.into_iter().map(|sum| sum.filter(|_| runs > 0).map(|sum| sum / f64::from(runs))).collect()
}

/// Direction numbers (2 x link, plus 1 for the way back) of each group.
fn group_directions(network: &Network, rows: &[usize]) -> [Vec<usize>; 4] {
    let mut groups: [Vec<usize>; 4] = Default::default();
    for (i, link) in network.links.iter().enumerate() {
        let (Some(&a), Some(&b)) = (rows.get(link.a as usize), rows.get(link.b as usize)) else { continue };
        for (way, (from, to)) in [(a, b), (b, a)].into_iter().enumerate() {
            let group = match (from, to) {
                (0, _) => 0,
                (_, 0) => 3,
                // Links within a tier of an explicit topology count as upwards one way and downwards the other.
                _ if from < to || (from == to && way == 0) => 1,
                _ => 2,
            };
            groups[group].push(2 * i + way);
        }
    }
    groups
}
