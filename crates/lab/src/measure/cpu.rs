//! How busy the machine is, by `/proc/stat`.

use std::fs;

/// What the kernel has counted since the machine was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuReading {
    /// Ticks of all CPUs in which they worked.
    busy: u64,
    /// All of their ticks.
    all: u64,
    cpus: u32,
}

impl CpuReading {
    /// Looks now; nothing is known where there is no such file.
    pub fn now() -> Self {
        Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// The line `cpu`: user, nice, system, idle, iowait, irq, softirq, steal; what follows is in the first two (proc(5)). What a hypervisor
    /// has taken was not ours to use.
    fn parse(text: &str) -> Self {
        let of_cpus = text.lines().filter_map(|line| line.strip_prefix("cpu"));
        let mut reading = Self::default();
        for line in of_cpus {
            if !line.starts_with(' ') {
                reading.cpus += 1;
                continue;
            }
            let ticks: Vec<u64> = line.split_whitespace().take(8).map(|tick| tick.parse().unwrap_or(0)).collect();
            let idle: u64 = ticks.iter().skip(3).take(2).sum();
            reading.all = ticks.iter().sum();
            reading.busy = reading.all - idle - ticks.get(7).unwrap_or(&0);
        }
        reading
    }

    /// How many cores were busy since, on the mean; `None` if no tick has passed.
    pub fn busy_cores_since(self, before: Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|ticks| *ticks > 0)?;
        Some(self.busy.saturating_sub(before.busy) as f64 / all as f64 * f64::from(self.cpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_all_but_idle_waiting_and_stolen() {
        let before = CpuReading::parse("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 17 cpu\n");
        assert_eq!(before, CpuReading { busy: 200, all: 1_000, cpus: 2 });
        let after = CpuReading::parse("cpu  150 10 120 860 20 5 15 20 50 0\ncpu0 1\ncpu1 1\n");
        assert_eq!(after, CpuReading { busy: 300, all: 1_200, cpus: 2 });
        assert_eq!((after.busy_cores_since(before), before.busy_cores_since(after)), (Some(1.0), None));
        assert_eq!(CpuReading::parse("").busy_cores_since(CpuReading::default()), None);
    }
}
