//! Devices that are sockets of vhost-user: a guest or a program attaches to the network there.

use std::fmt;

/// A device behind a vhost-user socket. Its name is `vhost-user:`, where the network makes a socket in its runtime folder, `vhost-user:SOCKET`, where it makes that
/// one, or `vhost-user:SOCKET,client`, where it connects to that one. No network device of Linux has a colon in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VhostUserDevice<'a> {
    /// The socket, if the file names it.
    pub socket: Option<&'a str>,
    /// Whether the other side makes the socket.
    pub is_client: bool,
}

/// Why a name that begins with `vhost-user:` is no such device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotVhostUser<'a> {
    /// No option has this name.
    Unknown(&'a str),
    /// It connects to a socket that it does not name.
    NoSocket,
    /// The name of the socket is no name of a file.
    Socket(&'a str),
}

impl<'a> VhostUserDevice<'a> {
    /// What the names of these devices begin with.
    pub const PREFIX: &'static str = "vhost-user:";

    /// The device with this name; `None` if it does not begin as theirs do.
    ///
    /// # Errors
    /// [`NotVhostUser`] if it begins so and goes on in another way.
    pub fn parse(name: &'a str) -> Option<Result<Self, NotVhostUser<'a>>> {
        name.strip_prefix(Self::PREFIX).map(Self::options)
    }

    /// The device with this name, if it is such a one.
    pub fn of(name: &'a str) -> Option<Self> {
        Self::parse(name)?.ok()
    }

    fn options(text: &'a str) -> Result<Self, NotVhostUser<'a>> {
        let mut options = text.split(',');
        let socket = options.next().filter(|socket| !socket.is_empty());
        if let Some(socket) = socket.filter(|socket| socket.contains('\0') || socket.ends_with('/')) {
            return Err(NotVhostUser::Socket(socket));
        }
        let mut is_client = false;
        for option in options {
            match option {
                "client" if !is_client => is_client = true,
                _ => return Err(NotVhostUser::Unknown(option)),
            }
        }
        if is_client && socket.is_none() {
            return Err(NotVhostUser::NoSocket);
        }
        Ok(Self { socket, is_client })
    }
}

impl fmt::Display for NotVhostUser<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(option) => write!(f, "`{option}` is no option, or is there twice"),
            Self::NoSocket => f.write_str("it connects to no socket"),
            Self::Socket(socket) => write!(f, "`{socket}` is no name of a socket"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_made_or_connected_to() {
        let of = |name| VhostUserDevice::of(name).map(|device| (device.socket, device.is_client));
        assert_eq!(of("vhost-user:"), Some((None, false)));
        assert_eq!(of("vhost-user:/tmp/a b.sock"), Some((Some("/tmp/a b.sock"), false)));
        assert_eq!(of("vhost-user:vm.sock,client"), Some((Some("vm.sock"), true)));
        assert_eq!(VhostUserDevice::parse("vhost-user"), None);
    }

    #[test]
    fn nonsense_is_named() {
        let why = |name| VhostUserDevice::parse(name).unwrap().unwrap_err();
        assert_eq!(why("vhost-user:,client"), NotVhostUser::NoSocket);
        assert_eq!(why("vhost-user:a,server"), NotVhostUser::Unknown("server"));
        assert_eq!(why("vhost-user:a,client,client"), NotVhostUser::Unknown("client"));
        assert_eq!(why("vhost-user:a/"), NotVhostUser::Socket("a/"));
    }
}
