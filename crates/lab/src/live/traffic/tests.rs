//! With real iperf3 processes on this machine's loopback.

use std::cell::Cell;
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// Everything runs here.
struct Here;

impl Hosts for Here {
    fn command(&self, _host: &str, program: &str, arguments: &[String]) -> Result<Command, String> {
        let mut command = Command::new(program);
        command.args(arguments);
        Ok(command)
    }
}

/// To a port that nobody has, since tests run side by side, and so do suites; and that the kernel gives no connection meanwhile.
fn flow(name: &str) -> LiveFlow {
    /// Below those that connections get, on Linux as it comes.
    const PORTS: std::ops::Range<u16> = 15_000..32_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let count = u32::from(PORTS.end - PORTS.start);
    let port = (0..count)
        .map(|_| {
            let place = (std::process::id() * 16 + TAKEN.fetch_add(1, Ordering::Relaxed)) % count;
            PORTS.start + place as u16
        })
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a port is free");
    LiveFlow { from: "h1".to_owned(), to: name.to_owned(), address: "127.0.0.1".to_owned(), port }
}

fn schedule(seconds: u64) -> Schedule {
    let arguments = ["-C", "reno", "-b", "20M"].map(str::to_owned).to_vec();
    Schedule { warm_up: Span::from_secs(1), seconds, arguments, starts: Vec::new() }
}

/// No fault is injected.
fn run_in_peace<C>(
    hosts: &impl Hosts,
    flows: &[LiveFlow],
    schedule: &Schedule,
    count: impl FnMut() -> Result<C, FlowFailure>,
) -> Result<Measured<C>, FlowFailure> {
    run(
        hosts,
        flows,
        schedule,
        &mut During::new(Vec::new(), &mut |_| Ok(()), None),
        (count, |_: &C, _: &C, _: &[LiveFlow]| true),
    )
}

#[test]
fn faults_come_at_their_times() {
    // Before measuring begins, so that nothing is seen earlier than it comes.
    let begin = Instant::now();
    let times = std::cell::RefCell::new(Vec::new());
    let mut inject = |number| {
        times.borrow_mut().push((number, begin.elapsed().as_millis()));
        Ok(())
    };
    let at = [100, 600].map(Duration::from_millis).to_vec();
    run(
        &Here,
        &[flow("h2")],
        &schedule(1),
        &mut During::new(at, &mut inject, None),
        (|| Ok(()), |(): &(), (): &(), _: &[LiveFlow]| true),
    )
    .unwrap();
    let times = times.into_inner();
    // Not before their times; how much later is the machine's.
    assert!(times[1].1 >= 600, "{times:?}");
    assert_eq!((times[0].0, times[1].0, times.len()), (0, 1, 2));
}

#[test]
fn two_flows_are_measured_at_the_same_time() {
    let (begin, calls) = (Instant::now(), Cell::new(0));
    let count = || {
        calls.set(calls.get() + 1);
        Ok(Instant::now())
    };
    let measured = run_in_peace(&Here, &[flow("h2"), flow("h3")], &schedule(2), count).unwrap();
    assert_eq!((measured.flows.len(), calls.get()), (2, 3), "before they are started, and at both ends of the window");
    // Both in the same window, which begins no sooner than the warm-up is over, and ends no sooner than it should.
    assert!(measured.before.duration_since(begin) >= Duration::from_secs(1), "{:?}", measured.before);
    assert!(measured.after > measured.before, "{:?}", measured.after);
    assert!(measured.after.duration_since(begin) >= Duration::from_secs(3), "{:?}", measured.after);
    for flow in &measured.flows {
        let flow = flow.as_ref().expect("they are on one machine");
        assert!(flow.goodput_bps > 0.0 && flow.seconds > 0.0, "{flow:?}");
    }
}

#[test]
fn the_window_begins_when_all_flows_send() {
    let calls = Cell::new(0);
    let count = || {
        calls.set(calls.get() + 1);
        Ok((calls.get(), Instant::now()))
    };
    let have_begun = |idle: &(u32, Instant), now: &(u32, Instant), _: &[LiveFlow]| idle.0 == 1 && now.0 >= 5;
    let mut inject = |_| Ok(());
    let mut during = During::new(Vec::new(), &mut inject, None);
    let measured = run(&Here, &[flow("h2")], &schedule(1), &mut during, (count, have_begun)).unwrap();
    assert_eq!((measured.before.0, measured.after.0), (5, 6));
    assert!(measured.after.1.duration_since(measured.before.1) >= Duration::from_millis(900));
}

