//! Axes of one link: `vary: { links.h1-s1.delay: [1ms, 10ms] }`.

use std::collections::BTreeSet;

use schemars::{Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use topology::{Link, LinkId, Topology};

use crate::Fabric;
use crate::error::Problems;
use crate::experiment::Context;
use crate::links::{LinkAxis, LinkSetting};
use crate::names::{nearest, one_of};
use crate::parallel::{NoSuchLink, find_links, link_ends};
use crate::parameters::{Kind, Values};
use crate::source::Place;
use crate::tree::Node;

/// What keys of all links begin with.
const SECTION: &str = "links.";

/// Keys that change nothing on a link without a rate.
const OF_RATES: [&str; 4] = ["rate", "queue", "ecn", "overhead"];

/// So many links are named, one by one.
const LINKS_NAMED: usize = 6;

/// What a case sets on one link, in both directions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneLinkSetting {
    /// The link by its nodes, `h1-s1`: all links between them; `h1-s1:2`: the second one.
    pub link: String,
    /// What is set there.
    pub set: LinkSetting,
}

impl OneLinkSetting {
    pub(crate) fn apply(&self, fabric: &mut Fabric) {
        for link in links(&fabric.topology, &self.link).unwrap_or_default() {
            fabric.topology.links[link].specs_mut().for_each(|spec| self.set.apply(spec));
        }
    }

    /// Whether it is about this link.
    pub(crate) fn is_of(&self, topology: &Topology, link: &Link) -> bool {
        let own = links(topology, &self.link).unwrap_or_default();
        own.into_iter().any(|own| (topology.links[own].a, topology.links[own].b) == (link.a, link.b))
    }

    pub(crate) const fn kind(&self) -> Kind {
        self.set.kind()
    }
}

/// The links that are meant by `h1-s1` or `h1-s1:2`.
fn links(topology: &Topology, name: &str) -> Result<Vec<LinkId>, NoSuchLink> {
    let unknown = || NoSuchLink::Node { name: name.to_owned(), near: None };
    let (a, b, number) = link_ends(topology, name).ok_or_else(unknown)?;
    find_links(topology, a, b, number)
}

/// An axis of one link as written.
#[derive(Clone, Debug)]
pub(crate) struct OneLinkAxis {
    /// The whole key.
    key: String,
    link: String,
    /// The same key of all links.
    all: LinkAxis,
    place: Place,
}

/// The link of a key, and what of it is varied: `links.h1-s1.delay`.
fn parts(key: &str) -> Option<(&str, &str)> {
    let (link, of_link) = key.strip_prefix(SECTION)?.rsplit_once('.')?;
    link.contains('-').then_some((link, of_link))
}

impl OneLinkAxis {
    /// They have names of links in them.
    pub const KEYS: &[&str] = &[];

    /// Whether a key is meant to be one of these.
    pub fn is_key(key: &str) -> bool {
        parts(key).is_some()
    }

    #[expect(clippy::option_option, reason = "as axes that `parameters!` makes")]
    /// Reads the axis `key`; `None` if it is none of one link, `Some(None)` if its values can't be read.
    pub fn read(key: &str, node: &Node, problems: &mut Problems<'_>) -> Option<Option<Self>> {
        let (link, of_link) = parts(key)?;
        let Some(all) = LinkAxis::read(&format!("{SECTION}{of_link}"), node, problems) else {
            let known = || LinkAxis::KEYS.iter().filter_map(|key| key.strip_prefix(SECTION));
            let hint = match nearest(of_link, known()) {
                Some(near) => format!("did you mean `{SECTION}{link}.{near}`?"),
                None => format!("of a link can be varied {}", one_of(known())),
            };
            problems.add(node.place, format!("links have no key `{of_link}`"), "of an unknown key", hint);
            return Some(None);
        };
        Some(all.map(|all| Self { key: key.to_owned(), link: link.to_owned(), all, place: node.place }))
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    /// What the values set in this network.
    pub fn resolve(&self, context: &Context<'_>, problems: &mut Problems<'_>) -> Option<Values<OneLinkSetting>> {
        let topology = context.topology();
        let ids = match links(topology, &self.link) {
            Ok(ids) => ids,
            Err(error) => {
                let hint = problems.hint(|| self.known_links(topology));
                problems.add(self.place, error.to_string(), "of an unknown link", hint);
                return None;
            }
        };
        let of_link = parts(&self.key).map_or("", |(_, key)| key);
        let has_rate = ids.iter().any(|id| topology.links[*id].specs().any(|spec| spec.rate_bps.is_some()));
        if OF_RATES.contains(&of_link) && !has_rate {
            let message = format!("the link `{}` has no rate: this would change nothing", self.link);
            problems.add(self.place, message, "changes nothing", "give the link a rate: `rate: 1Gbit`");
            return None;
        }
        let Values { place, settings } = self.all.resolve(context, problems)?;
        let of_one = |set| OneLinkSetting { link: self.link.clone(), set };
        Some(Values { place, settings: settings.into_iter().map(|(text, set)| (text, of_one(set))).collect() })
    }

    /// The hint for a link that there is none of: the key of the one that was probably meant, and which links there are.
    fn known_links(&self, topology: &Topology) -> String {
        let names: BTreeSet<String> = topology.links.keys().map(|link| topology.link_name(link)).collect();
        let of_link = parts(&self.key).map_or("", |(_, key)| key);
        let near = nearest(&self.link, names.iter().map(String::as_str));
        let near = near.map(|near| format!("did you mean `{SECTION}{near}.{of_link}`? "));
        let more = if names.len() > LINKS_NAMED { ", ... (`heddle show links FILE` lists them)" } else { "" };
        // Those of a node that is named come first: there the other one is wrong.
        let is_of_named = |name: &&String| name.split('-').any(|node| self.link.split('-').any(|own| own == node));
        let (named, others): (Vec<&String>, Vec<&String>) = names.iter().partition(is_of_named);
        let shown: Vec<String> =
            named.into_iter().chain(others).take(LINKS_NAMED).map(|name| format!("`{name}`")).collect();
        format!("{}there are {}{more}", near.unwrap_or_default(), shown.join(", "))
    }

    /// They have a pattern in place of a key ([`Self::patterns`]).
    pub const fn schemas(_: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        Vec::new()
    }

    /// The schema of each axis, by the pattern of its keys.
    pub fn patterns(generator: &mut SchemaGenerator) -> Vec<(String, Schema)> {
        let of_one = |(key, mut schema): (&str, Schema)| {
            let of_link = key.strip_prefix(SECTION)?;
            let description = format!("As `{key}`, on one link, by its nodes: `{SECTION}h1-s1.{of_link}`.");
            schema.insert("description".to_owned(), description.into());
            Some((format!("^links\\.[^ ]+-[^ ]+\\.{of_link}$"), schema))
        };
        LinkAxis::schemas(generator).into_iter().filter_map(of_one).collect()
    }
}
