//! Access control: roles, users, and how users identify themselves.
//!
//! Part of the map, so that every server has it and all change alike. It holds hashes of tokens, never tokens; it does
//! not travel in a status of the cluster, since [`Map`](crate::Map) leaves it out of what it serializes and writes it
//! behind in [`Map::encode`](crate::Map::encode) only.
//!
//! Always: every role that a user has exists; while access control is on, somebody has the role [`ROOT`]; who holds which token is known.

mod command;
mod grant;
mod holders;
mod user;

use std::collections::{BTreeMap, BTreeSet};

use machine::ServerId;
use serde::{Deserialize, Serialize};

pub use command::AccessCommand;
pub use grant::{Grant, Need, Operation, Scope};
pub use user::{Invitation, Token, TokenHash, USER_LEN_MAX, USER_ROLES_MAX, User};

use crate::Refusal;
use crate::prefix::is_identifier;
use holders::{Holder, Holders};
use user::is_user;

/// The role that may do everything. It is always there, and cannot be changed.
pub const ROOT: &str = "root";
/// Most roles besides [`ROOT`].
pub const ROLES_MAX: usize = 256;
/// How many users there may be.
pub const USERS_MAX: usize = 4_096;
/// Most grants of all roles together: each may hold a path of a kilobyte, and the map travels in one piece.
pub const GRANTS_MAX: usize = 4_096;
/// Most servers that are invited and have not joined.
pub const INVITATIONS_MAX: usize = 64;
/// How a client shows who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Credentials {
    /// The common name of its certificate, which the authority has signed.
    pub certificate: Option<String>,
    /// SHA-256 of the token that it has sent.
    pub token: Option<TokenHash>,
    /// The user by the kernel of this machine, if the connection stays within it.
    pub uid: Option<u32>,
}

/// The party that credentials are good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity<'a> {
    /// The credentials are good for nobody that is known.
    Nobody,
    /// A user who has logged in, by name.
    User(&'a str),
    /// A server that was invited and may join.
    Invited {
        /// The name that it was invited under.
        name: &'a str,
        /// The server whose place it takes, if any.
        replaces: Option<ServerId>,
    },
}

/// Roles, users, and whether they count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Rises with every change: what was found out by an older one has to be found out anew.
    revision: u64,
    enabled: bool,
    roles: BTreeMap<String, BTreeMap<Scope, BTreeSet<Operation>>>,
    users: BTreeMap<String, User>,
    /// Servers that may join, by name.
    invitations: BTreeMap<String, Invitation>,
    /// The last change, and the revision that it was meant for.
    last: Option<(u64, AccessCommand)>,
    /// Follows from users and invitations.
    #[serde(skip)]
    holders: Holders,
}

impl Access {
    /// Whether nothing of it was ever used.
    pub fn is_unused(&self) -> bool {
        self.revision == 0
    }

    /// Whether requests are checked.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Rises with every change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// What each role may do, without [`ROOT`].
    pub fn roles(&self) -> &BTreeMap<String, BTreeMap<Scope, BTreeSet<Operation>>> {
        &self.roles
    }

    /// All users, by name.
    pub fn users(&self) -> &BTreeMap<String, User> {
        &self.users
    }

