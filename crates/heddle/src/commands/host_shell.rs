//! `shell`: an interactive shell in a host, whose prompt says where it is.
//!
//! How a prompt is set is each shell's own affair. Those that read start-up files get the user's own ones first, and the prompt after them. A file that is needed
//! for that lies in the network's runtime folder, and goes with it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use live::Instance;
use miette::{IntoDiagnostic, Report, WrapErr};

use super::explain;
use super::instance::{become_program, connect, running};
use crate::cli::Shell;

/// Of bash: what it reads in place of ~/.bashrc.
const BASH: &str = "\
[ -r ~/.bashrc ] && . ~/.bashrc
unset PROMPT_COMMAND
PS1='${HEDDLE_HOST}@${HEDDLE_NETWORK}:\\w\\$ '
";

/// Of zsh: what stands in the folder that it takes for the user's.
const ZSH: &str = "\
ZDOTDIR=${HEDDLE_ZDOTDIR:-$HOME}
unset HEDDLE_ZDOTDIR
[[ -r $ZDOTDIR/.zshrc ]] && . $ZDOTDIR/.zshrc
precmd_functions=() PROMPT=\"${HEDDLE_HOST}@${HEDDLE_NETWORK}:%~%# \" RPROMPT=
";

/// Of fish: what it carries out when it has read its own files.
const FISH: &str = "\
function fish_prompt; printf '%s@%s:%s$ ' $HEDDLE_HOST $HEDDLE_NETWORK (prompt_pwd); end; \
function fish_right_prompt; end";

/// Of all others, in the environment: parameters are expanded by POSIX.
const PLAIN: &str = "${HEDDLE_HOST}@${HEDDLE_NETWORK}:${PWD}$ ";

/// What sh and bash are tried for where the user's shell is none.
const OTHERS: [&str; 2] = ["/bin/bash", "/bin/sh"];

/// Becomes a shell in a host.
pub fn host_shell(args: &Shell) -> Result<(), Report> {
    let name = running(args.network.name.as_deref(), "`heddle shell --name NETWORK HOST`")?;
    let instance = connect(&name)?;
    // What the user has on this machine, an image or a container has not.
    let has_own_files = instance.has_own_files(&args.host).map_err(explain)?;
    let own = std::env::var_os("SHELL").map(PathBuf::from).filter(|_| !has_own_files);
    let program = shell(own, |path| if has_own_files { path == Path::new(OTHERS[1]) } else { path.is_file() });
    let kind = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let arguments = arguments(kind, &instance)?;
    let mut command = instance.command_of_host(&args.host, &program, &arguments).map_err(explain)?;
    set_environment(&mut command, kind, &instance)?;
    command.env("HEDDLE_HOST", &args.host).env("HEDDLE_NETWORK", &name);
    become_program(&mut command, &args.host)
}

/// The user's shell, unless there is none or it lets nobody in; or else bash, or sh.
fn shell(own: Option<PathBuf>, is_there: impl Fn(&Path) -> bool) -> PathBuf {
    let lets_in = |shell: &Path| {
        let name = shell.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| !["nologin", "false", "true"].contains(&name))
    };
    let others = OTHERS.map(PathBuf::from);
    let fallback = others[1].clone();
    own.filter(|own| lets_in(own)).into_iter().chain(others).find(|shell| is_there(shell)).unwrap_or(fallback)
}

fn arguments(kind: &str, instance: &Instance) -> Result<Vec<String>, Report> {
    Ok(match kind {
        "bash" => vec!["--rcfile".to_owned(), file(instance, "bashrc", BASH)?.to_string_lossy().into_owned()],
        "fish" => vec!["--init-command".to_owned(), FISH.to_owned()],
        _ => Vec::new(),
    })
}

fn set_environment(command: &mut Command, kind: &str, instance: &Instance) -> Result<(), Report> {
    match kind {
        "bash" | "fish" => {}
        "zsh" => {
            let file = file(instance, "zsh/.zshrc", ZSH)?;
            command.envs(std::env::var_os("ZDOTDIR").map(|own| ("HEDDLE_ZDOTDIR", own)));
            command.env("ZDOTDIR", file.parent().unwrap_or(&file));
        }
        _ => {
            command.env("PS1", PLAIN);
        }
    }
    Ok(())
}

/// A start-up file in the network's runtime folder. It is the same for all hosts: whoever reads it meanwhile reads nothing else.
fn file(instance: &Instance, name: &str, text: &str) -> Result<PathBuf, Report> {
    let path = instance.folder().map_err(explain)?.join("shell").join(name);
    let new = path.with_extension(format!("new-{}", std::process::id()));
    path.parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(&new, text))
        .and_then(|()| std::fs::rename(&new, &path))
        .into_diagnostic()
        .wrap_err_with(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_is_the_users_own_or_another_one() {
        let of = |own: Option<&str>, there: &[&str]| {
            let shell = shell(own.map(PathBuf::from), |path| there.iter().any(|it| Path::new(it) == path));
            shell.to_string_lossy().into_owned()
        };
        let all = ["/usr/bin/zsh", "/bin/bash", "/bin/sh", "/usr/sbin/nologin"];
        assert_eq!(of(Some("/usr/bin/zsh"), &all), "/usr/bin/zsh");
        assert_eq!(of(Some("/usr/bin/fish"), &all), "/bin/bash", "it is not there");
        assert_eq!(of(Some("/usr/sbin/nologin"), &all), "/bin/bash");
        assert_eq!(of(None, &["/bin/sh"]), "/bin/sh");
    }
}
