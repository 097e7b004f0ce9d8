//! Which packets are meant, in the words of `ovs-ofctl`.

use vswitch::flow_table::{FlowError, Match, Ports, Selection};

use crate::error::Problems;
use crate::read::Text;
use crate::source::At;

/// What stands for all hosts, and for all packets.
pub(crate) const ALL: &str = "all";

/// Reads which packets `who` takes.
pub(crate) fn matching(text: &At<Text>, who: &str, problems: &mut Problems<'_>) -> Option<Match> {
    let read = Selection::parse(&text.value.0, &Ports::default(), false);
    let checked = read.and_then(|selection| {
        if selection == (Selection { matching: selection.matching, ..Selection::ALL }) {
            return Ok(selection.matching);
        }
        let message = format!("{who} takes packets by what is in them: it has no table, cookie or priority");
        Err(FlowError { at: 0..text.value.0.len(), message, hint: "write fields only".to_owned() })
    });
    match checked {
        Ok(matching) => Some(matching),
        Err(error) => {
            let hint = if text.value.0.contains('=') {
                error.hint
            } else {
                format!("{}; between {{ }}, it needs quotes", error.hint)
            };
            let place = problems.place_within(text.place, &text.value.0, &error.at);
            problems.add(place, &error.message, "here", hint);
            None
        }
    }
}
