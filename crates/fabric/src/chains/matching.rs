//! Which packets are meant, in the words of `ovs-ofctl`.

use vswitch::flow_table::{FlowError, Match, Ports, Selection};

use crate::error::Problems;
use crate::read::Text;
use crate::source::At;

/// What stands for all hosts, and for all packets.
pub(crate) const ALL: &str = "all";

/// Reads which packets `who` takes.
pub(crate) fn matching(text: &At<Text>, who: &str, problems: &mut Problems<'_>) -> Option<Match> {
    let refused = |message: String| {
        let hint = "write fields of packets only, as in `tcp,tp_dst=80`".to_owned();
        FlowError { at: 0..text.value.0.len(), message, hint }
    };
    // Whoever reads it as what chooses flows would advise what chooses one of them.
    let words = || text.value.0.split([',', ' ']).map(|word| word.split('=').next().unwrap_or_default().trim());
    let of_flows = words().find(|word| matches!(*word, "priority" | "table" | "cookie" | "in_port"));
    let checked = match of_flows {
        Some("in_port") => {
            Err(refused(format!("{who} takes packets by what is in them: which port they come in by, its chain says")))
        }
        Some(_) => Err(refused(format!("{who} takes packets by what is in them: it has no table, cookie or priority"))),
        None => Selection::parse(&text.value.0, &Ports::default(), false).and_then(|selection| {
            match selection.matching.of_switch() {
                Some(field) => Err(refused(format!(
                    "{who} takes packets by what is in them: `{field}` is what a switch knows of one, so none would fit"
                ))),
                None => Ok(selection.matching),
            }
        }),
    };
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