/// What iperf3 leaves out of its report is its business; it is given what.
#[test]
fn the_warm_up_is_left_out() {
    for (left, omitted) in [(3_000, 3), (2_001, 3), (0, 0)] {
        let line = client_arguments(&flow("h2"), &schedule(2), Duration::from_millis(left)).join(" ");
        assert!(line.contains(&format!(" -t 2 -O {omitted} ")), "{line}");
    }
}

/// The window would be over before the last one sends.
#[test]
fn flows_that_are_not_started_within_the_warm_up_are_started_once_more() {
    /// The first client takes longer to start than the warm-up is.
    struct Slow(Cell<u32>);
    impl Hosts for Slow {
        fn command(&self, host: &str, program: &str, arguments: &[String]) -> Result<Command, String> {
            if host == "h1" {
                self.0.set(self.0.get() + 1);
                std::thread::sleep(Duration::from_secs(if self.0.get() == 1 { 2 } else { 0 }));
            }
            Here.command(host, program, arguments)
        }
    }
    let (hosts, schedule) = (Slow(Cell::new(0)), Schedule { warm_up: Span::ZERO, ..schedule(1) });
    let measured = run_in_peace(&hosts, &[flow("h2"), flow("h3")], &schedule, || Ok(())).unwrap();
    assert!(hosts.0.get() >= 3, "the second one was not started, and then both were");
    assert_eq!(measured.flows.iter().filter(|flow| flow.is_ok()).count(), 2);
}

/// The report of so many streams is longer than the 64 KiB that a pipe holds.
#[test]
fn a_long_report_is_read_while_it_is_written() {
    let mut schedule = schedule(1);
    schedule.arguments = ["-b", "4M", "-P", "100"].map(str::to_owned).to_vec();
    // How much of it comes within the second is the machine's.
    let measured = run_in_peace(&Here, &[flow("h2")], &schedule, || Ok(())).unwrap();
    assert_eq!(measured.flows.len(), 1);
}

#[test]
fn a_server_that_cannot_listen_says_why() {
    let mut flow = flow("h2");
    flow.port = 0;
    let failure = run_in_peace(&Here, &[flow], &schedule(1), || Ok(())).err().unwrap();
    assert_eq!((failure.flow.as_str(), failure.host.as_str()), ("h1 -> h2", "h2"));
    assert!(failure.message.contains("the server ended at once: iperf3: "), "{}", failure.message);
}

#[test]
fn a_client_that_cannot_connect_says_why() {
    let mut flow = flow("h2");
    flow.address = "127.0.0.1.invalid".to_owned();
    let calls = Cell::new(0);
    let count = || {
        calls.set(calls.get() + 1);
        Ok(())
    };
    let failure = run_in_peace(&Here, &[flow], &schedule(600), count).err().unwrap();
    assert!(calls.get() < 2, "a failure is seen before the ten minutes are over");
    assert_eq!(failure.host, "h1");
    assert!(failure.message.contains("iperf3: unable to"), "{}", failure.message);
}

/// One flow is refused: the others run without it, and it is a result of its own.
#[test]
fn a_flow_that_is_refused_does_not_end_the_others() {
    /// The client of one flow goes to a port at which nobody listens.
    struct Refusing(u16);
    impl Hosts for Refusing {
        fn command(&self, host: &str, program: &str, arguments: &[String]) -> Result<Command, String> {
            let (listened, nobody) = (self.0.to_string(), "1".to_owned());
            let is_client = arguments.contains(&"-c".to_owned());
            let elsewhere = |it: &String| if is_client && *it == listened { nobody.clone() } else { it.clone() };
            Here.command(host, program, &arguments.iter().map(elsewhere).collect::<Vec<_>>())
        }
    }
    let flows = [flow("h2"), flow("h3")];
    let measured = run_in_peace(&Refusing(flows[0].port), &flows, &schedule(1), || Ok(())).unwrap();
    let why = measured.flows[0].as_ref().unwrap_err();
    assert!(why.contains("refused"), "{why}");
    assert!(measured.flows[1].as_ref().is_ok_and(|did| did.goodput_bps > 0.0), "{:?}", measured.flows[1]);
}

#[test]
fn listeners_are_found_in_the_kernels_table() {
    let table = "  sl  local_address rem_address   st tx_queue\n   \
                 0: 00000000:1451 00000000:0000 0A 00000000:00000000\n   \
                 1: 0100007F:1452 0100007F:C000 01 00000000:00000000\n";
    assert!(has_listener(table, 0x1451));
    assert!(!has_listener(table, 0x1452), "connected, not listening");
    assert!(!has_listener(table, 0xC000) && !has_listener("", 1));
}
