//! Meters, as `ovs-ofctl add-meter` reads them (`OpenFlow` 1.3.5, section 5.7): packets of flows that name one are counted, and what comes faster than a band's rate is
//! dropped or marked.

use std::fmt;
use std::ops::Range;

use machine::{Rebase, Span, Time};

use super::error::{FlowError, nearest, shown};
use super::match_field::number;
use super::scan::{Pair, Scan, TEXT_MAX};
use crate::token_bucket::TokenBucket;

/// The highest number of a meter (`OFPM_MAX`).
const METER_MAX: u32 = 0xffff_0000;

/// Bands of one meter.
const BANDS_MAX: usize = 8;

/// Words of meters, for hints.
const WORDS: [&str; 11] =
    ["meter", "kbps", "pktps", "burst", "stats", "band", "bands", "type", "rate", "burst_size", "prec_level"];

/// How one is written, for hints.
const EXAMPLE: &str = "meter=1,kbps,burst,band=type=drop,rate=1000,burst_size=100";

/// What rates of a meter are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterUnit {
    /// Thousands of bits a second, and thousands of bits.
    Kbps,
    /// Packets a second, and packets.
    Pktps,
}

/// What is done with what comes faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BandKind {
    /// It is dropped.
    Drop,
    /// Its drop precedence rises by so much, where it has one: that of assured forwarding (RFC 2597).
    DscpRemark(u8),
}

/// A rate, and what is done with what comes faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// What is done.
    pub kind: BandKind,
    /// In the meter's unit; not 0.
    pub rate: u32,
    /// How much comes at once after a pause, in the meter's unit. 0: as much as in a second.
    pub burst_size: u32,
}

/// A meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    /// By which flows name it, from 1 on.
    pub id: u32,
    /// What its rates are in.
    pub unit: MeterUnit,
    /// Whether it was written with `burst`.
    pub has_burst: bool,
    /// Whether it was written with `stats`. It counts in any case.
    pub has_stats: bool,
    /// In their order. Of those that a packet exceeds, the one with the highest rate counts.
    pub bands: Vec<Band>,
}

/// What is read of a band.
#[derive(Default)]
struct BandText {
    kind: Option<(bool, Range<usize>)>,
    rate: Option<u32>,
    burst_size: u32,
    prec_level: Option<(u8, Range<usize>)>,
}

impl BandText {
    fn finish(self, unit: MeterUnit, end: usize) -> Result<Band, FlowError> {
        let Some((remarks, at)) = self.kind else {
            let hint = "write `type=drop`, or `type=dscp_remark` with `prec_level=1`";
            return Err(FlowError::new(end..end, "a band has no type", hint));
        };
        let Some(rate) = self.rate else {
            let what = match unit {
                MeterUnit::Kbps => "kbit/s",
                MeterUnit::Pktps => "packets a second",
            };
            return Err(FlowError::new(at, "the band has no rate", format!("write `rate=1000` behind it, in {what}")));
        };
        let kind = match (remarks, self.prec_level) {
            (false, None) => BandKind::Drop,
            (false, Some((_, at))) => {
                return Err(FlowError::new(at, "what is dropped has no precedence", "write `type=dscp_remark`"));
            }
            (true, Some((level, _))) => BandKind::DscpRemark(level),
            (true, None) => {
                let hint = "write `prec_level=1` behind it";
                return Err(FlowError::new(at, "it is not said by how much the precedence rises", hint));
            }
        };
        Ok(Band { kind, rate, burst_size: self.burst_size })
    }
}

/// A number from `least` to `most`.
fn limited(pair: &Pair<'_>, (least, most): (u32, u32), example: &str) -> Result<u32, FlowError> {
    let (text, at) = pair.needed(example)?;
    let found = number(text).and_then(|number| u32::try_from(number).ok());
    found.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
        let message = match found {
            Some(0) if pair.word == "rate" => "a band with a rate of 0 lets nothing pass".to_owned(),
            _ => format!("`{}` is no number from {least} to {most}", shown(text)),
        };
        let hint = match found {
            Some(0) if pair.word == "rate" => "`actions=drop` in a flow does so".to_owned(),
            _ => format!("write it as in `{example}`"),
        };
        FlowError::new(at, message, hint)
    })
}

