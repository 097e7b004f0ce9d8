//! Hosts that are virtual machines: how their hypervisors are started, which attach to the sockets of their devices.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fabric::{Fabric, HostFile, Hypervisor, Program, Restart, Vm};
use topology::HostAddress;

/// The first process of a guest without an image.
const INIT: &str = include_str!("vm/init.sh");

/// What its hypervisor is called among programs.
const PROGRAM: &str = "vm";

/// Debian's name of User-Mode Linux.
pub const USER_MODE_LINUX: &str = "linux.uml";

/// What Debian has it in.
pub const USER_MODE_LINUX_PACKAGE: &str = "user-mode-linux";

/// QEMU for the processors that this program is compiled for.
pub const QEMU: &str = if cfg!(target_arch = "aarch64") { "qemu-system-aarch64" } else { "qemu-system-x86_64" };

/// What Debian has it in.
pub const QEMU_PACKAGE: &str = "qemu-system";

/// The beginning of an image of QEMU's own format.
const QCOW: &[u8; 4] = b"QFI\xfb";

/// A guest, and what it attaches to.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a> {
    /// The host's name.
    pub name: &'a str,
    /// The machine.
    pub vm: &'a Vm,
    /// What the network knows the host by.
    pub address: &'a HostAddress,
    /// Of a function, which has no address: the program that passes frames on from device to device, called as `PROGRAM forward eth0 eth1`.
    pub forwarder: Option<&'a str>,
    /// Bytes of a packet.
    pub mtu: u32,
    /// The socket of each of its links.
    pub sockets: &'a [PathBuf],
    /// Its own folder, which is made for it.
    pub own: &'a Path,
    /// The folder of the fabric file.
    pub folder: &'a Path,
    /// What it is to see as `/etc/hosts`.
    pub hosts_file: &'a str,
}

