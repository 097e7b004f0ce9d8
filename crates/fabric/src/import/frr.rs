//! Addresses of devices in configurations of FRR and Quagga: what `vtysh`, `zebra` and their files say of interfaces.

use crate::InterfaceAddress;
use crate::addresses::Subnet;
use crate::host_addresses::unusable;

/// Adds the addresses that a configuration gives these devices, each to its own.
pub(super) fn add_addresses(configuration: &str, devices: &[String], addresses: &mut [Vec<InterfaceAddress>]) {
    let mut device = None;
    for line in configuration.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["interface", name, ..] => device = devices.iter().position(|device| device == name),
            ["ip" | "ipv6", "address", address, ..] => {
                let own = device.and_then(|device| addresses.get_mut(device));
                let Some((own, Subnet(address))) = own.zip(address.parse().ok()) else { continue };
                if unusable(address).is_none() && !own.contains(&address) {
                    own.push(address);
                }
            }
            // What stands in the column of `interface` is about something else.
            [first, ..] if first != "!" && !line.starts_with([' ', '\t']) && first != "no" => device = None,
            _ => {}
        }
    }
}

/// What `vtysh -c LINE -c LINE` says, a line each; `None` if it is another command.
pub(super) fn of_command(words: &[String]) -> Option<String> {
    let [program, rest @ ..] = words else { return None };
    if program.rsplit('/').next() != Some("vtysh") {
        return None;
    }
    // In what it says in turn, `interface` holds until the next one.
    let said = rest.windows(2).filter(|pair| pair[0] == "-c").map(|pair| format!(" {}\n", pair[1]));
    Some(said.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_have_the_addresses_that_stand_below_them() {
        let devices = ["eth1".to_owned(), "eth2".to_owned()];
        let read = |text: &str| {
            let mut addresses = vec![Vec::new(); 2];
            add_addresses(text, &devices, &mut addresses);
            let written =
                |own: &Vec<InterfaceAddress>| own.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            addresses.iter().map(written).collect::<Vec<_>>().join(", ")
        };
        let text = "hostname r1\n!\ninterface eth1\n description x\n ip address 10.0.1.254/24\n ipv6 address fd00::1/64\n!\n\
                    interface lo\n ip address 1.1.1.1/32\ninterface eth2 vrf x\n ip address 10.0.12.1/30\nexit\n\
                    router ospf\n ip address 10.9.9.9/24\n";
        assert_eq!(read(text), "10.0.1.254/24 fd00::1/64, 10.0.12.1/30");
        assert_eq!(read("interface eth1\n ip address 10.0.1.0/24\n ip address x\n ip address\n"), ", ");
        let words =
            ["vtysh", "-c", "conf t", "-c", "interface eth2", "-c", "ip address 10.0.0.1/24"].map(str::to_owned);
        assert_eq!(read(&of_command(&words).expect("it configures")), ", 10.0.0.1/24");
        assert_eq!(of_command(&["ip".to_owned(), "a".to_owned()]), None);
    }
}