    /// For whom credentials are good at this time (seconds since 1970, if that is known). A token that is not good spoils the
    /// rest: who sends one wants to be taken for its user, and for nobody else.
    pub fn identify(&self, credentials: &Credentials, now_s: Option<u64>) -> Identity<'_> {
        if let Some(hash) = &credentials.token {
            return self.owner(hash, now_s);
        }
        let by_uid = credentials.uid.map(|uid| format!("uid:{uid}"));
        let names = [credentials.certificate.as_deref().filter(|name| !name.starts_with("uid:")), by_uid.as_deref()];
        let known = names.into_iter().flatten().find_map(|name| self.users.get_key_value(name));
        known.map_or(Identity::Nobody, |(name, _)| Identity::User(name))
    }

    /// When the token is worth nothing any more by which these credentials are good, in seconds since 1970; none if it never expires, or nobody
    /// is known by it.
    pub fn expires_s(&self, credentials: &Credentials) -> Option<u64> {
        self.holder(credentials.token.as_ref()?)?.1.expires_s
    }

    fn owner(&self, hash: &TokenHash, now_s: Option<u64>) -> Identity<'_> {
        let good = self.holder(hash).filter(|(_, token)| token.is_good(now_s));
        good.map_or(Identity::Nobody, |(identity, _)| identity)
    }

    /// The user that this token belongs to, expired or not.
    fn holder(&self, hash: &TokenHash) -> Option<(Identity<'_>, Token)> {
        let (identity, token) = match self.holders.get(hash)? {
            Holder::User(name) => {
                let (name, user) = self.users.get_key_value(&**name)?;
                (Identity::User(name), user.token?)
            }
            Holder::Invited(name) => {
                let (name, invitation) = self.invitations.get_key_value(&**name)?;
                (Identity::Invited { name, replaces: invitation.replaces }, invitation.token)
            }
        };
        (token.hash == *hash).then_some((identity, token))
    }

    /// Notes whose the tokens are, after users or invitations have changed or were read.
    pub(crate) fn note_holders(&mut self) {
        self.holders = Holders::of(&self.users, &self.invitations);
    }

    /// Whether the user has the role [`ROOT`].
    pub fn is_root(&self, user: &str) -> bool {
        self.users.get(user).is_some_and(|user| user.roles.contains(ROOT))
    }

    /// Whether one of the user's roles allows it.
    pub fn allows(&self, user: &str, need: &Need<'_>) -> bool {
        let Some(user) = self.users.get(user) else { return false };
        user.roles.iter().any(|role| role == ROOT || self.role_allows(role, need))
    }

    fn role_allows(&self, role: &str, need: &Need<'_>) -> bool {
        let Some(grants) = self.roles.get(role) else { return false };
        grants.iter().any(|(scope, operations)| operations.contains(&need.operation()) && scope.covers(need))
    }

    /// Carries a command out; whether it changed anything.
    pub(crate) fn apply(&mut self, revision: Option<u64>, command: AccessCommand) -> Result<bool, Refusal> {
        let Some(revision) = revision else {
            let changed = self.carry_out(command)?;
            if changed {
                self.last = None;
            }
            return Ok(changed);
        };
        if self.last.as_ref().is_some_and(|(of, last)| *of == revision && *last == command) {
            // The same again: its answer was lost.
            return Ok(false);
        }
        if revision != self.revision {
            return Err(Refusal::access(
                "roles and users were changed by somebody else at the same time, so this was not done",
                "look at them (`heddle cluster role list`, `user list`), and do it again",
            ));
        }
        let changed = self.carry_out(command.clone())?;
        if changed {
            self.last = Some((revision, command));
        }
        Ok(changed)
    }

    fn carry_out(&mut self, command: AccessCommand) -> Result<bool, Refusal> {
        // All that can be refused is, before anything is changed.
        let changed = match command {
            AccessCommand::AddRole { role } => self.add_role(role)?,
            AccessCommand::DeleteRole { role } => self.delete_role(&role)?,
            AccessCommand::Grant { role, grant } => self.grant(&role, grant)?,
            AccessCommand::Revoke { role, grant } => self.revoke(&role, &grant)?,
            AccessCommand::AddUser { user, roles, token } => self.add_user(user, roles, token)?,
            AccessCommand::DeleteUser { user } => {
                self.keep_root(&user, "it")?;
                self.users.remove(&user).is_some()
            }
            AccessCommand::Assign { user, role } => self.assign(&user, role)?,
            AccessCommand::Unassign { user, role } => self.unassign(&user, &role)?,
            AccessCommand::SetToken { user, token } => {
                self.check_new(token.as_ref(), Some(&user))?;
                let known = self.user(&user)?;
                core::mem::replace(&mut known.token, token) != token
            }
            AccessCommand::Invite { server, invitation } => self.invite(server, invitation)?,
            AccessCommand::Enable => self.enable()?,
            AccessCommand::Disable => core::mem::replace(&mut self.enabled, false),
        };
        if changed {
            self.revision += 1;
            self.note_holders();
        }
        Ok(changed)
    }

    /// A server of this name is no member any more: the token by which it joined is worth nothing.
    pub(crate) fn withdraw_invitation(&mut self, server: &str) {
        if self.invitations.remove(server).is_some() {
            self.revision += 1;
            self.note_holders();
        }
    }

    fn add_role(&mut self, role: String) -> Result<bool, Refusal> {
        if role == ROOT || self.roles.contains_key(&role) {
            return Ok(false);
        }
        if self.roles.len() >= ROLES_MAX {
            return Err(Refusal::too_many("roles", ROLES_MAX, "delete one that nobody needs"));
        }
        self.roles.insert(role, BTreeMap::new());
        Ok(true)
    }

    fn delete_role(&mut self, role: &str) -> Result<bool, Refusal> {
        if role == ROOT {
            return Err(Refusal::access(
                "the role root is always there",
                "take it from the users that should not have it",
            ));
        }
        for user in self.users.values_mut() {
            user.roles.remove(role);
        }
        Ok(self.roles.remove(role).is_some())
    }

    fn role(&mut self, role: &str) -> Result<&mut BTreeMap<Scope, BTreeSet<Operation>>, Refusal> {
        if role == ROOT {
            return Err(Refusal::access("the role root may do everything, always", "change another role"));
        }
        self.roles.get_mut(role).ok_or_else(|| no_role(role))
    }

    fn grant(&mut self, role: &str, grant: Grant) -> Result<bool, Refusal> {
        let grants: usize = self.roles.values().map(BTreeMap::len).sum();
        let scopes = self.role(role)?;
        if grants >= GRANTS_MAX && !scopes.contains_key(&grant.scope) {
            return Err(Refusal::too_many("grants", GRANTS_MAX, "grant a prefix instead of paths one by one"));
        }
        let operations = scopes.entry(grant.scope).or_default();
        let before = operations.len();
        operations.extend(grant.operations);
        Ok(operations.len() != before)
    }

    fn revoke(&mut self, role: &str, grant: &Grant) -> Result<bool, Refusal> {
        let scopes = self.role(role)?;
        let Some(operations) = scopes.get_mut(&grant.scope) else { return Ok(false) };
        let before = operations.len();
        operations.retain(|operation| !grant.operations.contains(operation));
        let changed = operations.len() != before;
        if operations.is_empty() {
            scopes.remove(&grant.scope);
        }
        Ok(changed)
    }

    fn add_user(&mut self, user: String, roles: BTreeSet<String>, token: Option<Token>) -> Result<bool, Refusal> {
        self.check_roles(&roles)?;
        let wanted = User { roles, token };
        match self.users.get(&user) {
            // The same command again.
            Some(known) if *known == wanted => return Ok(false),
            Some(_) => {
                return Err(Refusal::access(
                    &format!("there is a user {user} already"),
                    "`heddle cluster user list` shows it; `user grant` gives it another role",
                ));
            }
            None => {}
        }
        self.check_new(token.as_ref(), None)?;
        if self.users.len() >= USERS_MAX {
            return Err(Refusal::too_many("users", USERS_MAX, "delete one that is not needed any more"));
        }
        self.users.insert(user, wanted);
        Ok(true)
    }

    fn check_roles(&self, roles: &BTreeSet<String>) -> Result<(), Refusal> {
        if roles.len() > USER_ROLES_MAX {
            return Err(Refusal::too_many("roles of this user", USER_ROLES_MAX, "make one role of several"));
        }
        match roles.iter().find(|role| *role != ROOT && !self.roles.contains_key(*role)) {
            Some(role) => Err(no_role(role)),
            None => Ok(()),
        }
    }

    /// No two may have the same token.
    fn check_new(&self, token: Option<&Token>, except: Option<&str>) -> Result<(), Refusal> {
        let Some(token) = token else { return Ok(()) };
        let of_others = self.users.iter().filter(|(name, _)| Some(name.as_str()) != except);
        let mut taken =
            of_others.filter_map(|(_, user)| user.token).chain(self.invitations.values().map(|it| it.token));
        if taken.any(|other| other.hash == token.hash) {
            return Err(Refusal::access("this token is in use", "tokens are random: draw another"));
        }
        Ok(())
    }

    fn user(&mut self, user: &str) -> Result<&mut User, Refusal> {
        self.users.get_mut(user).ok_or_else(|| {
            Refusal::access(&format!("there is no user {user}"), "`heddle cluster user list` lists them")
        })
    }

    fn assign(&mut self, user: &str, role: String) -> Result<bool, Refusal> {
        if role != ROOT && !self.roles.contains_key(&role) {
            return Err(no_role(&role));
        }
        let known = self.user(user)?;
        if known.roles.len() >= USER_ROLES_MAX && !known.roles.contains(&role) {
            return Err(Refusal::too_many("roles of this user", USER_ROLES_MAX, "make one role of several"));
        }
        Ok(known.roles.insert(role))
    }

    fn unassign(&mut self, user: &str, role: &str) -> Result<bool, Refusal> {
        self.user(user)?;
        if role == ROOT {
            self.keep_root(user, "the role root")?;
        }
        Ok(self.user(user)?.roles.remove(role))
    }

    fn invite(&mut self, server: String, invitation: Invitation) -> Result<bool, Refusal> {
        if self.invitations.get(&server) == Some(&invitation) {
            return Ok(false);
        }
        self.check_new(Some(&invitation.token), None)?;
        if self.invitations.len() >= INVITATIONS_MAX && !self.invitations.contains_key(&server) {
            // Whoever was invited can be invited again.
            self.invitations.pop_first();
        }
        self.invitations.insert(server, invitation);
        Ok(true)
    }

    fn enable(&mut self) -> Result<bool, Refusal> {
        if !self.users.keys().any(|user| self.is_root(user)) {
            return Err(Refusal::access(
                "nobody has the role root, so that nobody could switch this off again",
                "`heddle cluster user add NAME --role root --token` makes such a user",
            ));
        }
        Ok(!core::mem::replace(&mut self.enabled, true))
    }

    /// Refuses to take the role root from the last who has it.
    fn keep_root(&self, from: &str, what: &str) -> Result<(), Refusal> {
        let others = self.users.keys().any(|user| user != from && self.is_root(user));
        if !self.enabled || others || !self.is_root(from) {
            return Ok(());
        }
        Err(Refusal::access(
            &format!("{from} is the last user with the role root, and users are checked: {what} cannot be taken away"),
            "give another user the role root first, or `heddle cluster auth disable`",
        ))
    }

    /// What commands cannot have made, if anything is so.
    pub(crate) fn inconsistency(&self) -> Option<String> {
        let too_many = self.roles.len() > ROLES_MAX
            || self.users.len() > USERS_MAX
            || self.invitations.len() > INVITATIONS_MAX
            || self.roles.values().map(BTreeMap::len).sum::<usize>() > GRANTS_MAX;
        if too_many || self.revision > u64::MAX >> 2 {
            return Some("too many roles, users or grants".to_owned());
        }
        let bad_name = self.roles.keys().find(|role| *role == ROOT || !is_identifier(role));
        let bad_name = bad_name.or_else(|| self.invitations.keys().find(|name| !is_identifier(name)));
        if let Some(name) = bad_name.or_else(|| self.users.keys().find(|user| !is_user(user))) {
            return Some(format!("{name:?} is no name of a role, a user or a server"));
        }
        let is_bad = |(scope, operations): (&Scope, &BTreeSet<Operation>)| {
            Grant { scope: scope.clone(), operations: operations.clone() }.check().is_err()
        };
        if self.roles.values().flatten().any(is_bad) {
            return Some("a grant that no command makes".to_owned());
        }
        if self.users.values().any(|user| self.check_roles(&user.roles).is_err()) {
            return Some("a user has a role that is not there".to_owned());
        }
        (self.enabled && !self.users.keys().any(|user| self.is_root(user))).then(|| "nobody is root".to_owned())
    }
}

fn no_role(role: &str) -> Refusal {
    Refusal::access(&format!("there is no role {role}"), "`heddle cluster role list` lists them, `role add` makes one")
}