impl Guest<'_> {
    /// The hypervisor as a program that is watched and started again. Writes down what the guest is to find.
    ///
    /// # Errors
    /// If its folder cannot be written to.
    pub fn prepare(&self) -> io::Result<(Program, Vec<HostFile>)> {
        let files = self.files();
        fs::create_dir_all(self.own)?;
        for file in &files {
            let path = self.own.join(&file.path);
            fs::write(&path, &file.text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        let run = match self.vm.hypervisor {
            Hypervisor::UserModeLinux => self.user_mode_linux(),
            Hypervisor::Qemu => self.qemu(self.vm.kvm.unwrap_or_else(can_have_kvm)),
        };
        Ok((Program { name: PROGRAM.to_owned(), run, restart: Restart::OnFailure }, files))
    }

    /// Where its guest says with which status its command has ended.
    pub fn status_file(&self) -> PathBuf {
        self.own.join("status")
    }

    /// The files in its folder, by their names there.
    fn files(&self) -> Vec<HostFile> {
        let has_image = self.vm.image.is_some() || self.vm.hypervisor != Hypervisor::UserModeLinux;
        if has_image {
            return Vec::new();
        }
        let file = |path: &str, text: String| HostFile { path: path.to_owned(), text };
        vec![file("init", INIT.to_owned()), file("network", self.network()), file("run", self.run())]
    }

    /// A script that makes the guest's network what the file says. Several links are a bond of the guest's own.
    fn network(&self) -> String {
        let HostAddress { mac, ipv4, ipv4_prefix, ipv6, ipv6_prefix, .. } = self.address;
        let mut script = format!("hostname {}\n", quoted(self.name));
        let _ = writeln!(script, "mount --bind {} /etc/hosts", quoted(self.hosts_file));
        for device in 0..self.sockets.len() {
            let _ =
                writeln!(script, "until ip link set eth{device} mtu {} up 2>/dev/null; do sleep 0.05; done", self.mtu);
        }
        if self.sockets.len() == 1 && self.forwarder.is_none() {
            let mac = mac_text(*mac);
            let _ = writeln!(script, "ip link set eth0 address {mac}");
            let _ = writeln!(script, "ip addr add {ipv4}/{ipv4_prefix} dev eth0");
            let _ =
                writeln!(script, "[ ! -e /proc/sys/net/ipv6 ] || ip -6 addr add {ipv6}/{ipv6_prefix} dev eth0 nodad");
        }
        script
    }

    /// A script that does what the guest is for.
    fn run(&self) -> String {
        let Some(run) = &self.vm.run else {
            return match self.forwarder {
                Some(program) => format!("exec {} forward eth0 eth1\n", quoted(program)),
                None => "exec sleep infinity\n".to_owned(),
            };
        };
        let words: Vec<String> = run.iter().map(|word| quoted(word)).collect();
        format!("cd {} 2>/dev/null || cd /\n{}\n", quoted(&self.folder.to_string_lossy()), words.join(" "))
    }

    /// A file that the fabric file names.
    fn file(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().into_owned()
    }

    /// What a guest with an image can find out from `/proc/cmdline`.
    fn about_guest(&self) -> String {
        let HostAddress { mac, ipv4, ipv4_prefix, ipv6, ipv6_prefix, .. } = self.address;
        if self.forwarder.is_some() {
            return format!("heddle.name={} heddle.mtu={}", self.name, self.mtu);
        }
        format!(
            "heddle.name={} heddle.mac={} heddle.ipv4={ipv4}/{ipv4_prefix} heddle.ipv6={ipv6}/{ipv6_prefix} heddle.mtu={}",
            self.name,
            mac_text(*mac),
            self.mtu
        )
    }

    fn user_mode_linux(&self) -> Vec<String> {
        let own = self.own.to_string_lossy();
        let kernel = self.vm.kernel.as_deref().map_or_else(|| USER_MODE_LINUX.to_owned(), |kernel| self.file(kernel));
        // Its memory is a file, which may be shared only on tmpfs.
        // What another start of it has changed is not there any more.
        let changes = format!("{own}/changes");
        let mut line =
            started(USER_MODE_LINUX_PACKAGE, &format!("rm -f {}; TMPDIR=/dev/shm ", quoted(&changes)), kernel);
        line.push(format!("mem={}K", self.vm.memory_bytes >> 10));
        line.extend([format!("uml_dir={own}"), "umid=guest".to_owned()]);
        if let Some(image) = &self.vm.image {
            line.extend([format!("ubd0={changes},{}", self.file(image)), "root=/dev/ubda".to_owned()]);
            line.push("rw".to_owned());
        } else {
            line.extend(["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"].map(str::to_owned));
            line.extend([format!("init={own}/init"), format!("HEDDLE_GUEST={own}")]);
        }
        line.extend(["con=null", "con0=null,fd:1", "quiet", "loglevel=1"].map(str::to_owned));
        for (at, socket) in self.sockets.iter().enumerate() {
            // A network card (virtio 1.2, section 5), and its number.
            line.push(format!("virtio_uml.device={}:1:{}", socket.display(), at + 1));
        }
        line.extend(self.about_guest().split(' ').map(str::to_owned));
        line.extend(self.vm.append.iter().flat_map(|append| append.split_whitespace()).map(str::to_owned));
        line
    }

    fn qemu(&self, by_kvm: bool) -> Vec<String> {
        let Vm { memory_bytes, cpus, .. } = self.vm;
        let mut line = started(QEMU_PACKAGE, "", QEMU.to_owned());
        line.extend(["-name", self.name, "-nodefaults", "-display", "none", "-serial", "stdio"].map(str::to_owned));
        let mut add = |option: &str, value: String| line.extend([option.to_owned(), value]);
        // The other side maps it: it has to be shared.
        add("-object", format!("memory-backend-memfd,id=memory,size={memory_bytes},share=on"));
        let machine = if cfg!(target_arch = "aarch64") { "virt" } else { "q35" };
        let accelerator = if by_kvm { "kvm" } else { "tcg" };
        add("-machine", format!("{machine},accel={accelerator},memory-backend=memory"));
        // All that the processor has, or can be emulated.
        add("-cpu", "max".to_owned());
        add("-m", format!("{}M", memory_bytes >> 20));
        add("-smp", cpus.to_string());
        for (at, socket) in self.sockets.iter().enumerate() {
            let mut mac = self.address.mac;
            // Cards of one machine differ; a bond gives them one address.
            mac[5] = mac[5].wrapping_add(at as u8);
            // Commas stand twice in values of options.
            let path = socket.to_string_lossy().replace(',', ",,");
            add("-chardev", format!("socket,id=socket{at},path={path},reconnect=1"));
            let queues = self.vm.queues();
            let (pairs, several) = match queues {
                1 => (String::new(), ""),
                queues => (format!(",queues={queues}"), ",mq=on"),
            };
            // An interrupt for each queue, one for changes of the card and one for its commands; where it emulates, QEMU 7.2 ends by SIGSEGV as the guest sets the first one, so
            // that all have one line.
            let vectors = if by_kvm { 2 * queues + 2 } else { 0 };
            add("-netdev", format!("vhost-user,id=net{at},chardev=socket{at}{pairs}"));
            add("-device", format!("virtio-net-pci,netdev=net{at},mac={}{several},vectors={vectors}", mac_text(mac)));
        }
        if let Some(image) = &self.vm.image {
            let path = self.file(image);
            let format = if is_qcow(Path::new(&path)) { "qcow2" } else { "raw" };
            let path = path.replace(',', ",,");
            // What the guest writes is kept until it ends.
            add("-drive", format!("file={path},format={format},if=virtio,snapshot=on"));
        }
        if let Some(kernel) = &self.vm.kernel {
            add("-kernel", self.file(kernel));
            let console = if cfg!(target_arch = "aarch64") { "ttyAMA0" } else { "ttyS0" };
            let append = self.vm.append.as_deref().unwrap_or_default();
            add("-append", format!("console={console} {} {append}", self.about_guest()).trim_end().to_owned());
        }
        if let Some(initrd) = &self.vm.initrd {
            add("-initrd", self.file(initrd));
        }
        line
    }
}

/// A path that cannot stand on the command line of a guest's kernel, which has words between spaces and values between commas and colons: that of its own folder, with which
/// those of its sockets begin, or that of its image.
pub fn unusable_path(vm: &Vm, own: &Path, folder: &Path) -> Option<String> {
    if vm.hypervisor != Hypervisor::UserModeLinux {
        return None;
    }
    let image = vm.image.as_ref().map(|image| folder.join(image));
    let paths = [Some(own.to_owned()), image].into_iter().flatten();
    let mut paths = paths.map(|path| path.to_string_lossy().into_owned());
    paths.find(|path| path.contains(|c: char| c.is_whitespace() || ",:\"".contains(c)))
}

/// The beginning of a command line that starts a program, which comes with a package of Debian, or says that there is none.
fn started(package: &str, environment: &str, program: String) -> Vec<String> {
    let look = format!("echo \"there is no $0: install it, as with apt-get install {package}\" >&2; exit 127");
    let script = format!("command -v \"$0\" >/dev/null || {{ {look}; }}; {environment}exec \"$0\" \"$@\"");
    vec!["sh".to_owned(), "-c".to_owned(), script, program]
}

/// Whether a host has no IPv6: Debian's kernel for User-Mode Linux is built without it.
pub fn lacks_ipv6(fabric: &Fabric, host: &str) -> bool {
    let vm = fabric.setups.get(host).and_then(|setup| setup.vm.as_ref());
    vm.is_some_and(|vm| vm.hypervisor == Hypervisor::UserModeLinux && vm.kernel.is_none())
}

/// Whether this process may use KVM.
fn can_have_kvm() -> bool {
    fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok()
}

/// Whether an image is of QEMU's own format; another one is taken as it is.
fn is_qcow(path: &Path) -> bool {
    let mut beginning = [0; 4];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut beginning)).is_ok() && beginning == *QCOW
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// A word of a shell's.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const VM: Vm = Vm {
        hypervisor: Hypervisor::Qemu,
        memory_bytes: 512 << 20,
        cpus: 2,
        kvm: None,
        kernel: None,
        initrd: None,
        image: None,
        run: None,
        append: None,
    };

    fn with_guest<T>(vm: &Vm, sockets: &[&str], look: impl FnOnce(Guest<'_>) -> T) -> T {
        let address = HostAddress {
            mac: [2, 0, 0, 0, 0, 0x11],
            ipv4: Ipv4Addr::new(10, 0, 0, 2),
            ipv4_prefix: 8,
            ipv6: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
            ipv6_prefix: 64,
            pod: None,
        };
        let sockets: Vec<PathBuf> = sockets.iter().map(PathBuf::from).collect();
        let folder = tempfile::tempdir().expect("a folder");
        look(Guest {
            name: "vm1",
            vm,
            address: &address,
            forwarder: None,
            mtu: 1500,
            sockets: &sockets,
            own: &folder.path().join("vm1"),
            folder: Path::new("/lab"),
            hosts_file: "/run/hosts",
        })
    }

    #[test]
    fn qemu_shares_its_memory_and_connects_to_each_socket() {
        let vm = Vm { image: Some("disk,1.raw".to_owned()), ..VM };
        let line = with_guest(&vm, &["/run/a,b.sock", "/run/c.sock"], |guest| guest.qemu(false));
        insta::assert_snapshot!(line.join("\n"));
    }

    #[test]
    fn a_kernel_of_qemu_hears_who_it_is() {
        let (kernel, initrd) = (Some("vmlinuz".to_owned()), Some("/boot/initrd".to_owned()));
        let vm = Vm { kernel, initrd, append: Some("panic=1".to_owned()), ..VM };
        let line = with_guest(&vm, &["/run/a.sock"], |guest| guest.qemu(true));
        insta::assert_snapshot!(line.join("\n"));
    }

    #[test]
    fn an_image_of_user_mode_linux_is_not_written_to() {
        let (hypervisor, image) = (Hypervisor::UserModeLinux, Some("disk.ext4".to_owned()));
        let vm = Vm { hypervisor, image, append: Some("single  debug".to_owned()), ..VM };
        let line = with_guest(&vm, &["/run/a.sock"], |guest| {
            assert!(guest.files().is_empty());
            guest.user_mode_linux().join("\n").replace(&*guest.own.to_string_lossy(), "OWN")
        });
        insta::assert_snapshot!(line);
    }

    #[test]
    fn what_a_kernels_command_line_cannot_say_is_found() {
        let found = |hypervisor, image: Option<&str>, own: &str| {
            let vm = Vm { hypervisor, image: image.map(str::to_owned), ..VM };
            unusable_path(&vm, Path::new(own), Path::new("/lab"))
        };
        let uml = Hypervisor::UserModeLinux;
        assert_eq!(found(uml, Some("a"), "/run/guests/v1"), None);
        for (image, own, path) in [
            (None, "/run/my dir/v1", "/run/my dir/v1"),
            (None, "/run/a,b/v1", "/run/a,b/v1"),
            (Some("a disk"), "/run/v1", "/lab/a disk"),
        ] {
            assert_eq!(found(uml, image, own).as_deref(), Some(path));
            assert_eq!(found(Hypervisor::Qemu, image, own), None);
        }
    }

    #[test]
    fn a_function_has_no_address_and_passes_frames_on() {
        let vm = Vm { hypervisor: Hypervisor::UserModeLinux, ..VM };
        let text = with_guest(&vm, &["/run/f1.sock", "/run/f1.out.sock"], |guest| {
            let function = Guest { forwarder: Some("/opt/my heddle"), ..guest };
            let line = function.user_mode_linux().join("\n").replace(&*guest.own.to_string_lossy(), "OWN");
            format!("{line}\n---\n{}---\n{}", function.network(), function.run())
        });
        insta::assert_snapshot!(text);
    }

    #[test]
    fn what_a_guest_finds_is_quoted_for_its_shell() {
        let hypervisor = Hypervisor::UserModeLinux;
        let vm = Vm { hypervisor, run: Some(["sh", "-c", "echo 'a b' $HOME"].map(str::to_owned).into()), ..VM };
        let (program, files) = with_guest(&vm, &["/run/a.sock"], |guest| guest.prepare().expect("it can be written"));
        assert!(program.run.contains(&"virtio_uml.device=/run/a.sock:1:1".to_owned()), "{:?}", program.run);
        let text = |name: &str| files.iter().find(|file| file.path == name).expect("a file").text.clone();
        insta::assert_snapshot!(format!("{}---\n{}", text("network"), text("run")));
    }
}
