//! `controller`: the daemon of the cluster, and its certificates.

use std::path::{Path, PathBuf};

use live::cluster::{ControllerOptions, Ready, certificates, run};
use machine::ServerId;
use miette::{Report, miette};
use placement::Strategy;
use serde_json::json;

use super::cluster::explain;
use crate::cli::{Controller, ControllerCommand, Format, Shards};
use crate::output::{Rows, print_json, put};

/// Runs a controller until it is told to end, or makes certificates.
pub fn controller(args: &Controller, format: Format) -> Result<(), Report> {
    if let Some(ControllerCommand::Certificates { out, hosts }) = &args.command {
        return make_certificates(out, hosts, format);
    }
    let options = ControllerOptions {
        node: args.node.clone(),
        data: match &args.data {
            Some(data) => data.clone(),
            None => state_folder()?.join("heddle").join(&args.node),
        },
        listen: args.listen.clone(),
        advertise: args.advertise.clone(),
        join: args.join.clone(),
        replaces: args.replace.map(ServerId),
        http: args.http.clone(),
        election: args.election_timeout,
        strategy: match args.shards {
            Shards::Single => Strategy::Single,
            Shards::Distributed => Strategy::Distributed,
        },
        balance_leaders: !args.keep_leaders,
        tls: args.tls.files(),
    };
    run(&options, |ready| {
        if args.until_stdin_closes {
            live::cluster::end_with_stdin();
        }
        announce(&options, ready, format);
    })
    .map_err(explain)
}

fn announce(options: &ControllerOptions, ready: &Ready, format: Format) {
    let Ready { listen, advertise, http, cluster, server, restarted } = ready;
    let cluster = format!("{cluster:016x}");
    let told = match format {
        Format::Json => print_json(&json!({
            "node": options.node,
            "server": server.0,
            "cluster": cluster,
            "listen": listen.to_string(),
            "advertise": advertise,
            "http": http.map(|address| address.to_string()),
            "restarted": restarted,
            "data": options.data,
        })),
        Format::Table | Format::Csv => put(&format!(
            "{} is server {server} of cluster {cluster} and listens at {listen}; its data is in {}\n",
            options.node,
            options.data.display()
        )),
    };
    if let Err(error) = told {
        // Whoever started it does not listen; the cluster does.
        eprintln!("{error:?}");
    }
    if !restarted && options.join.is_empty() && format == Format::Table {
        eprintln!(
            "Next: heddle cluster status --endpoints {advertise}, or add a node: heddle controller --node c2 --listen HOST:PORT --join {advertise}"
        );
    }
}

/// Where this user's programs keep what they need again (XDG Base Directory Specification).
fn state_folder() -> Result<PathBuf, Report> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state"))).ok_or_else(|| {
        miette!(help = "give it one with --data DIR", "there is no place for the controller's data: HOME is not set")
    })
}

fn make_certificates(out: &Path, hosts: &[String], format: Format) -> Result<(), Report> {
    let made = certificates::make(out, hosts).map_err(explain)?;
    match format {
        Format::Json => print_json(&made),
        Format::Table => {
            let mut lines: Vec<String> = made.iter().map(|path| path.display().to_string()).collect();
            lines.push(String::new());
            put(&lines.join("\n"))
        }
        Format::Csv => {
            let mut rows = Rows::new(&["file"]);
            for path in &made {
                rows.push([json!(path)]);
            }
            put(&rows.render(format))
        }
    }
}
