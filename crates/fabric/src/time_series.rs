//! The step in which a run is recorded over its time: which ones make sense.

use machine::Span;

use crate::Work;
use crate::error::Problems;
use crate::quantity::Length;
use crate::source::At;

/// The shortest step: live, all hosts and workers are asked once in each.
const LEAST: Span = Span::from_ms(10);
/// The most steps of a run.
const STEPS_MAX: u64 = 10_000;
/// The most numbers of a run: four a step and flow, one a step and direction of a link.
const NUMBERS_MAX: u64 = 10_000_000;

/// The step of an experiment that measures so long, with so many flows and links. Notes what is wrong with it.
pub(crate) fn check<const MAX_MS: u64>(
    text: &At<Length<false, MAX_MS>>,
    work: &Work,
    (duration, (flows, links)): (Span, (u64, u64)),
    problems: &mut Problems<'_>,
) -> Option<Span> {
    let step = text.value.0;
    let mut wrong = |what: String, label: &str, hint: String| problems.add(text.place, what, label, hint);
    if work.cluster().is_some() {
        wrong(
            "only traffic is recorded over time".to_owned(),
            "without traffic",
            "remove `time-series`: what controllers were asked, and when they answered, is in their own table"
                .to_owned(),
        );
    } else if step < LEAST {
        wrong(format!("{step} is less than {LEAST}"), "too short", format!("{LEAST} is the shortest step"));
    } else if step > duration {
        wrong(
            format!("a step of {step} is longer than what is measured, {duration}"),
            "too long",
            "write a step that is shorter than `for`".to_owned(),
        );
    } else if duration.as_ps().div_ceil(step.as_ps()) > STEPS_MAX {
        let least = Span::from_ps(duration.as_ps().div_ceil(STEPS_MAX));
        wrong(
            format!("{duration} has more than {STEPS_MAX} steps of {step}"),
            "too many steps",
            format!("take steps of {least} or longer"),
        );
    } else if duration.as_ps().div_ceil(step.as_ps()).saturating_mul(4 * flows + 2 * links) > NUMBERS_MAX {
        wrong(
            format!("{flows} flows and {links} links in steps of {step} are more than {NUMBERS_MAX} numbers a run"),
            "too many numbers",
            "take longer steps, or measure for a shorter time".to_owned(),
        );
    } else {
        return Some(step);
    }
    None
}
