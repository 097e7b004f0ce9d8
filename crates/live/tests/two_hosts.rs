//! A small network comes up, carries packets, and goes.

mod bed;

use bed::Bed;

const PAIR: &str = "
name: pair
nodes: { h1: host, h2: host, s1: switch }
links: [ { between: [h1, s1] }, { between: [s1, h2] } ]
";

#[test]
fn hosts_reach_each_other_by_name() {
    let bed = Bed::new();
    let network = bed.up("pair", PAIR);
    for family in ["-4", "-6"] {
        let ping = bed::output(network.command("h1", "ping", [family, "-c", "2", "-i", "0.1", "-W", "2", "h2"]));
        assert!(ping.contains(" 0% packet loss"), "{ping}");
    }
    network.down().unwrap();
}
