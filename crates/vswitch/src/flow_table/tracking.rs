//! `ct`: what a flow asks of connection tracking, as `ovs-ofctl` reads and prints it.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;

use super::error::{FlowError, nearest, shown};
use super::match_field::{Masked, MatchField, number};
use super::scan::{Pair, Scan};
use crate::conntrack::{NatRange, Request, Translate, TranslatedEnd};

/// A packet is shown to connection tracking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackAction {
    /// What is asked.
    pub request: Request,
    /// The table in which a copy of it goes on, with what is known about it then.
    pub table: Option<u8>,
}

/// Words within the brackets.
const WORDS: [&str; 6] = ["commit", "force", "table", "zone", "nat", "exec"];

/// How it is written, for hints.
const EXAMPLE: &str = "ct(commit,zone=1,nat(src=10.0.0.1-10.0.0.9:5000-6000),exec(set_field:1->ct_mark))";

impl TrackAction {
    /// Reads what stands behind `ct`. `tables` are as many as there are.
    pub(super) fn parse(pair: &Pair<'_>, tables: u8) -> Result<Self, FlowError> {
        let request = Request { zone: 0, commit: false, force: false, mark: None, translate: Translate::No };
        let mut action = Self { request, table: None };
        let (text, at) = pair.value.clone().unwrap_or(("", pair.at.clone()));
        let mut scan = Scan::new(text);
        // The first word that is for connections that are kept.
        let mut needs_commit = None;
        while let Some(pair) = scan.pair().map_err(|error| error.shifted(at.start))? {
            action.add(&pair, tables, &mut needs_commit).map_err(|error| error.shifted(at.start))?;
        }
        if let Some(word_at) = needs_commit.filter(|_| !action.request.commit) {
            let error = FlowError::new(word_at, "this is for connections that are kept", "write `commit` as well");
            return Err(error.shifted(at.start));
        }
        Ok(action)
    }

    fn add(&mut self, pair: &Pair<'_>, tables: u8, needs_commit: &mut Option<Range<usize>>) -> Result<(), FlowError> {
        let request = &mut self.request;
        match pair.word {
            "commit" => {
                pair.alone()?;
                request.commit = true;
            }
            "force" => {
                pair.alone()?;
                request.force = true;
                needs_commit.get_or_insert(pair.at.clone());
            }
            "zone" => {
                let (text, at) = pair.needed("zone=1")?;
                request.zone = limited(text, &at, u64::from(u16::MAX), "zone=1")? as u16;
            }
            "table" => {
                let (text, at) = pair.needed("table=1")?;
                self.table = Some(limited(text, &at, u64::from(tables) - 1, "table=1")? as u8);
            }
            "nat" => {
                request.translate = translate(pair)?;
                if matches!(request.translate, Translate::New(_)) {
                    needs_commit.get_or_insert(pair.at.clone());
                }
            }
            "exec" => {
                request.mark = Some(mark(pair)?);
                needs_commit.get_or_insert(pair.at.clone());
            }
            "alg" => {
                let hint = "take it away: connections that a protocol announces within another one are not followed";
                return Err(FlowError::new(pair.span(), "there are no helpers for protocols here", hint));
            }
            word => {
                let hint = nearest(word, WORDS)
                    .map_or_else(|| format!("write it as in `{EXAMPLE}`"), |near| format!("did you mean `{near}`?"));
                return Err(FlowError::new(pair.at.clone(), format!("`{}` is no word of `ct`", shown(word)), hint));
            }
        }
        Ok(())
    }
}

/// A number of at most `most`.
fn limited(text: &str, at: &Range<usize>, most: u64, example: &str) -> Result<u64, FlowError> {
    let wrong = || {
        let message = format!("`{}` is no number up to {most}", shown(text));
        FlowError::new(at.clone(), message, format!("write it as in `{example}`"))
    };
    number(text).filter(|number| *number <= u128::from(most)).map(|number| number as u64).ok_or_else(wrong)
}

/// Reads what connections are marked with: value and mask.
fn mark(pair: &Pair<'_>) -> Result<(u32, u32), FlowError> {
    const EXAMPLE: &str = "exec(set_field:1->ct_mark)";
    let (text, at) = pair.needed(EXAMPLE)?;
    let wrong =
        |at: Range<usize>| FlowError::new(at, "only `ct_mark` can be written here", format!("write `{EXAMPLE}`"));
    let inner = Scan::new(text).pair().map_err(|error| error.shifted(at.start))?;
    let inner = inner.filter(|inner| inner.word == "set_field" && inner.span().end == text.trim_end().len());
    let Some((text, inner_at)) = inner.and_then(|inner| inner.value) else { return Err(wrong(at)) };
    let inner_at = at.start + inner_at.start..at.start + inner_at.end;
    let Some(value) = text.strip_suffix("->ct_mark") else { return Err(wrong(inner_at)) };
    let field = MatchField::find("ct_mark").unwrap_or_else(|| unreachable!("it is in the list"));
    let Masked { value, mask } = field.parse(value, &(inner_at.start..inner_at.start + value.len()))?;
    Ok((value as u32, mask as u32))
}

