//! Devices that are sockets of vhost-user: a guest or a program attaches to the network there.

use std::fmt;

/// A device behind a vhost-user socket. Its name is `vhost-user:`, where the network makes a socket in its runtime folder, `vhost-user:SOCKET`, where it makes that
/// one, or `vhost-user:SOCKET,client`, where it connects to that one. `,queues=N` behind it has as many pairs of queues. No network device of Linux has a colon in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VhostUserDevice<'a> {
    /// The socket, if the file names it.
    pub socket: Option<&'a str>,
    /// Whether the other side makes the socket.
    pub is_client: bool,
    /// Pairs of queues that a guest may use: 1 to [`VhostUserDevice::QUEUES_MAX`].
    pub queues: u8,
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
    /// So many pairs of queues cannot be.
    Queues(&'a str),
}

impl<'a> VhostUserDevice<'a> {
    /// What the names of these devices begin with.
    pub const PREFIX: &'static str = "vhost-user:";

    /// The most pairs of queues.
    pub const QUEUES_MAX: u8 = 8;

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

    /// Pairs of queues for a guest with so many processors: each can send and receive by itself.
    pub fn queues_of(cpus: u32) -> u8 {
        cpus.clamp(1, Self::QUEUES_MAX.into()) as u8
    }

    /// The name of a device whose socket the network makes in its runtime folder, with so many pairs of queues.
    pub fn unnamed(queues: u8) -> String {
        if queues == 1 { Self::PREFIX.to_owned() } else { format!("{},queues={queues}", Self::PREFIX) }
    }

    fn options(text: &'a str) -> Result<Self, NotVhostUser<'a>> {
        let mut options = text.split(',');
        let socket = options.next().filter(|socket| !socket.is_empty());
        if let Some(socket) = socket.filter(|socket| socket.contains('\0') || socket.ends_with('/')) {
            return Err(NotVhostUser::Socket(socket));
        }
        let (mut is_client, mut queues) = (false, None);
        for option in options {
            match option.split_once('=') {
                None if option == "client" && !is_client => is_client = true,
                Some(("queues", number)) if queues.is_none() => queues = Some(Self::queues(number)?),
                _ => return Err(NotVhostUser::Unknown(option)),
            }
        }
        if is_client && socket.is_none() {
            return Err(NotVhostUser::NoSocket);
        }
        Ok(Self { socket, is_client, queues: queues.unwrap_or(1) })
    }

    fn queues(number: &str) -> Result<u8, NotVhostUser<'_>> {
        let is_plain = number.bytes().all(|digit| digit.is_ascii_digit());
        let queues = number.parse().ok().filter(|queues| is_plain && (1..=Self::QUEUES_MAX).contains(queues));
        queues.ok_or(NotVhostUser::Queues(number))
    }
}

impl fmt::Display for NotVhostUser<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(option) => write!(f, "`{option}` is no option, or is there twice"),
            Self::NoSocket => f.write_str("it connects to no socket"),
            Self::Socket(socket) => write!(f, "`{socket}` is no name of a socket"),
            Self::Queues(number) => {
                write!(f, "`{number}` is no number of queues from 1 to {}", VhostUserDevice::QUEUES_MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_made_or_connected_to() {
        let of = |name| VhostUserDevice::of(name).map(|device| (device.socket, device.is_client, device.queues));
        assert_eq!(of("vhost-user:"), Some((None, false, 1)));
        assert_eq!(of("vhost-user:/tmp/a b.sock"), Some((Some("/tmp/a b.sock"), false, 1)));
        assert_eq!(of("vhost-user:vm.sock,client"), Some((Some("vm.sock"), true, 1)));
        assert_eq!(of("vhost-user:,queues=2"), Some((None, false, 2)));
        assert_eq!(of("vhost-user:vm.sock,queues=8,client"), Some((Some("vm.sock"), true, 8)));
        assert_eq!(VhostUserDevice::parse("vhost-user"), None);
    }

    #[test]
    fn nonsense_is_named() {
        let why = |name| VhostUserDevice::parse(name).unwrap().unwrap_err();
        assert_eq!(why("vhost-user:,client"), NotVhostUser::NoSocket);
        assert_eq!(why("vhost-user:a,server"), NotVhostUser::Unknown("server"));
        assert_eq!(why("vhost-user:a,client,client"), NotVhostUser::Unknown("client"));
        assert_eq!(why("vhost-user:a/"), NotVhostUser::Socket("a/"));
        assert_eq!(why("vhost-user:a,queues=2,queues=2"), NotVhostUser::Unknown("queues=2"));
        assert_eq!(why("vhost-user:a,queue=2"), NotVhostUser::Unknown("queue=2"));
        for number in ["0", "9", "+2", "", "two", "256"] {
            let name = format!("vhost-user:a,queues={number}");
            assert_eq!(VhostUserDevice::parse(&name), Some(Err(NotVhostUser::Queues(number))));
        }
    }
}