impl Meter {
    /// Reads a meter.
    ///
    /// # Errors
    /// With the place of the mistake.
    pub fn parse(text: &str) -> Result<Self, FlowError> {
        if text.len() > TEXT_MAX {
            let message = format!("a meter has at most {TEXT_MAX} bytes");
            return Err(FlowError::new(0..0, message, "write several meters"));
        }
        let end = text.trim_end().len();
        let (mut id, mut unit, mut has_burst, mut has_stats) = (None, None, false, false);
        let mut bands: Vec<BandText> = Vec::new();
        let mut is_in_bands = false;
        let mut scan = Scan::new(text);
        while let Some(pair) = scan.pair()? {
            match pair.word {
                "meter" => id = Some(limited(&pair, (1, METER_MAX), "meter=1")?),
                "kbps" | "pktps" => {
                    pair.alone()?;
                    let is_other = unit.is_some();
                    unit = Some(if pair.word == "kbps" { MeterUnit::Kbps } else { MeterUnit::Pktps });
                    if is_other {
                        return Err(FlowError::new(pair.at, "a meter has one unit", "keep `kbps` or `pktps`"));
                    }
                }
                "burst" => {
                    pair.alone()?;
                    has_burst = true;
                }
                "stats" => {
                    pair.alone()?;
                    has_stats = true;
                }
                // The first band stands in it, or behind it.
                "band" | "bands" => {
                    is_in_bands = true;
                    let Some((inner, at)) = pair.value.clone().filter(|(inner, _)| !inner.is_empty()) else { continue };
                    let inner = Scan::new(inner).pair().map_err(|error| error.shifted(at.start))?;
                    if let Some(inner) = inner {
                        add_to_band(&inner, &mut bands).map_err(|error| error.shifted(at.start))?;
                    }
                }
                _ if is_in_bands => add_to_band(&pair, &mut bands)?,
                "type" | "rate" | "burst_size" | "prec_level" => {
                    let message = format!("`{}` is for bands, and no band has begun", pair.word);
                    return Err(FlowError::new(pair.at, message, format!("write it as in `{EXAMPLE}`")));
                }
                _ => return Err(unknown(&pair)),
            }
        }
        let Some(id) = id else {
            return Err(FlowError::new(0..end, "the meter has no number", "write it as in `meter=1`"));
        };
        if bands.is_empty() {
            let hint = "write one as in `band=type=drop,rate=1000`";
            return Err(FlowError::new(0..end, "the meter has no band", hint));
        }
        if bands.len() > BANDS_MAX {
            let message = format!("a meter has at most {BANDS_MAX} bands, and these are {}", bands.len());
            return Err(FlowError::new(0..end, message, "let other flows name another meter"));
        }
        let unit = unit.unwrap_or(MeterUnit::Kbps);
        let bands = bands.into_iter().map(|band| band.finish(unit, end)).collect::<Result<_, _>>()?;
        Ok(Self { id, unit, has_burst, has_stats, bands })
    }

    /// Reads which meter is meant: `meter=1`, `1`, or all with an empty text.
    ///
    /// # Errors
    /// With the place of the mistake.
    pub fn parse_number(text: &str) -> Result<Option<u32>, FlowError> {
        let mut scan = Scan::new(text);
        let Some(pair) = scan.pair()? else { return Ok(None) };
        if let Some(second) = scan.pair()? {
            let hint = "write `meter=1`, as one word for each meter";
            return Err(FlowError::new(second.span(), "nothing is expected behind the number", hint));
        }
        if pair.word == "meter" {
            return limited(&pair, (1, METER_MAX), "meter=1").map(Some);
        }
        let value = Some((pair.word, pair.span()));
        limited(&Pair { word: "meter", at: pair.span(), value }, (1, METER_MAX), "meter=1").map(Some)
    }
}

/// Takes a piece of a band.
fn add_to_band(pair: &Pair<'_>, bands: &mut Vec<BandText>) -> Result<(), FlowError> {
    if pair.word == "type" {
        let (text, at) = pair.needed("type=drop")?;
        let remarks = match text {
            "drop" => false,
            "dscp_remark" => true,
            other => {
                let near = nearest(other, ["drop", "dscp_remark"]);
                let hint = near.map_or_else(
                    || "write `drop` or `dscp_remark`".to_owned(),
                    |near| format!("did you mean `{near}`?"),
                );
                return Err(FlowError::new(at, format!("`{}` is no type of band", shown(other)), hint));
            }
        };
        bands.push(BandText { kind: Some((remarks, pair.span())), ..BandText::default() });
        return Ok(());
    }
    if !WORDS.contains(&pair.word) {
        return Err(unknown(pair));
    }
    let Some(band) = bands.last_mut() else {
        let hint = "begin each band with its type, as in `band=type=drop,rate=1000`";
        return Err(FlowError::new(pair.at.clone(), "a band begins with its type", hint));
    };
    match pair.word {
        "rate" => band.rate = Some(limited(pair, (1, u32::MAX), "rate=1000")?),
        "burst_size" => band.burst_size = limited(pair, (0, u32::MAX), "burst_size=100")?,
        "prec_level" => band.prec_level = Some((limited(pair, (1, 2), "prec_level=1")? as u8, pair.span())),
        word => {
            let message = format!("`{word}` stands behind a band");
            return Err(FlowError::new(
                pair.at.clone(),
                message,
                format!("write it in front of the bands: `{EXAMPLE}`"),
            ));
        }
    }
    Ok(())
}

fn unknown(pair: &Pair<'_>) -> FlowError {
    let near = nearest(pair.word, WORDS);
    let hint = near.map_or_else(|| format!("write it as in `{EXAMPLE}`"), |near| format!("did you mean `{near}`?"));
    FlowError::new(pair.at.clone(), format!("`{}` is no word of meters", shown(pair.word)), hint)
}

