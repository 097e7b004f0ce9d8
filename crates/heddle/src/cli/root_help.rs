//! What `heddle --help` says below the commands and options.

/// Its lines have 80 columns at most, so that none is broken.
pub const ROOT_HELP: &str = "\
EXIT STATUS
  0    it worked, and every expectation of the file held
  1    an expectation was missed; of `compare`: live and simulated lie further
       apart than the tolerances; of `ping` and `path`: packets did not arrive;
       of `load`: requests failed; of `cluster`: nothing was there, a condition
       did not hold, or there are alarms
  2    an error; nothing was started or changed unless the message says so
  130  `run`, `compare` and `load` were interrupted (SIGINT, SIGTERM, SIGHUP);
       what was measured is kept

FILES
  NAME.fabric.yaml    the network and its experiments; `heddle schema` prints
                      its JSON Schema
  machine.json        what hosts cost this machine, as `heddle calibrate` has
                      measured it
  results/NAME/       report.html, summary.json, samples.jsonl, machine.json
                      and the file (fabric.yaml) of the last run;
                      journal.jsonl while it goes on, or if it did not end
  results/NAME-TIME/  the same of earlier runs

ENVIRONMENT
  HEDDLE_LOG        what to log to standard error, as in `HEDDLE_LOG=debug`
  HEDDLE_ENDPOINTS  controllers that `cluster` talks to: `c1:6640,c2:6640`
  HEDDLE_NETWORK    the running network that is meant, in place of --name
  HEDDLE_WORKERS    how many threads forward in a network that `up` starts
  XDG_STATE_HOME    where controllers keep their data (heddle/NAME below it)
  XDG_RUNTIME_DIR   where running fabrics keep their sockets (heddle/ below it)
  NO_COLOR          no colours

EXAMPLES
  heddle new lab --topology leaf-spine   write lab.fabric.yaml
  heddle run lab.fabric.yaml             all experiments, live and simulated
  heddle up lab.fabric.yaml              start the network and leave it running
  heddle up --topo tree,3                without a file: switches and 8 hosts
  heddle list                            which networks run
  heddle ping --all                      does every host reach every other one?
  heddle exec h1 ping -c 3 h2            run a program in one of its hosts
  heddle shell h1                        or a shell
  heddle logs -f                         what programs of hosts say
  heddle path h1 h2                      which links packets take
  heddle show counters                   what its links carried
  heddle capture h1                      look at what h1 sends and gets
  heddle capture h1 | wireshark -k -i -  the same in Wireshark
  heddle link down h1 s1                 pull a cable; `link up` plugs it in
  heddle link set h1 s1 delay=20ms       make a link slower, lossy, ...
  heddle down                            stop it";

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _};

    use crate::cli::Cli;

    const COLUMNS: usize = 80;

    /// What is wrong with the help of a command and of those below it.
    fn wrong(command: &Command, found: &mut Vec<String>) {
        let name = command.get_bin_name().unwrap_or_default().to_owned();
        // Hidden ones are for this program itself.
        if command.is_hide_set() {
            return;
        }
        let mut shown = command.clone();
        let (short, long) = (shown.render_help().to_string(), shown.render_long_help().to_string());
        for line in short.lines().chain(long.lines()).filter(|line| line.chars().count() > COLUMNS) {
            found.push(format!("{name}: too wide: {line}"));
        }
        let after = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
        for line in after.iter().flat_map(|text| text.lines()) {
            if !long.lines().any(|other| other.trim_end() == line.trim_end()) {
                found.push(format!("{name}: broken: {line}"));
            }
        }
        command.get_subcommands().for_each(|below| wrong(below, found));
    }

    #[test]
    fn help_fits_a_terminal_and_examples_stand_whole_on_their_lines() {
        let mut root = Cli::command().term_width(COLUMNS);
        root.build();
        let mut found = Vec::new();
        wrong(&root, &mut found);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}
