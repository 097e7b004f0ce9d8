//! What the kernel says of the machine, read from `/proc`, and what it means since the sample before.

use std::path::PathBuf;

use machine::Time;

use super::config::Sources;
use super::processes::{self, ProcessUse};
use super::status::{PRESSURES, Status};
use crate::error::Error;

/// Readers of the texts of `/proc`. What does not look as it should is nothing.
pub mod parse {
    /// Ticks that all processors have worked, and ticks in all, of `/proc/stat`.
    pub fn cpu(stat: &str) -> Option<(u64, u64)> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        // user, nice, system, idle, iowait, irq, softirq, steal; what guests use is a part of user.
        let known = ticks.get(..8)?;
        let all = known.iter().fold(0_u64, |sum, ticks| sum.saturating_add(*ticks));
        Some((all.saturating_sub(known[3]).saturating_sub(known[4]), all))
    }

    /// Tasks that run or could run, for each of the machine's processors that are online, of `/proc/stat`.
    pub fn run_queue(stat: &str) -> Option<f64> {
        let tasks: u32 = stat.lines().find_map(|line| line.strip_prefix("procs_running "))?.trim().parse().ok()?;
        let is_processor =
            |line: &&str| line.strip_prefix("cpu").is_some_and(|it| it.starts_with(|c: char| c.is_ascii_digit()));
        let processors = stat.lines().filter(is_processor).count();
        (processors > 0).then(|| f64::from(tasks) / processors as f64)
    }

    /// The part of the memory that is used, of `/proc/meminfo`, and all of it in bytes.
    pub fn memory(meminfo: &str) -> Option<(f64, u64)> {
        let field = |name: &str| -> Option<u64> {
            let rest = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
            rest.split_whitespace().next()?.parse().ok()
        };
        let (total, available) = (field("MemTotal:")?, field("MemAvailable:")?);
        (total > 0).then(|| (1.0 - available.min(total) as f64 / total as f64, total.saturating_mul(1_024)))
    }

    /// Microseconds in which something has waited, of a file in `/proc/pressure`.
    pub fn pressure_us(pressure: &str) -> Option<u64> {
        let line = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
        line.split_whitespace().find_map(|field| field.strip_prefix("total="))?.parse().ok()
    }

    /// TCP sockets in use, of `/proc/net/sockstat` or `sockstat6`.
    pub fn connections(sockstat: &str) -> Option<u64> {
        let line =
            sockstat.lines().find_map(|line| line.strip_prefix("TCP: ").or_else(|| line.strip_prefix("TCP6: ")))?;
        let mut words = line.split_whitespace();
        words.find(|word| *word == "inuse")?;
        words.next()?.parse().ok()
    }
}

/// What was read, to be held against the next.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    cpu: Option<(u64, u64)>,
    process: Option<ProcessUse>,
    pressure_us: [Option<u64>; 3],
    at: Time,
}

/// Reads the kernel's figures again and again.
#[derive(Debug)]
pub(super) struct Sampler {
    sources: Sources,
    processors: f64,
    ticks_per_second: f64,
    before: Option<Sample>,
    status: Status,
}

impl Sampler {
    /// Reads them for the first time.
    ///
    /// # Errors
    /// [`Error::File`] if there are none.
    pub fn new(sources: &Sources, now: Time) -> Result<Self, Error> {
        let needed: PathBuf = sources
            .process
            .map_or_else(|| sources.proc.join("stat"), |process| sources.proc.join(process.to_string()).join("stat"));
        std::fs::metadata(&needed).map_err(|source| Error::File { path: needed, source })?;
        let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten();
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let mut sampler = Self {
            sources: sources.clone(),
            processors,
            ticks_per_second: ticks.map_or(100.0, |ticks| ticks as f64),
            before: None,
            status: Status::default(),
        };
        sampler.sample(now);
        Ok(sampler)
    }

    /// Reads them, and says how loaded the machine was since the sample before. Before there are two, what is a rate is not known.
    pub fn sample(&mut self, now: Time) -> &Status {
        let read = |name: &str| std::fs::read_to_string(self.sources.proc.join(name)).ok();
        let stat = read("stat").unwrap_or_default();
        let memory = read("meminfo").as_deref().and_then(parse::memory);
        let process = self.sources.process.and_then(|process| processes::used_by(&self.sources.proc, process));
        let sample = Sample {
            cpu: parse::cpu(&stat),
            process,
            pressure_us: PRESSURES
                .map(|name| read(&format!("pressure/{name}")).as_deref().and_then(parse::pressure_us)),
            at: now,
        };
        let [tcp, tcp6] =
            ["net/sockstat", "net/sockstat6"].map(|name| read(name).as_deref().and_then(parse::connections));
        let status = &mut self.status;
        status.run_queue = parse::run_queue(&stat);
        status.connections = tcp.map(|tcp| tcp + tcp6.unwrap_or(0));
        status.report.mem_utilization = match (self.sources.process, process, memory) {
            (Some(_), Some(process), _) => {
                let all = self.sources.memory_bytes.or(memory.map(|(_, bytes)| bytes));
                all.filter(|&all| all > 0).map(|all| (process.memory_bytes as f64 / all as f64).min(1.0))
            }
            (Some(_), None, _) => None,
            (None, _, memory) => memory.map(|(used, _)| used),
        };
        self.compare(&sample);
        &self.status
    }

