//! What changes roles and users.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::grant::Grant;
use super::user::{Invitation, Token, USER_ROLES_MAX, is_user};
use crate::Refusal;
use crate::address::check_name;

/// One change of roles or users. Done twice it comes to the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessCommand {
    /// Makes a role that may do nothing yet.
    AddRole {
        /// The name of the role.
        role: String,
    },
    /// Takes a role away, from its users too.
    DeleteRole {
        /// The name of the role.
        role: String,
    },
    /// Allows a role something.
    Grant {
        /// The name of the role.
        role: String,
        /// The grant that is meant.
        grant: Grant,
    },
    /// Allows it no more: these operations of exactly this scope.
    Revoke {
        /// The name of the role.
        role: String,
        /// The grant that is meant.
        grant: Grant,
    },
    /// Makes a user.
    AddUser {
        /// Its name: the common name of its certificate, `uid:` and a number, or any for one with a token.
        user: String,
        /// The roles that the user has.
        roles: BTreeSet<String>,
        /// Its token, if it has one.
        token: Option<Token>,
    },
    /// Takes a user away. Its connections may do nothing any more.
    DeleteUser {
        /// The name of the user.
        user: String,
    },
    /// Gives a user a role.
    Assign {
        /// The name of the user.
        user: String,
        /// The name of the role.
        role: String,
    },
    /// Takes a role from a user.
    Unassign {
        /// The name of the user.
        user: String,
        /// The name of the role.
        role: String,
    },
    /// Gives a user a token instead of the one it had, or takes that away.
    SetToken {
        /// The name of the user.
        user: String,
        /// The token, by its digest; none takes the old one away.
        token: Option<Token>,
    },
    /// Lets a server of this name join.
    Invite {
        /// The name of the server.
        server: String,
        /// How it shows who it is.
        invitation: Invitation,
    },
    /// Checks requests from now on.
    Enable,
    /// Takes requests of everybody.
    Disable,
}

impl AccessCommand {
    /// What can be told without the roles and users that there are.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        match self {
            Self::AddRole { role } => check_name(role),
            Self::Grant { grant, .. } | Self::Revoke { grant, .. } => grant.check(),
            Self::AddUser { user, roles, .. } => {
                if !is_user(user) {
                    let shown: String = user.chars().take(64).collect();
                    return Err(Refusal::access(
                        &format!("{shown:?} cannot name a user"),
                        "take 1 to 128 letters, digits, '-', '_', '.' or '@', or uid: and a number",
                    ));
                }
                if roles.len() > USER_ROLES_MAX {
                    return Err(Refusal::too_many("roles of this user", USER_ROLES_MAX, "make one role of several"));
                }
                Ok(())
            }
            Self::Invite { server, .. } => check_name(server),
            // Nobody of such a name is there, and the log takes no entry that is too long for a message.
            Self::DeleteRole { role: name } | Self::DeleteUser { user: name } | Self::SetToken { user: name, .. } => {
                check_length(name)
            }
            Self::Assign { user, role } | Self::Unassign { user, role } => {
                check_length(user)?;
                check_length(role)
            }
            Self::Enable | Self::Disable => Ok(()),
        }
    }
}

/// Longest name of a user or a role, in bytes.
const NAME_BYTES_MAX: usize = 128;

fn check_length(name: &str) -> Result<(), Refusal> {
    if name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    Err(Refusal::access(&format!("{shown:?}... is too long for a name"), "names have 128 bytes at most"))
}
