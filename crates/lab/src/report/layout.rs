//! Where nodes stand in a drawing of a network, and how parallel links lie beside each other.

use std::collections::BTreeMap;

use crate::results::{Network, NetworkLink};

/// Above this many hosts those of one switch stand in a column, where all names are to be read.
const ROW_HOSTS_MAX: usize = 20;

/// What a character of a name takes at most.
const CHARACTER: f64 = 6.6;
/// What is between names that stand beside each other.
const SPACE: f64 = 10.0;
/// From one host of a column to the next.
const STEP: f64 = 15.0;
/// From a switch to the first host of its column.
const COLUMN: f64 = 30.0;
/// From one layer to the next, of the width.
const LAYER_SHARE: f64 = 0.08;
/// A wider drawing is of no use.
const WIDTH_MAX: f64 = 12_000.0;

/// Which row each node stands in, from the hosts (0) upwards.
pub(super) fn rows(network: &Network) -> Vec<usize> {
    let hosts = network.hosts as usize;
    let mut rows: Vec<Option<usize>> = vec![None; network.nodes.len()];
    for (i, node) in network.nodes.iter().enumerate() {
        if i < hosts {
            rows[i] = Some(0);
        } else if node.tier > 0 {
            rows[i] = Some(usize::from(node.tier));
        }
    }
    // Switches without a tier stand as far up as they are links away from a host.
    for row in 0..network.nodes.len() {
        let mut changed = false;
        for link in &network.links {
            for (from, to) in [(link.a as usize, link.b as usize), (link.b as usize, link.a as usize)] {
                if rows.get(from).copied().flatten() == Some(row) && rows.get(to).is_some_and(Option::is_none) {
                    rows[to] = Some(row + 1);
                    changed = true;
                }
            }
        }
        if !changed && rows.iter().all(Option::is_some) {
            break;
        }
    }
    rows.into_iter().map(|row| row.unwrap_or(1)).collect()
}

/// Where everything is.
pub(super) struct Layout {
    /// Of the drawing.
    pub width: f64,
    pub height: f64,
    /// By node: its row, from the hosts (0) upwards.
    pub rows: Vec<usize>,
    /// By node: its middle.
    pub at: Vec<(f64, f64)>,
    /// Half the width of a switch.
    pub size: f64,
    /// Of the mark of a host.
    pub host_radius: f64,
    /// Lines that hosts in columns hang on.
    pub spines: Vec<[(f64, f64); 2]>,
    /// By host in a column: its switch. Empty where hosts stand in a row.
    column_of: BTreeMap<usize, usize>,
}

impl Layout {
    /// Of a drawing of this width; one in which all names are to be read (`is_large`) is as wide as they are.
    pub fn of(network: &Network, width: f64, names: bool, is_large: bool) -> Self {
        let rows = rows(network);
        let top = rows.iter().copied().max().unwrap_or(0);
        let (margin, gap) = if names { (26.0, 78.0) } else { (8.0, 34.0) };
        let is_crowded = names && network.hosts as usize > ROW_HOSTS_MAX;
        let foot = match (names, is_crowded) {
            (false, _) => 8.0,
            (true, false) => 22.0,
            // Names in several lines.
            (true, true) => 44.0,
        };
        let column_of = if is_large { columns(network) } else { BTreeMap::new() };
        let width = if is_large { width.max(wide_enough(network, &rows, &column_of, margin)) } else { width };
        // Long links that are nearly level cannot be told apart.
        let gap = if is_large { f64::max(gap, width * LAYER_SHARE) } else { gap };
        let x = |node: usize| margin + (width - 2.0 * margin) * f64::from(network.nodes[node].x_permille) / 1_000.0;
        let depths = if is_large { vec![gap; top] } else { gaps(network, &rows, (gap, is_crowded), &x) };
        let depth = |row: usize| margin + depths[row..].iter().sum::<f64>();
        let mut at: Vec<(f64, f64)> = (0..network.nodes.len()).map(|node| (x(node), depth(rows[node]))).collect();
        let mut below: BTreeMap<usize, u32> = BTreeMap::new();
        for (host, switch) in &column_of {
            let place = below.entry(*switch).or_default();
            at[*host] = (at[*switch].0, at[*switch].1 + COLUMN + STEP * f64::from(*place));
            *place += 1;
        }
        let deepest = at.iter().map(|(_, y)| *y).fold(depth(0), f64::max);
        let deepest = if column_of.is_empty() { deepest } else { at.iter().map(|(_, y)| *y).fold(0.0, f64::max) };
        let (size, host_radius) =
            if is_large { (7.0, 7.0 * 0.55) } else { node_sizes(network, &rows, width - 2.0 * margin, names) };
        let last = |switch: usize, places: u32| (at[switch].0, at[switch].1 + COLUMN + STEP * f64::from(places - 1));
        let spines = below.iter().map(|(switch, places)| [at[*switch], last(*switch, *places)]).collect();
        Self { width, height: deepest + foot, rows, at, size, host_radius, spines, column_of }
    }