    /// What follows from two samples.
    fn compare(&mut self, sample: &Sample) {
        let Some(before) = self.before.replace(*sample) else { return };
        let seconds = sample.at.since(before.at).as_secs_f64();
        if self.sources.process.is_some() {
            let used = sample.process.zip(before.process).map(|(now, then)| now.ticks.saturating_sub(then.ticks));
            let share = used.map(|ticks| ticks as f64 / self.ticks_per_second / seconds / self.processors);
            self.status.report.cpu_utilization = share.filter(|_| seconds > 0.0);
        } else if let Some(((used, all), (used_before, all_before))) = sample.cpu.zip(before.cpu) {
            // Ticks are hundredths of a second: between two that are the same nothing is said anew.
            let passed = all.saturating_sub(all_before);
            if passed > 0 {
                let used = used.saturating_sub(used_before);
                self.status.report.cpu_utilization = Some((used as f64 / passed as f64).min(1.0));
            }
        }
        for (index, pressure) in self.status.pressure.iter_mut().enumerate() {
            let waited = sample.pressure_us[index].zip(before.pressure_us[index]);
            let share = waited.map(|(now, then)| now.saturating_sub(then) as f64 / 1e6 / seconds);
            *pressure = share.filter(|_| seconds > 0.0).map(|share| share.min(1.0));
        }
    }

    /// How loaded the machine was, by the last sample.
    pub const fn status(&self) -> &Status {
        &self.status
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use machine::Span;
    use proptest::prelude::proptest;

    use super::*;

    fn write(folder: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
            std::fs::write(path, text).expect("it can be written");
        }
    }

    #[test]
    fn what_the_kernel_says_is_understood() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let sources = Sources { proc: folder.path().to_owned(), ..Sources::default() };
        assert!(Sampler::new(&sources, at(0)).is_err(), "there is nothing");
        let psi = |us: u32| format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\nfull avg10=0.00 total=1\n");
        write(
            folder.path(),
            &[
                ("stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nprocs_running 3\n"),
                ("meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    250 kB\n"),
                ("pressure/cpu", &psi(1_000)),
                ("net/sockstat", "sockets: used 9\nTCP: inuse 5 orphan 0 tw 2 alloc 10 mem 3\n"),
                ("net/sockstat6", "TCP6: inuse 2\n"),
            ],
        );
        let mut sampler = Sampler::new(&sources, at(0)).expect("they are there");
        let first = sampler.status();
        assert_eq!((first.report.cpu_utilization, first.report.mem_utilization), (None, Some(0.75)));
        assert_eq!((first.run_queue, first.connections, first.pressure), (Some(1.5), Some(7), [None; 3]));
        write(
            folder.path(),
            &[
                ("stat", "cpu  160 0 120 810 10 0 0 0 0 0\ncpu0 1\ncpu1 1\nprocs_running 1\n"),
                ("pressure/cpu", &psi(26_000)),
            ],
        );
        let second = sampler.sample(at(50));
        assert_eq!((second.report.cpu_utilization, second.pressure), (Some(0.8), [Some(0.5), None, None]));
        // Nothing has passed: what was known is still known.
        let third = sampler.sample(at(60));
        assert_eq!((third.report.cpu_utilization, third.pressure[0]), (Some(0.8), Some(0.0)));
        let text = third.json().to_string();
        assert!(text.contains(r#""named_metrics":{"pressure.cpu":0.0,"run_queue":0.5,"connections":7.0}"#), "{text}");
    }

    #[test]
    fn a_process_is_looked_at_with_its_children() {
        let folder = tempfile::tempdir().expect("a folder");
        let stat = |id: u32, parent: u32, ticks: u32, pages: u32| {
            format!("{id} (a) b) c) S {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 5 1000 {pages} 0\n")
        };
        let page = 4_096.0;
        let sources = Sources { proc: folder.path().to_owned(), process: Some(7), memory_bytes: Some(4_096 * 100) };
        write(
            folder.path(),
            &[("7/stat", &stat(7, 1, 10, 20)), ("8/stat", &stat(8, 7, 5, 5)), ("9/stat", &stat(9, 1, 99, 99))],
        );
        let mut sampler = Sampler::new(&sources, Time::ZERO).expect("it is there");
        let memory = sampler.status().report.mem_utilization.expect("known");
        assert!((memory / (25.0 * processes::page_bytes() as f64 / page / 100.0) - 1.0).abs() < 1e-9, "{memory}");
        write(folder.path(), &[("8/stat", &stat(8, 7, 15, 5))]);
        let cpu = sampler.sample(Time::ZERO + Span::from_secs(1)).report.cpu_utilization.expect("known");
        assert!((cpu * sampler.processors * sampler.ticks_per_second - 10.0).abs() < 1e-6, "{cpu}");
        std::fs::remove_dir_all(folder.path().join("7")).expect("it is there");
        let gone = sampler.sample(Time::ZERO + Span::from_secs(2));
        assert_eq!((gone.report.cpu_utilization, gone.report.mem_utilization), (None, None), "silence is not idleness");
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "(cpu |some |TCP: inuse |MemTotal:|procs_running )?\\PC{0,60}") {
            let _ = (parse::cpu(&text), parse::run_queue(&text), parse::memory(&text));
            let _ = (parse::pressure_us(&text), parse::connections(&text), processes::parse_stat(&text));
        }
    }
}