/// Reads what stands behind `nat`.
fn translate(pair: &Pair<'_>) -> Result<Translate, FlowError> {
    let Some((text, at)) = pair.value.clone().filter(|(text, _)| !text.is_empty()) else {
        return Ok(Translate::Existing);
    };
    let mut scan = Scan::new(text);
    let mut range = None;
    while let Some(inner) = scan.pair().map_err(|error| error.shifted(at.start))? {
        let end = match inner.word {
            "src" => TranslatedEnd::Source,
            "dst" => TranslatedEnd::Destination,
            "random" | "hash" | "persistent" => {
                let hint = "take it away: a connection's own hash chooses among addresses and ports";
                let message = format!("`{}` is no choice that there is here", inner.word);
                return Err(FlowError::new(inner.at, message, hint).shifted(at.start));
            }
            word => {
                let message = format!("`{}` is no end of a connection", shown(word));
                return Err(FlowError::new(inner.at, message, "write `src=` or `dst=`").shifted(at.start));
            }
        };
        if range.is_some() {
            let hint = "let another `ct`, in a zone of its own, translate the other end";
            return Err(FlowError::new(inner.span(), "one end is translated at a time", hint).shifted(at.start));
        }
        let (text, inner_at) = inner.needed("src=10.0.0.1").map_err(|error| error.shifted(at.start))?;
        let read = nat_range(end, text).ok_or_else(|| {
            let message = format!("`{}` is no range of addresses and ports", shown(text));
            let hint = "write it as in `src=10.0.0.1`, `dst=10.0.0.1-10.0.0.9:80` or `src=[fd00::1]:5000-6000`";
            FlowError::new(inner_at, message, hint).shifted(at.start)
        })?;
        range = Some(read);
    }
    Ok(range.map_or(Translate::Existing, Translate::New))
}

/// Reads a range of addresses and ports: `10.0.0.1`, `10.0.0.1-10.0.0.9:80-90`, `[fd00::1]-[fd00::9]:80`, `fd00::1`.
pub fn nat_range(end: TranslatedEnd, text: &str) -> Option<NatRange> {
    let (addresses, ports) = if let Some(at) = text.rfind("]:") {
        (&text[..=at], Some(&text[at + 2..]))
    } else if text.starts_with('[') || text.matches(':').count() > 1 {
        (text, None)
    } else {
        text.split_once(':').map_or((text, None), |(addresses, ports)| (addresses, Some(ports)))
    };
    let (first, last) = addresses.split_once('-').unwrap_or((addresses, addresses));
    let (first, last) = (address(first)?, address(last)?);
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    if first.is_ipv4() != last.is_ipv4() || bits(first) > bits(last) {
        return None;
    }
    let port = |text: &str| number(text).and_then(|port| u16::try_from(port).ok());
    let ports = match ports {
        None => None,
        Some(ports) => {
            let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
            Some((port(first)?, port(last)?)).filter(|(first, last)| first <= last)?.into()
        }
    };
    Some(NatRange { end, is_ipv6: first.is_ipv6(), addresses: (bits(first), bits(last)), ports })
}

fn address(text: &str) -> Option<IpAddr> {
    let in_brackets = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    match in_brackets {
        Some(text) => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    }
}

fn write_nat(f: &mut fmt::Formatter<'_>, range: &NatRange) -> fmt::Result {
    let end = match range.end {
        TranslatedEnd::Source => "src",
        TranslatedEnd::Destination => "dst",
    };
    write!(f, "nat({end}={range})")
}

impl fmt::Display for TrackAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request: Request { zone, commit, force, mark, translate }, table } = self;
        f.write_str("ct(")?;
        let mut is_first = true;
        let mut comma =
            |f: &mut fmt::Formatter<'_>| if std::mem::take(&mut is_first) { Ok(()) } else { f.write_char(',') };
        for word in
            [("commit", *commit), ("force", *force)].into_iter().filter_map(|(word, is_on)| is_on.then_some(word))
        {
            comma(f)?;
            f.write_str(word)?;
        }
        if let Some(table) = table {
            comma(f)?;
            write!(f, "table={table}")?;
        }
        if *zone != 0 {
            comma(f)?;
            write!(f, "zone={zone}")?;
        }
        match translate {
            Translate::No => {}
            Translate::Existing => {
                comma(f)?;
                f.write_str("nat")?;
            }
            Translate::New(range) => {
                comma(f)?;
                write_nat(f, range)?;
            }
            // Flows have one end translated.
            Translate::Both { source, destination } => {
                comma(f)?;
                write_nat(f, source)?;
                comma(f)?;
                write_nat(f, destination)?;
            }
        }
        if let Some((value, mask)) = mark {
            comma(f)?;
            write!(f, "exec(set_field:{value:#x}")?;
            if *mask != u32::MAX {
                write!(f, "/{mask:#x}")?;
            }
            f.write_str("->ct_mark)")?;
        }
        f.write_char(')')
    }
}
