//! `host:port`, as people write it.

use crate::Refusal;
use crate::prefix::is_identifier;

/// The longest host name (RFC 1035, 2.3.4).
const HOST_LEN_MAX: usize = 255;

/// Refuses what is not `host:port` with a port from 1 to 65535; a host of IPv6 stands in brackets.
pub(crate) fn check_address(address: &str) -> Result<(), Refusal> {
    let bad = || Refusal::BadAddress { address: address.chars().take(HOST_LEN_MAX).collect() };
    let (host, port) = address.rsplit_once(':').ok_or_else(bad)?;
    let port_ok = port.bytes().all(|c| c.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
    let host_ok = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inner) => inner.parse::<core::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|c| c.is_ascii_alphanumeric() || b".-_".contains(&c)),
    };
    if port_ok && host_ok && host.len() <= HOST_LEN_MAX { Ok(()) } else { Err(bad()) }
}

/// Refuses what is not a name of a server or shard.
pub(crate) fn check_name(name: &str) -> Result<(), Refusal> {
    if is_identifier(name) { Ok(()) } else { Err(Refusal::BadName { name: name.chars().take(64).collect() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hosts_with_ports() {
        for good in ["10.0.0.1:7000", "c1.example.net:1", "[fd00::1]:65535", "localhost:80"] {
            assert_eq!(check_address(good), Ok(()), "{good}");
        }
        for bad in
            ["", ":", "host", "host:", ":80", "host:0", "host:65536", "host:+80", "fd00::1:80", "[zz]:80", "a b:80"]
        {
            assert!(check_address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_refused_is_said_in_one_line() {
        let forged = "x\nc1  localhost\u{1b}[31m\u{202e}";
        let hint = String::new();
        let access = Refusal::Access { why: format!("there is no user {forged}"), hint };
        for said in [check_name(forged).unwrap_err(), check_address(forged).unwrap_err(), access] {
            let said = said.to_string();
            assert!(said.contains(r"x\nc1  localhost\u{1b}[31m\u{202e}"), "{said}");
        }
    }
}
