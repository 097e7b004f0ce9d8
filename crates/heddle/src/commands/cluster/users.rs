//! `cluster auth`, `user`, `role`, `whoami`: who may do what.

use std::collections::BTreeSet;
use std::time::Duration;

use miette::{Report, miette};
use node::{LoginToken, wall_seconds};
use placement::access::{Grant, Operation, ROOT, Scope, Token};
use placement::{AccessCommand, Command};
use serde_json::json;
use store::protocol::{AccessView, Admin, Answer, RequestBody};
use tree::{Datastore, Path};

use super::access::Access;
use super::print_outcome;
use crate::cli::Format;
use crate::cli::actions::Datastore as NamedDatastore;
use crate::cli::users::{AuthAction, GrantArgs, RoleAction, UserAction};
use crate::output::{Rows, put};

fn view(access: &Access) -> Result<AccessView, Report> {
    match access.ask(RequestBody::Admin(Admin::Access))? {
        Answer::Access(view) => Ok(*view),
        other => unreachable!("roles and users are not answered by {other:?}"),
    }
}

/// Changes roles or users as they are now: a repetition that comes late does nothing.
fn change(access: &Access, command: AccessCommand) -> Result<(), Report> {
    let revision = Some(view(access)?.revision);
    access.place(Command::Access { revision, command }).map(drop)
}

/// Shows the identity that the cluster knows this client by.
pub fn whoami(access: &Access, format: Format) -> Result<(), Report> {
    let Answer::Identity { user, roles, is_enabled } = access.ask(RequestBody::WhoAmI)? else {
        unreachable!("who one is was asked")
    };
    if is_enabled && user.is_none() && access.has_token() {
        return Err(miette!(
            help = "an administrator gives a new one with `heddle cluster user token NAME`",
            "the token is not valid (any more): it stands for nobody"
        ));
    }
    let checked = if is_enabled { "" } else { "; users are not checked" };
    let sentence = match &user {
        Some(user) if roles.is_empty() => format!("{user}, without a role{checked}"),
        Some(user) => format!("{user}, with the roles {}{checked}", roles.join(", ")),
        None => format!("nobody{checked}"),
    };
    print_outcome(format, &sentence, [("user", json!(user)), ("roles", json!(roles)), ("enabled", json!(is_enabled))])
}

/// Switches the checks on and off.
pub fn auth(access: &Access, action: &AuthAction, format: Format) -> Result<(), Report> {
    match action {
        AuthAction::Status => {
            let Answer::Identity { is_enabled, .. } = access.ask(RequestBody::WhoAmI)? else {
                unreachable!("who one is was asked")
            };
            let sentence = if is_enabled { "users are checked" } else { "users are not checked" };
            print_outcome(format, sentence, [("enabled", json!(is_enabled))])
        }
        AuthAction::Enable => {
            change(access, AccessCommand::Enable)?;
            let behind = servers_behind(access)?;
            if !behind.is_empty() {
                eprintln!(
                    "Not confirmed by {}: until it has heard of this, it may take requests of everybody",
                    behind.join(", ")
                );
            }
            print_outcome(format, "users are checked", [("enabled", json!(true)), ("unconfirmed", json!(behind))])
        }
        AuthAction::Disable => {
            change(access, AccessCommand::Disable)?;
            print_outcome(format, "users are not checked any more", [("enabled", json!(false))])
        }
    }
}

/// Servers that have not said, within the time there is, that they know as much as the one that was asked.
fn servers_behind(access: &Access) -> Result<Vec<String>, Report> {
    let status = access.status()?;
    let mut behind: Vec<_> = status.map.members().values().cloned().collect();
    access.wait(|| {
        behind.retain(|member| {
            let known = access.status_at(&member.address, member.id, status.cluster);
            known.is_none_or(|known| known.map.version() < status.map.version())
        });
        Ok(behind.is_empty().then_some(()))
    })?;
    Ok(behind.into_iter().map(|member| member.name).collect())
}

