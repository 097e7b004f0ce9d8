//! `HAProxy`'s agent-check: a line of words, as its configuration manual describes them (`agent-check`).

use core::fmt;

use super::{AgentError, shown, text};

/// What a server is to be, by its operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admin {
    /// In use.
    #[default]
    Ready,
    /// No new connections but of clients that are bound to it.
    Drain,
    /// No new connections at all.
    Maintenance,
}

/// Whether a server works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It does.
    Up,
    /// It does not; `reason` is for people.
    Down {
        /// `down`, `fail` or `stopped`, and what stood behind it.
        reason: String,
    },
}

/// An answer of an agent. What it does not say stays as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentCheck {
    /// The part of its configured weight that the server is to have, at most 100.
    pub weight_percent: Option<u32>,
    /// Its limit of connections.
    pub connections_max: Option<u32>,
    /// What it is to be.
    pub admin: Option<Admin>,
    /// Whether it works.
    pub state: Option<State>,
}

impl AgentCheck {
    /// Reads an answer, up to its first line end.
    ///
    /// # Errors
    /// What is not understood.
    pub fn parse(bytes: &[u8]) -> Result<Self, AgentError> {
        let text = text(bytes)?;
        let line = text.split(['\r', '\n']).next().unwrap_or_default();
        // What follows a `#` describes why it is down.
        let (words, description) = line.split_once('#').unwrap_or((line, ""));
        let mut answer = Self::default();
        for word in words.split([' ', '\t', ',']).filter(|word| !word.is_empty()) {
            answer.take(word, description.trim())?;
        }
        Ok(answer)
    }

    fn take(&mut self, word: &str, description: &str) -> Result<(), AgentError> {
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        if let Some(percent) = word.strip_suffix('%') {
            self.weight_percent = Some(number("weight", percent, 100, "a whole number from 0 to 100")?);
        } else if let Some(limit) = word.strip_prefix("maxconn:") {
            self.connections_max = Some(number("maxconn", limit, u32::MAX, "a whole number of connections")?);
        } else if is("ready") {
            self.admin = Some(Admin::Ready);
        } else if is("drain") {
            self.admin = Some(Admin::Drain);
        } else if is("maint") {
            self.admin = Some(Admin::Maintenance);
        } else if is("up") {
            self.state = Some(State::Up);
        } else if is("down") || is("fail") || is("stopped") {
            let mut reason = word.to_ascii_lowercase();
            if !description.is_empty() {
                let description: String = description.chars().take(80).collect();
                reason = format!("{reason}: {}", description.trim_end());
            }
            self.state = Some(State::Down { reason });
        } else {
            return Err(AgentError::Word(shown(word)));
        }
        Ok(())
    }
}

fn number(name: &str, value: &str, max: u32, expected: &'static str) -> Result<u32, AgentError> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse().ok().filter(|&number| digits && number <= max);
    number.ok_or_else(|| AgentError::Value { name: name.to_owned(), value: shown(value), expected })
}

impl fmt::Display for AgentCheck {
    /// The line that an agent sends, with its line end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        words.extend(self.admin.map(|admin| {
            match admin {
                Admin::Ready => "ready",
                Admin::Drain => "drain",
                Admin::Maintenance => "maint",
            }
            .to_owned()
        }));
        words.extend(self.weight_percent.map(|percent| format!("{percent}%")));
        words.extend(self.connections_max.map(|max| format!("maxconn:{max}")));
        words.extend(self.state.as_ref().map(|state| match state {
            State::Up => "up".to_owned(),
            State::Down { reason } => match reason.split_once(": ") {
                Some((word, description)) => format!("{word} #{description}"),
                None => reason.clone(),
            },
        }));
        writeln!(f, "{}", words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> AgentCheck {
        AgentCheck::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn words_are_those_of_the_manual() {
        let answer = parse("up 75%,maxconn:100\r\nthis is not read");
        assert_eq!(answer.weight_percent, Some(75));
        assert_eq!(answer.connections_max, Some(100));
        assert_eq!(answer.state, Some(State::Up));
        assert_eq!(parse("Drain\n").admin, Some(Admin::Drain));
        assert_eq!(parse("maint").admin, Some(Admin::Maintenance));
        assert_eq!(parse("ready\tup").admin, Some(Admin::Ready));
        assert_eq!(parse("\n"), AgentCheck::default());
        let down = |reason: &str| Some(State::Down { reason: reason.to_owned() });
        assert_eq!(parse("down # disk full\n").state, down("down: disk full"));
        assert_eq!(parse("stopped").state, down("stopped"));
    }

    #[test]
    fn what_is_not_understood_is_said() {
        let error = |text: &str| AgentCheck::parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error("101%"), "weight: `101` is not a whole number from 0 to 100");
        assert_eq!(error("+5%"), "weight: `+5` is not a whole number from 0 to 100");
        assert_eq!(error("maxconn:-1"), "maxconn: `-1` is not a whole number of connections");
        assert!(error("upp 5%").starts_with("`upp` is none of up, down"));
        assert_eq!(AgentCheck::parse(&[b' '; 5_000]), Err(AgentError::TooLong));
        assert_eq!(AgentCheck::parse(&[0xff]), Err(AgentError::NoText));
    }

    #[test]
    fn what_is_written_reads_the_same() {
        for line in ["\n", "ready 75% maxconn:10 up\n", "drain 0% down #no disk: full\n", "maint fail\n"] {
            assert_eq!(parse(line).to_string(), line);
        }
    }
}
