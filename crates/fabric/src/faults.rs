//! Cables that are pulled while hosts talk, and plugged in again.
//!
//! ```yaml
//! traffic:
//!   pattern: { pairs: [[h1, h2]] }
//!   faults: [ { at: 1s, down: [h1, s1, 1] }, { at: 2s, up: [h1, s1, 1] } ]
//! ```
//!
//! A link is named by its two ends, and by its number where there are several; in a bond that is the member's number, from 1.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use datapath::Service;
use machine::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use topology::{LinkId, NodeId};

use crate::LinkFault;
use crate::cluster::are_too_many;
use crate::document::NamePair;
use crate::error::Problems;
use crate::graph::Graph;
use crate::names::nearest;
use crate::parallel::{NoSuchLink, pick};
use crate::quantity::{Length, Whole};
use crate::read::{Fields, Name, Read, expected, section};
use crate::source::{At, Place};
use crate::tree::{Node, Value};

/// A day in milliseconds.
const DAY: u64 = 24 * 3_600_000;

section! {
    /// A fault of a link: one of `down`, `up`.
    LinkFaultText {
        /// When, since measuring began.
        "at" => at: At<Length<true, DAY>>,
        /// The link between these two nodes loses its carrier. Of parallel links: all, or the one with the number that follows.
        "down" => down: Option<At<WhichLink>>,
        /// It has its carrier back.
        "up" => up: Option<At<WhichLink>>,
    }
}

/// A link by its ends, and its number among parallel ones.
#[derive(Clone, Debug)]
pub(crate) struct WhichLink {
    ends: NamePair,
    number: Option<u32>,
}

type Number = Whole<1, 65_535>;

impl Read for WhichLink {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let Value::List(items) = &node.value else {
            expected(
                node,
                "the ends of a link, and its number where there are several: `[h1, s1]` or `[h1, s1, 2]`",
                problems,
            );
            return None;
        };
        let (ends, number) = match items.as_slice() {
            [a, b] => ((a, b), None),
            [a, b, number] => ((a, b), Some(number)),
            _ => {
                expected(node, "two names, and a number where there are several links: `[h1, s1, 2]`", problems);
                return None;
            }
        };
        let (a, b) = (At::read(ends.0, problems), At::read(ends.1, problems));
        let number = match number {
            Some(number) => Some(Number::read(number, problems)?.get()),
            None => None,
        };
        Some(Self { ends: NamePair(a?, b?), number })
    }
}

impl JsonSchema for WhichLink {
    fn schema_name() -> Cow<'static, str> {
        "WhichLink".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let name = generator.subschema_for::<Name>();
        let number = generator.subschema_for::<Number>();
        json_schema!({ "type": "array", "items": [name, name, number], "minItems": 2, "maxItems": 3 })
    }
}

/// What faults are checked against.
pub(crate) struct Run<'a> {
    pub graph: &'a Graph,
    /// What has servers and balancers: that one of them is lost is what such a run is for.
    pub services: &'a [Service],
    /// How long it is measured.
    pub duration: Span,
    /// The least number of members that bonds have in a case, where that varies.
    pub least_members: Option<u32>,
}