/// A new token, and what the cluster keeps of it.
pub fn draw(expires: Option<Duration>) -> (LoginToken, Token) {
    let token = LoginToken::draw();
    let expires_s = expires.map(|span| wall_seconds() + span.as_secs());
    let kept = Token { hash: token.hash(), expires_s };
    (token, kept)
}

/// Prints a token: it alone on standard output, so that it can go to a file.
fn print_token(user: &str, token: &LoginToken, format: Format) -> Result<(), Report> {
    if format == Format::Table {
        eprintln!("The token of {user}, which is shown this once: keep it in a file of mode 0600, for --token-file");
    }
    print_outcome(format, &token.reveal(), [("user", json!(user)), ("token", json!(token.reveal()))])
}

/// Makes and changes users.
pub fn user(access: &Access, action: &UserAction, format: Format) -> Result<(), Report> {
    match action {
        UserAction::Add { name, roles, token, expires } => {
            let drawn = token.then(|| draw(*expires));
            let roles: BTreeSet<String> = roles.iter().cloned().collect();
            let kept = drawn.as_ref().map(|(_, kept)| *kept);
            change(access, AccessCommand::AddUser { user: name.clone(), roles, token: kept })?;
            match drawn {
                Some((token, _)) => print_token(name, &token, format),
                None => print_outcome(format, &format!("{name} is a user"), [("user", json!(name))]),
            }
        }
        UserAction::Delete { name } => {
            known_user(access, name)?;
            change(access, AccessCommand::DeleteUser { user: name.clone() })?;
            print_outcome(format, &format!("{name} is no user any more"), [("user", json!(name))])
        }
        UserAction::List => list_users(access, format),
        UserAction::Grant { name, role } => {
            change(access, AccessCommand::Assign { user: name.clone(), role: role.clone() })?;
            print_outcome(
                format,
                &format!("{name} has the role {role}"),
                [("user", json!(name)), ("role", json!(role))],
            )
        }
        UserAction::Revoke { name, role } => {
            change(access, AccessCommand::Unassign { user: name.clone(), role: role.clone() })?;
            print_outcome(
                format,
                &format!("{name} no longer has the role {role}"),
                [("user", json!(name)), ("role", json!(role))],
            )
        }
        UserAction::Token { name, remove: true, .. } => {
            change(access, AccessCommand::SetToken { user: name.clone(), token: None })?;
            print_outcome(format, &format!("{name} no longer has a token"), [("user", json!(name))])
        }
        UserAction::Token { name, expires, .. } => {
            let (token, kept) = draw(*expires);
            change(access, AccessCommand::SetToken { user: name.clone(), token: Some(kept) })?;
            print_token(name, &token, format)
        }
    }
}

fn known_user(access: &Access, name: &str) -> Result<(), Report> {
    if view(access)?.users.contains_key(name) {
        return Ok(());
    }
    Err(miette!(help = "`heddle cluster user list` lists them", "there is no user {name}"))
}

fn list_users(access: &Access, format: Format) -> Result<(), Report> {
    let view = view(access)?;
    let mut rows = Rows::new(&["user", "roles", "token"]);
    for (name, (roles, token)) in view.users {
        let roles: Vec<String> = roles.into_iter().collect();
        let token = match token {
            None => "none".to_owned(),
            Some(None) => "does not expire".to_owned(),
            Some(Some(expires)) => match expires.checked_sub(wall_seconds()) {
                None | Some(0) => "has expired".to_owned(),
                Some(left) => format!("expires in {}", rounded(left)),
            },
        };
        rows.push([json!(name), json!(roles.join(", ")), json!(token)]);
    }
    put(&rows.render(format))
}

