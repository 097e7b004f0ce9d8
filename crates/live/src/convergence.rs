//! Waiting until bonds carry all that they can.
//!
//! Ends in 802.3ad carry nothing until LACP has agreed with the other end. Whoever has brought a network up wants to use it, and whoever measures
//! it wants it whole: so they ask which ends have not converged, until none is left that may still change by itself.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::{Error, Instance};

/// How long is waited for bonds at most.
///
/// A port gives up a partner that it does not hear after 3 s ([`bond::lacp::SHORT_TIMEOUT`]; at the slow rate as well, since the rate matters
/// only once a partner was heard), then waits 0.5 s for other ports ([`bond::lacp::AGGREGATE_WAIT`]) and is used without LACP. The last half
/// second is for a busy machine. A partner that needs longer has another reason than that it is just starting: Linux takes 2.9 s when
/// all cables are put in at once, as it waits 2 s for further ports.
pub const CONVERGENCE_MAX: Duration = Duration::from_secs(4);

/// How often bonds are asked for while they are waited for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// An end of a bond that does not carry all that it can.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnconvergedBond {
    /// The node that it is at.
    pub node: String,
    /// Its name there.
    pub bond: String,
    /// The node at its other end.
    pub to: String,
    /// Its members that have a carrier and do not send, or have no partner with LACP. At least one.
    pub members: Vec<UnconvergedMember>,
}

/// A member that does not carry what it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnconvergedMember {
    /// The name of the member: `eth0`, ...
    pub name: String,
    /// Whether that may still change by itself.
    pub pending: bool,
    /// Why it carries nothing, or less than it should.
    pub why: String,
}

impl UnconvergedBond {
    /// Whether it may still converge by itself.
    pub fn is_pending(&self) -> bool {
        self.members.iter().any(|member| member.pending)
    }

    /// Its name, as in `bond0 of s1`.
    pub fn name(&self) -> String {
        format!("{} of {}", self.bond, self.node)
    }
}

impl fmt::Display for UnconvergedBond {
    /// A sentence; members with the same reason are named together.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_pending() { "has not converged" } else { "carries less than it should" };
        write!(f, "{} (to {}) {what}", self.name(), self.to)?;
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for member in &self.members {
            match reasons.iter_mut().find(|(why, _)| *why == member.why) {
                Some((_, names)) => names.push(&member.name),
                None => reasons.push((&member.why, vec![&member.name])),
            }
        }
        for (nth, (why, names)) in reasons.iter().enumerate() {
            write!(f, "{} {}: {why}", if nth == 0 { ";" } else { "," }, names.join(" and "))?;
        }
        Ok(())
    }
}

impl Instance {
    /// Waits until all bonds have converged or cannot by themselves, [`CONVERGENCE_MAX`] at most. Returns those that have not, and those
    /// that carry less than they should. `waiting` is shown what is waited for, again and again; never if nothing is.
    ///
    /// # Errors
    /// If the daemon has gone.
    pub fn wait_converged(&self, mut waiting: impl FnMut(&[UnconvergedBond])) -> Result<Vec<UnconvergedBond>, Error> {
        let started = Instant::now();
        loop {
            let unconverged = self.unconverged()?;
            if started.elapsed() >= CONVERGENCE_MAX || !unconverged.iter().any(UnconvergedBond::is_pending) {
                return Ok(unconverged);
            }
            waiting(&unconverged);
            thread::sleep(LOOK_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, pending: bool, why: &str) -> UnconvergedMember {
        UnconvergedMember { name: name.to_owned(), pending, why: why.to_owned() }
    }

    #[test]
    fn members_with_one_reason_are_named_together() {
        let members =
            vec![member("eth0", false, "one"), member("eth1", false, "another"), member("eth2", false, "one")];
        let mut bond = UnconvergedBond { node: "s1".into(), bond: "bond0".into(), to: "s2".into(), members };
        let text = "bond0 of s1 (to s2) carries less than it should; eth0 and eth2: one, eth1: another";
        assert_eq!(bond.to_string(), text);
        bond.members[1].pending = true;
        assert_eq!(bond.to_string(), text.replace("carries less than it should", "has not converged"));
    }

    /// A bond whose partner has no LACP carries traffic when the wait ends.
    #[test]
    fn it_is_waited_until_a_silent_partner_is_given_up() {
        let given_up = bond::lacp::SHORT_TIMEOUT + bond::lacp::AGGREGATE_WAIT;
        assert!(CONVERGENCE_MAX > Duration::from_nanos(given_up.as_ns()));
    }
}