    /// Whether a node hangs in a column.
    pub fn is_in_column(&self, node: usize) -> bool {
        self.column_of.contains_key(&node)
    }

    /// Whether a link is drawn by the line that a column hangs on.
    pub fn is_on_spine(&self, network: &Network, link: usize) -> bool {
        let link = &network.links[link];
        [link.a, link.b].iter().any(|node| self.is_in_column(*node as usize))
    }

    /// The links that a node in a column has.
    pub fn parallel(network: &Network, node: usize) -> impl Iterator<Item = usize> + '_ {
        let links = network.links.iter().enumerate();
        links.filter(move |(_, link)| [link.a, link.b].contains(&(node as u32))).map(|(at, _)| at)
    }
}

/// The switch of each host, where there are many hosts and each has one switch.
fn columns(network: &Network) -> BTreeMap<usize, usize> {
    let hosts = network.hosts as usize;
    let mut switch_of = BTreeMap::new();
    if hosts <= ROW_HOSTS_MAX {
        return switch_of;
    }
    for link in &network.links {
        for (host, switch) in [(link.a as usize, link.b as usize), (link.b as usize, link.a as usize)] {
            if host < hosts && (switch < hosts || *switch_of.entry(host).or_insert(switch) != switch) {
                return BTreeMap::new();
            }
        }
    }
    if switch_of.len() == hosts { switch_of } else { BTreeMap::new() }
}

/// How wide a drawing must be in which all names are to be read.
fn wide_enough(network: &Network, rows: &[usize], column_of: &BTreeMap<usize, usize>, margin: f64) -> f64 {
    let length = |node: usize| network.nodes[node].name.chars().count() as f64 * CHARACTER + SPACE;
    let mut widest = 0.0_f64;
    for row in 0..=rows.iter().copied().max().unwrap_or(0) {
        // By place: what it takes there. Hosts in a column take their switch's place.
        let mut needs: BTreeMap<u16, f64> = BTreeMap::new();
        for node in (0..network.nodes.len()).filter(|node| rows[*node] == row) {
            let (x, need) = match column_of.get(&node) {
                Some(switch) => (network.nodes[*switch].x_permille, length(node) + 2.0 * SPACE),
                None => (network.nodes[node].x_permille, length(node)),
            };
            let there = needs.entry(x).or_default();
            *there = there.max(need);
        }
        let most = needs.values().copied().fold(0.0, f64::max);
        let nearest = needs.keys().zip(needs.keys().skip(1)).map(|(a, b)| b - a).min();
        if let Some(nearest) = nearest {
            // Places are rounded to thousandths.
            widest = widest.max(2.0 * margin + most * 1_000.0 / f64::from(nearest));
        }
    }
    widest.min(WIDTH_MAX)
}

/// How far each row lies above the one below, from the hosts upwards: where links are long and many, they are told apart only if they are steep.
fn gaps(network: &Network, rows: &[usize], (least, is_crowded): (f64, bool), x: &dyn Fn(usize) -> f64) -> Vec<f64> {
    /// Of the mean width of a link, and the most.
    const STEEPNESS: f64 = 0.7;
    const MOST: f64 = 250.0;
    let top = rows.iter().copied().max().unwrap_or(0);
    let gap = |row: usize| {
        if !is_crowded {
            return least;
        }
        let ends = network.links.iter().map(|link| (link.a as usize, link.b as usize));
        let between = ends.filter(|(a, b)| {
            let pair = [rows.get(*a), rows.get(*b)];
            pair == [Some(&row), Some(&(row + 1))] || pair == [Some(&(row + 1)), Some(&row)]
        });
        let widths: Vec<f64> = between.map(|(a, b)| (x(a) - x(b)).abs()).collect();
        let mean = widths.iter().sum::<f64>() / widths.len().max(1) as f64;
        (mean * STEEPNESS).clamp(least, MOST)
    };
    (0..top).map(gap).collect()
}