/// A time in its largest unit.
fn rounded(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Makes and changes roles.
pub fn role(access: &Access, action: &RoleAction, format: Format) -> Result<(), Report> {
    match action {
        RoleAction::Add { name } => {
            if name == ROOT {
                return Err(miette!("the role {ROOT} is always there, and may do everything"));
            }
            change(access, AccessCommand::AddRole { role: name.clone() })?;
            print_outcome(format, &format!("{name} is a role"), [("role", json!(name))])
        }
        RoleAction::Delete { name } => {
            if !view(access)?.roles.contains_key(name) && name != ROOT {
                return Err(miette!(help = "`heddle cluster role list` lists them", "there is no role {name}"));
            }
            change(access, AccessCommand::DeleteRole { role: name.clone() })?;
            print_outcome(format, &format!("{name} is no role any more"), [("role", json!(name))])
        }
        RoleAction::List => list_roles(access, format),
        RoleAction::Grant(args) => {
            let grant = grant(args)?;
            let sentence = format!("{} may {} on {}", args.role, named(&grant.operations), grant.scope);
            change(access, AccessCommand::Grant { role: args.role.clone(), grant })?;
            print_outcome(format, &sentence, [("role", json!(args.role)), ("granted", json!(true))])
        }
        RoleAction::Revoke(args) => {
            let grant = grant(args)?;
            let known = view(access)?.roles.get(&args.role).is_some_and(|grants| grants.contains_key(&grant.scope));
            if !known {
                return Err(miette!(
                    help = "a grant is taken back as it was given: `heddle cluster role list` shows them",
                    "the role {} has no grant of {}",
                    args.role,
                    grant.scope
                ));
            }
            let sentence = format!("{} may no longer {} on {}", args.role, named(&grant.operations), grant.scope);
            change(access, AccessCommand::Revoke { role: args.role.clone(), grant })?;
            print_outcome(format, &sentence, [("role", json!(args.role)), ("granted", json!(false))])
        }
    }
}

fn named(operations: &BTreeSet<Operation>) -> String {
    operations.iter().map(|operation| operation.name()).collect::<Vec<_>>().join(", ")
}

fn list_roles(access: &Access, format: Format) -> Result<(), Report> {
    let mut rows = Rows::new(&["role", "operations", "on"]);
    rows.push([json!(ROOT), json!("all"), json!("everything")]);
    for (role, grants) in view(access)?.roles {
        if grants.is_empty() {
            rows.push([json!(role), json!("none"), json!("")]);
        }
        for (scope, operations) in grants {
            rows.push([json!(role), json!(named(&operations)), json!(scope.to_string())]);
        }
    }
    put(&rows.render(format))
}

/// What the arguments of a grant mean together.
fn grant(args: &GrantArgs) -> Result<Grant, Report> {
    let operations = args.operations.0.clone();
    let of_data = operations.iter().filter(|operation| operation.is_of_data()).count();
    let of_rpcs = operations.iter().filter(|operation| operation.is_of_rpcs()).count();
    let scope = match (&args.scope, of_data == operations.len(), of_rpcs == operations.len()) {
        (Some(path), true, _) => {
            let path = Path::parse(path).map_err(|error| miette!("{path}: {error}"))?;
            let datastore = args.datastore.map(|datastore| match datastore {
                NamedDatastore::Config => Datastore::Config,
                NamedDatastore::Operational => Datastore::Operational,
            });
            Scope::Data { datastore, path }
        }
        (Some(name), _, true) => {
            let name = if name == "*" { String::new() } else { name.clone() };
            Scope::Rpc { name, path: args.path.clone() }
        }
        (None, ..) if of_data + of_rpcs == 0 => Scope::Cluster,
        _ => {
            return Err(miette!(
                help = "grants of different kinds are given one after another, as in `role grant R read,write /car:cars`, `role grant R \
                        call people:`, `role grant R status,backup`",
                "read, write, delete and watch need a path; call and offer the name of an RPC; all others stand alone"
            ));
        }
    };
    let is_misplaced = match &scope {
        Scope::Data { .. } => args.path.is_some(),
        Scope::Rpc { .. } => args.datastore.is_some(),
        Scope::Cluster => args.path.is_some() || args.datastore.is_some(),
    };
    if is_misplaced {
        return Err(miette!("--datastore is for data, --path for RPCs"));
    }
    Ok(Grant { scope, operations })
}
