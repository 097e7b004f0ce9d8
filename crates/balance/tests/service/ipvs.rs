//! The choices of IPVS, worked out by hand from what its sources do. `benches/ipvs.sh` asks the kernel itself.

use balance::{Client, Outcome, Refusal, Scheduler, ServiceSpec};
use machine::Time;

use super::{client, close, number, open, opened, servers, service};

#[test]
fn turns_go_round_beginning_with_the_server_that_came_last() {
    let mut service = service(Scheduler::Rr, &[1, 1, 1]);
    assert_eq!(opened(&mut service, 7), "3213213");
}

#[test]
fn a_turn_goes_on_behind_the_last_server_also_when_that_one_leaves() {
    let mut service = service(Scheduler::Rr, &[1, 1, 1]);
    assert_eq!(opened(&mut service, 2), "32");
    let mut spec = service.spec().clone();
    spec.servers.remove(1);
    service.apply(Time::ZERO, spec).unwrap();
    assert_eq!(opened(&mut service, 3), "131");
}

#[test]
fn weighted_turns_go_down_from_the_greatest_weight() {
    // Added one by one to IPVS: at s1 the round asks for 1, and for no more when s2 and s3 come; so the first round is for all.
    let mut service = service(Scheduler::Wrr, &[4, 3, 2]);
    assert_eq!(opened(&mut service, 3), "321");
    // Then for 4, for 3, for 2, for 1.
    assert_eq!(opened(&mut service, 9), "121321321");
    assert_eq!(opened(&mut service, 9), "121321321");
}

#[test]
fn weighted_turns_need_no_more_rounds_than_weights_have_in_common() {
    let mut service = service(Scheduler::Wrr, &[400, 300, 200]);
    assert_eq!(opened(&mut service, 3), "321");
    assert_eq!(opened(&mut service, 9), "121321321");
}

#[test]
fn the_fewest_connections_win_and_inactive_ones_count_little() {
    let mut service = service(Scheduler::Lc, &[1, 1, 1]);
    assert_eq!(opened(&mut service, 3), "321");
    let id = service.server("s2").unwrap();
    service.idle(Time::ZERO, id);
    assert_eq!(opened(&mut service, 1), "2");
    // Now s2 has an inactive one more than the others.
    assert_eq!(opened(&mut service, 3), "312");
    service.close(Time::ZERO, id, true, Outcome::Completed);
    assert_eq!(opened(&mut service, 3), "321");
}

#[test]
fn connections_count_for_their_weight() {
    let mut service = service(Scheduler::Wlc, &[1, 2, 3]);
    assert_eq!(opened(&mut service, 12), "321323321323");
}

#[test]
fn the_shortest_delay_counts_the_new_connection() {
    let mut service = service(Scheduler::Sed, &[1, 2, 3]);
    // (active + 1) / weight: 1/3 1/2 1/1, then 2/3, ...
    assert_eq!(opened(&mut service, 6), "323321");
}

#[test]
fn nobody_queues_while_somebody_is_idle() {
    let mut service = service(Scheduler::Nq, &[1, 2, 3]);
    assert_eq!(opened(&mut service, 6), "321332");
    let id = service.server("s1").unwrap();
    close(&mut service, id);
    assert_eq!(opened(&mut service, 1), "1");
}

#[test]
fn a_source_keeps_its_server() {
    for scheduler in [Scheduler::Sh, Scheduler::Mh] {
        let mut service = service(scheduler, &[1, 2, 3]);
        let mut counts = [0; 3];
        for n in 0..6_000 {
            let first = service.open(Time::ZERO, &client(n)).unwrap();
            assert_eq!(service.open(Time::ZERO, &Client { port: 7, ..client(n) }), Ok(first));
            counts[number(&service, first) as usize - '1' as usize] += 1;
        }
        for (n, count) in counts.into_iter().enumerate() {
            assert!((850 * (n + 1)..1_150 * (n + 1)).contains(&count), "{scheduler}: {counts:?}");
        }
    }
}

#[test]
fn a_hash_may_count_the_port() {
    let mut spec = ServiceSpec::new(Scheduler::Mh, servers(&[1, 1]));
    spec.hash_port = true;
    let mut service = balance::Service::new(Time::ZERO, spec, 1).unwrap();
    let mut ids: Vec<_> =
        (0..64).map(|port| service.open(Time::ZERO, &Client { port, ..client(1) }).unwrap()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 2);
}

#[test]
fn a_client_whose_server_is_out_gets_another_one_or_none() {
    for scheduler in [Scheduler::Sh, Scheduler::Mh] {
        let mut service = service(scheduler, &[1, 1, 1]);
        let own = service.open(Time::ZERO, &client(5)).unwrap();
        service.set_healthy(Time::ZERO, own, false);
        let other = service.open(Time::ZERO, &client(5)).unwrap();
        assert_ne!(own, other);
        service.apply(Time::ZERO, ServiceSpec { hash_fallback: false, ..service.spec().clone() }).unwrap();
        assert_eq!(service.open(Time::ZERO, &client(5)), Err(Refusal::NoServer));
        service.set_healthy(Time::ZERO, own, true);
        assert_eq!(service.open(Time::ZERO, &client(5)), Ok(own));
    }
}

#[test]
fn few_clients_change_their_server_when_one_of_ten_leaves() {
    let mut service = service(Scheduler::Mh, &[1; 10]);
    let choose = |service: &mut balance::Service| -> Vec<char> {
        (0..10_000).map(|n| service.open(Time::ZERO, &client(n)).map(|id| number(service, id)).unwrap()).collect()
    };
    let before = choose(&mut service);
    let mut spec = service.spec().clone();
    let gone = spec.servers.remove(4);
    service.apply(Time::ZERO, spec).unwrap();
    let after = choose(&mut service);
    let gone = gone.name.chars().last().unwrap();
    let of_gone = before.iter().filter(|&&server| server == gone).count();
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert!((900..1_100).contains(&of_gone), "{of_gone} of 10,000 had the server that left");
    assert!(moved - of_gone < 500, "{moved} changed their server, {of_gone} had to");
}

#[test]
fn a_server_of_weight_zero_gets_nothing() {
    for scheduler in Scheduler::ALL {
        let mut service = service(scheduler, &[1, 0, 1]);
        for n in 0..20 {
            let id = service.open(Time::ZERO, &client(n)).unwrap();
            assert_ne!(number(&service, id), '2', "{scheduler}");
        }
    }
}

#[test]
fn a_full_server_gets_nothing_until_it_is_below_its_lower_limit() {
    for scheduler in Scheduler::ALL {
        let mut spec = ServiceSpec::new(scheduler, servers(&[1]));
        (spec.servers[0].connections_max, spec.servers[0].connections_resume) = (Some(3), Some(2));
        let mut service = balance::Service::new(Time::ZERO, spec, 1).unwrap();
        let ids: Vec<_> = (0..3).map(|_| open(&mut service, Time::ZERO)).collect();
        assert_eq!(service.open(Time::ZERO, &client(1)), Err(Refusal::Full));
        close(&mut service, ids[0]);
        assert_eq!(service.open(Time::ZERO, &client(1)), Err(Refusal::Full), "{scheduler}");
        close(&mut service, ids[1]);
        assert_eq!(service.open(Time::ZERO, &client(1)), Ok(ids[2]));
    }
}