impl fmt::Display for Meter {
    /// As `ovs-ofctl dump-meters` prints it, but on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, unit, has_burst, has_stats, bands } = self;
        let unit = match unit {
            MeterUnit::Kbps => "kbps",
            MeterUnit::Pktps => "pktps",
        };
        write!(f, "meter={id} {unit}")?;
        for (word, is_on) in [("burst", has_burst), ("stats", has_stats)] {
            if *is_on {
                write!(f, " {word}")?;
            }
        }
        f.write_str(" bands=")?;
        for (number, Band { kind, rate, burst_size }) in bands.iter().enumerate() {
            let space = if number == 0 { "" } else { " " };
            match kind {
                BandKind::Drop => write!(f, "{space}type=drop rate={rate}")?,
                BandKind::DscpRemark(_) => write!(f, "{space}type=dscp_remark rate={rate}")?,
            }
            if *burst_size > 0 {
                write!(f, " burst_size={burst_size}")?;
            }
            if let BandKind::DscpRemark(level) = kind {
                write!(f, " prec_level={level}")?;
            }
        }
        Ok(())
    }
}

/// What becomes of a packet at a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metered {
    /// It goes on.
    Pass,
    /// It goes no further.
    Drop,
    /// It goes on, with a drop precedence that is higher by so much.
    Remark(u8),
}

/// The code point of assured forwarding (RFC 2597) whose drop precedence is higher by so much, if the packet's is one of those.
pub const fn remarked(dscp: u8, level: u8) -> Option<u8> {
    let (class, precedence) = (dscp >> 3, dscp >> 1 & 3);
    if class == 0 || class > 4 || precedence == 0 || dscp & 1 == 1 {
        return None;
    }
    let raised = if precedence + level > 3 { 3 } else { precedence + level };
    Some(class << 3 | raised << 1)
}

/// A meter, and what it has counted.
#[derive(Debug)]
pub struct MeterState {
    meter: Meter,
    made_at: Time,
    /// Packets and bytes that came.
    came: (u64, u64),
    bands: Vec<BandState>,
}

#[derive(Debug)]
struct BandState {
    bucket: TokenBucket,
    /// Packets and bytes that exceeded it.
    exceeded: (u64, u64),
}

/// What a meter is and has counted, for whoever asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterStatus {
    /// What it says.
    pub meter: Meter,
    /// How long it has been there.
    pub duration: Span,
    /// Packets that came.
    pub packets: u64,
    /// Their bytes, without frame check sequence.
    pub bytes: u64,
    /// By band: packets and bytes that were dropped or marked.
    pub bands: Vec<(u64, u64)>,
    /// Flows that name it.
    pub flows: usize,
}

impl MeterState {
    pub fn new(now: Time, meter: Meter) -> Self {
        // Tokens are bits, or packets.
        let unit = match meter.unit {
            MeterUnit::Kbps => 1_000,
            MeterUnit::Pktps => 1,
        };
        let band = |band: &Band| {
            let burst = if band.burst_size == 0 { band.rate } else { band.burst_size };
            BandState {
                bucket: TokenBucket::new(u64::from(band.rate) * unit, u64::from(burst) * unit),
                exceeded: (0, 0),
            }
        };
        Self { bands: meter.bands.iter().map(band).collect(), made_at: now, came: (0, 0), meter }
    }

    /// A packet of so many bytes comes.
    pub fn process(&mut self, now: Time, bytes: u32) -> Metered {
        let tokens = match self.meter.unit {
            MeterUnit::Kbps => u64::from(bytes) * 8,
            MeterUnit::Pktps => 1,
        };
        self.came.0 += 1;
        self.came.1 += u64::from(bytes);
        let mut exceeded: Option<usize> = None;
        for (number, band) in self.bands.iter_mut().enumerate() {
            let is_higher = |other: usize| self.meter.bands[other].rate >= self.meter.bands[number].rate;
            if !band.bucket.take(now, tokens) && !exceeded.is_some_and(is_higher) {
                exceeded = Some(number);
            }
        }
        let Some(number) = exceeded else { return Metered::Pass };
        let (packets, of_bytes) = &mut self.bands[number].exceeded;
        *packets += 1;
        *of_bytes += u64::from(bytes);
        match self.meter.bands[number].kind {
            BandKind::Drop => Metered::Drop,
            BandKind::DscpRemark(level) => Metered::Remark(level),
        }
    }

    /// `flows` are as many as name it.
    pub fn status(&self, now: Time, flows: usize) -> MeterStatus {
        let (packets, bytes) = self.came;
        MeterStatus {
            meter: self.meter.clone(),
            duration: now.since(self.made_at),
            packets,
            bytes,
            bands: self.bands.iter().map(|band| band.exceeded).collect(),
            flows,
        }
    }
}

impl Rebase for MeterState {
    fn rebase(&mut self, by: Span) {
        let Self { meter: _, made_at, came: _, bands } = self;
        made_at.rebase(by);
        for BandState { bucket, exceeded: _ } in bands {
            bucket.rebase(by);
        }
    }
}