impl Run<'_> {
    /// The faults in the order of their times.
    pub fn faults(&self, text: &At<Vec<At<LinkFaultText>>>, problems: &mut Problems<'_>) -> Vec<LinkFault> {
        if are_too_many(text, problems) {
            return Vec::new();
        }
        let before = problems.noted();
        let mut found: Vec<ResolvedFault> = text.value.iter().filter_map(|one| self.fault(one, problems)).collect();
        found.sort_by_key(|found| found.fault.at);
        if problems.noted() == before && text.sound {
            let down = check_order(&found, problems);
            self.check_reach(text.place, &down, problems);
        }
        found.into_iter().map(|found| found.fault).collect()
    }

    fn fault(&self, text: &At<LinkFaultText>, problems: &mut Problems<'_>) -> Option<ResolvedFault> {
        if !text.sound {
            return None;
        }
        let (which, up) = match (&text.value.down, &text.value.up) {
            (Some(which), None) => (which, false),
            (None, Some(which)) => (which, true),
            (down, _) => {
                let label = if down.is_some() { "both of them" } else { "neither of them" };
                let hint = "write one list entry for each: `{ at: 1s, down: [h1, s1] }`";
                problems.add(text.place, "a fault is one of `down` or `up`", label, hint);
                return None;
            }
        };
        let at = text.value.at.value.0;
        if at >= self.duration {
            problems.add(
                text.value.at.place,
                format!("at {at} the run is over: it is measured for {}", self.duration),
                "too late",
                "times count from the beginning of measuring; make `for:` of the experiment longer",
            );
            return None;
        }
        let between = self.ends(&which.value.ends, problems)?;
        let links = self.links(which, between, problems)?;
        Some(ResolvedFault {
            fault: LinkFault { at, between, number: which.value.number, up },
            links,
            place: text.place,
        })
    }

    fn ends(&self, NamePair(a, b): &NamePair, problems: &mut Problems<'_>) -> Option<(NodeId, NodeId)> {
        let mut find = |name: &At<Name>| {
            let found = self.graph.topology.node(&name.value.0);
            if found.is_none() {
                let names = || self.graph.topology.nodes.iter().map(|node| node.name.as_str());
                let near = nearest(&name.value.0, names()).map(ToOwned::to_owned);
                let unknown = NoSuchLink::Node { name: name.value.0.clone(), near };
                problems.add(name.place, unknown.to_string(), "unknown node", unknown.hint());
            }
            found
        };
        let (a, b) = (find(a), find(b));
        Some((a?, b?))
    }

    /// The links that are meant: those that every case has.
    fn links(
        &self,
        which: &At<WhichLink>,
        between: (NodeId, NodeId),
        problems: &mut Problems<'_>,
    ) -> Option<Vec<LinkId>> {
        let number = which.value.number;
        match pick(&self.graph.topology, between, number) {
            Err(error) => {
                let label = if number.is_some() { "no such link" } else { "no link" };
                problems.add(which.place, error.to_string(), label, error.hint());
                None
            }
            Ok(links) => {
                if let (Some(least), Some(number)) = (self.members_at_least(between), number)
                    && number > least
                {
                    problems.add(
                        which.place,
                        format!("in a case with `members: {least}` there is no link {number} here"),
                        "not in every case",
                        format!("name a link from 1 to {least}, or make two experiments"),
                    );
                    return None;
                }
                Some(links)
            }
        }
    }

    /// How many links a bond between the two has in every case, where that varies.
    fn members_at_least(&self, (a, b): (NodeId, NodeId)) -> Option<u32> {
        let mut ends = self.graph.topology.bonds.raw.chunks_exact(2).map(|pair| (pair[0].node, pair[1].node));
        let is_bonded = ends.any(|ends| ends == (a, b) || ends == (b, a));
        self.least_members.filter(|_| is_bonded)
    }

    /// Notes a host that nobody reaches to the end of the run: then what is measured says nothing.
    fn check_reach(&self, place: Place, down: &BTreeSet<LinkId>, problems: &mut Problems<'_>) {
        if down.is_empty() {
            return;
        }
        let topology = &self.graph.topology;
        let carries = |link: LinkId| !down.contains(&link) && self.is_in_every_case(link);
        let reached = topology.reached_by_routers(NodeId(0), carries);
        let is_replaced = |id: &NodeId| {
            let has_it = |service: &Service| service.at.contains(id) || service.servers.iter().any(|it| it.host == *id);
            self.services.iter().any(has_it)
        };
        let hosts = topology.end_hosts().map(|(id, host)| (id, host, reached[id]));
        // The first host is where the search began: if nobody else is reached, it is the one that is cut off.
        let others = hosts.clone().skip(1);
        let alone = topology.end_host_count() > 2 && others.clone().all(|(.., reached)| !reached);
        let lost = if alone {
            hosts.clone().next()
        } else {
            others.clone().find(|(id, _, reached)| !reached && !is_replaced(id))
        };
        if let Some((_, host, _)) = lost.filter(|(id, ..)| !is_replaced(id)) {
            problems.add(
                place,
                format!("after these faults nobody reaches `{}` to the end of the run", host.name),
                "cut off",
                "let the link come back, `{ at: .., up: [..] }`, or leave one member of its bond alone: no other way leads there",
            );
        }
    }

    fn is_in_every_case(&self, link: LinkId) -> bool {
        let ends = &self.graph.topology.links[link];
        let between = (ends.a.node, ends.b.node);
        let Some(least) = self.members_at_least(between) else { return true };
        pick(&self.graph.topology, between, None)
            .is_ok_and(|links| links.iter().take(least as usize).any(|other| *other == link))
    }
}

/// A fault, and the links that it is injected into.
struct ResolvedFault {
    fault: LinkFault,
    links: Vec<LinkId>,
    place: Place,
}

/// Notes what comes up without having gone down, and what goes down twice. Returns what is down at the end.
fn check_order(found: &[ResolvedFault], problems: &mut Problems<'_>) -> BTreeSet<LinkId> {
    let mut is_up: BTreeMap<LinkId, bool> = BTreeMap::new();
    for ResolvedFault { fault, links, place } in found {
        let changes = links.iter().any(|link| *is_up.get(link).unwrap_or(&true) != fault.up);
        if !changes {
            let at = fault.at;
            let (message, hint) = if fault.up {
                (format!("the link is up at {at}: nothing has taken it down"), "add `{ at: .., down: [..] }` before it")
            } else {
                (format!("the link is down already at {at}"), "remove this, or let it come up before")
            };
            problems.add(*place, message, "changes nothing", hint);
        }
        is_up.extend(links.iter().map(|link| (*link, fault.up)));
    }
    is_up.into_iter().filter(|(_, up)| !up).map(|(link, _)| link).collect()
}
