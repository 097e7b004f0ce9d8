//! `controller`: the daemon of the cluster, and its certificates.

use std::io::Write;
use std::path::{Path, PathBuf};

use machine::ServerId;
use miette::{Report, miette};
use node::{AuditOptions, ControllerOptions, Ready, certificates, run};
use placement::Strategy;
use serde_json::json;

use super::cluster::explain;
use crate::cli::users::Audited;
use crate::cli::{Controller, ControllerCommand, Format, Reads, Shards};
use crate::output::{Rows, print_json, put, put_best_effort};

/// How much clocks may differ in speed where reads are by lease; the help says so.
const LEASE_DRIFT_PER_MILLE: u64 = 50;

/// Runs a controller until somebody ends it, or makes certificates.
pub fn controller(args: &Controller, format: Format) -> Result<(), Report> {
    if let Some(ControllerCommand::Certificates { out, hosts, users }) = &args.command {
        return make_certificates(out, hosts, users, format);
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
        pre_vote: !args.no_pre_vote,
        rebuild: args.rebuild.iter().copied().map(placement::ShardId).collect(),
        strategy: match args.shards {
            Shards::Single => Strategy::Single,
            Shards::Distributed => Strategy::Distributed,
        },
        balance_leaders: !args.keep_leaders,
        reads: match args.reads {
            Reads::Lease => store::Reads::Lease { drift_per_mille: LEASE_DRIFT_PER_MILLE },
            Reads::Index => store::Reads::Index,
        },
        token: if args.join.is_empty() { None } else { super::cluster::token(args.token_file.as_deref())? },
        audit: args.audit_log.clone().map(|file| AuditOptions {
            file,
            reads: args.audit == Audited::Reads,
            is_required: args.audit_required,
            file_bytes: args.audit_size << 20,
            keep: args.audit_keep,
        }),
        tls: args.tls.files(),
        memory_bytes: args.memory,
        quota_bytes: args.quota.0,
        hasten: live::hasten,
    };
    run(&options, |ready| {
        if args.until_stdin_closes {
            node::end_with_stdin();
        }
        announce(&options, ready, format);
    })
    .map_err(explain)
}

fn announce(options: &ControllerOptions, ready: &Ready, format: Format) {
    let Ready { listen, advertise, http, cluster, server, restarted } = ready;
    let cluster = format!("{cluster:016x}");
    let text = match format {
        Format::Json => format!(
            "{:#}\n",
            json!({
                "node": options.node,
                "server": server.0,
                "cluster": cluster,
                "listen": listen.to_string(),
                "advertise": advertise,
                "http": http.map(|address| address.to_string()),
                "restarted": restarted,
                "data": options.data,
            })
        ),
        Format::Table | Format::Csv => format!(
            "{} is server {server} of cluster {cluster} and listens at {listen}; its data is in {}\n",
            options.node,
            options.data.display()
        ),
    };
    // Whoever started it may not listen any more; the cluster does.
    put_best_effort(&text);
    if !restarted && options.join.is_empty() && format == Format::Table {
        let _ = writeln!(
            std::io::stderr(),
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

fn make_certificates(out: &Path, hosts: &[String], users: &[String], format: Format) -> Result<(), Report> {
    let made = certificates::make_with_users(out, hosts, users).map_err(explain)?;
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