/// Half the width of a switch, and the radius of a host: nodes of a row must not touch.
fn node_sizes(network: &Network, rows: &[usize], width: f64, names: bool) -> (f64, f64) {
    let hosts = network.hosts as usize;
    let in_row = |row: usize| rows.iter().skip(hosts).filter(|&&r| r == row).count();
    let fullest = (0..=rows.iter().copied().max().unwrap_or(0)).map(in_row).max().unwrap_or(1).max(1);
    let most = if names { 9.0 } else { 4.0 };
    let room = |nodes: usize| width / nodes.max(1) as f64;
    let size = (room(fullest) * 0.3).clamp(0.6, most);
    // Fewer hosts than switches are no larger than these.
    let size = if hosts > ROW_HOSTS_MAX || hosts < fullest { size } else { size.min((room(hosts) * 0.3).max(0.6)) };
    (size, (room(hosts.max(fullest)) * 0.3).clamp(0.6, size) * if hosts > ROW_HOSTS_MAX { 1.0 } else { 0.55 })
}

/// Links with the same two ends.
pub(super) struct Bundles {
    /// By link: which of its bundle it is, and of how many.
    places: Vec<(usize, usize)>,
    /// From one link of a bundle to the next, at most.
    gap: f64,
    /// What all of a bundle may take.
    width_max: f64,
}

/// The mark of a bond.
pub(super) struct Ring {
    /// Its ends.
    pub nodes: [usize; 2],
    /// What its members take together.
    pub width: f64,
    /// What it says.
    pub tip: String,
}

impl Bundles {
    pub fn of(network: &Network, size: f64) -> Self {
        let mut count: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        let ends = |link: &NetworkLink| (link.a.min(link.b), link.a.max(link.b));
        let mut number = Vec::new();
        for link in &network.links {
            let so_far = count.entry(ends(link)).or_default();
            number.push(*so_far);
            *so_far += 1;
        }
        let places = network.links.iter().zip(number).map(|(link, number)| (number, count[&ends(link)])).collect();
        Self { places, gap: 4.0, width_max: size * 1.6 }
    }

    /// Where a link begins and ends whose nodes are there: beside the others of its bundle.
    pub fn ends(&self, link: usize, a: (f64, f64), b: (f64, f64)) -> ((f64, f64), (f64, f64)) {
        let (number, count) = self.places[link];
        if count < 2 {
            return (a, b);
        }
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let length = dx.hypot(dy).max(1.0);
        let step = self.width(count) / (count - 1) as f64;
        let mut off = (number as f64 - (count - 1) as f64 / 2.0) * step;
        // The same side, whichever end comes first.
        if (dx, dy) < (0.0, 0.0) {
            off = -off;
        }
        let (x, y) = (-dy / length * off, dx / length * off);
        ((a.0 + x, a.1 + y), (b.0 + x, b.1 + y))
    }

    fn width(&self, count: usize) -> f64 {
        (self.gap * count.saturating_sub(1) as f64).min(self.width_max)
    }

    /// One for each bond that is drawn as a bundle.
    pub fn rings(&self, network: &Network) -> Vec<Ring> {
        let mut bonds: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (link, bond) in network.links.iter().enumerate().filter_map(|(i, link)| Some((i, link.bond?))) {
            bonds.entry(bond).or_default().push(link);
        }
        let ring = |links: Vec<usize>| {
            let first = &network.links[links[0]];
            let nodes = [first.a as usize, first.b as usize];
            let [a, b] = nodes.map(|node| network.nodes.get(node).map(|node| node.name.as_str()));
            let tip = format!("{} – {}: a bond of {}", a?, b?, links.len());
            Some(Ring { nodes, width: self.width(links.len()), tip })
        };
        bonds.into_values().filter_map(ring).collect()
    }
}
