//! Virtual machines as they are written: the keys of a node of kind `vm`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use topology::VhostUserDevice;

use crate::controllers::Flag;
use crate::error::Problems;
use crate::escape::is_shown;
use crate::host_setup::{Command, plain_text};
use crate::model::{Hypervisor, Vm};
use crate::quantity::{Whole, quantity};
use crate::read::{Fields, Read, section, shown};
use crate::source::{At, Place};
use crate::tree::Node;
use crate::units;
use crate::words::{Words, words};

/// What a guest has when the file does not say.
const MEMORY_BYTES: u64 = 128 << 20;

/// The least and the most memory of a guest.
const MEMORY_MIN: u64 = 32 << 20;
const MEMORY_MAX: u64 = 1 << 40;

section! {
    /// The machine of a node of kind `vm`: it starts with the network and ends with it, and is behind a vhost-user socket for each of its links. Live only: a
    /// simulated one is a host.
    VmText {
        /// What runs the guest: `user-mode-linux`, a Linux kernel as an ordinary process (needs neither KVM nor an image, but root for now), or `qemu`. When not given: `qemu` with an `image` or
        /// `initrd`, else `user-mode-linux`.
        "hypervisor" => hypervisor: Option<At<Hypervisor>>,
        /// The guest's memory. `128MiB` when not given.
        "memory" => memory: Option<At<Memory>>,
        /// The guest's processors, for QEMU. 1 when not given.
        "cpus" => cpus: Option<At<Whole<1, 255>>>,
        /// Whether QEMU runs the guest by KVM, or emulates its processors. By KVM where `/dev/kvm` can be opened, when not given.
        "kvm" => kvm: Option<At<Flag>>,
        /// The guest's kernel: a file. User-Mode Linux is Debian's `linux.uml` when not given; QEMU starts what is in the image.
        "kernel" => kernel: Option<At<FilePath>>,
        /// What a kernel of QEMU's has in memory when it starts: a file.
        "initrd" => initrd: Option<At<FilePath>>,
        /// Of a guest: its disk, a file, which is not written to. A guest of User-Mode Linux without one sees this machine's files, to read only.
        /// Of a host: the image of a container that is its root, a folder or an archive of the OCI's image layout, or what `docker save` writes; `docker://debian:12` is fetched by skopeo.
        "image" => image: Option<At<FilePath>>,
        /// What a guest of User-Mode Linux without an image runs when its network is up: a command line for `sh`, or the program and its arguments as a list. It is turned
        /// off when that ends.
        "run" => run: Option<At<Command>>,
        /// More of the kernel's command line.
        "append" => append: Option<At<Line>>,
    }
}

words!(Hypervisor, "Hypervisor", "a hypervisor", {
    "user-mode-linux" => Hypervisor::UserModeLinux,
    "qemu" => Hypervisor::Qemu,
});

/// Bytes of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory(u64);

impl Read for Memory {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let size =
            quantity(node, units::memory, "memory like `512MiB` or `2GiB`", &["MiB", "GiB", "MB", "GB"], problems)?;
        if (MEMORY_MIN..=MEMORY_MAX).contains(&size) {
            return Some(Self(size));
        }
        let (least, most) = (format!("{}MiB", MEMORY_MIN >> 20), format!("{}GiB", MEMORY_MAX >> 30));
        let message = format!("expected memory from {least} to {most}");
        let hint =
            if size < MEMORY_MIN { format!("write `{least}`, the least") } else { format!("write `{most}`, the most") };
        problems.add(node.place, message, "out of range", hint);
        None
    }
}

/// A line of text that goes into another program's command line.
#[derive(Clone, Debug)]
pub(crate) struct Line(String);

/// A file; relative to the folder of the fabric file.
#[derive(Clone, Debug)]
pub(crate) struct FilePath(String);

/// Bytes of either.
const LONGEST: usize = 4_000;

fn line(node: &Node, what: &str, problems: &mut Problems<'_>) -> Option<String> {
    let text = plain_text(node, problems)?;
    if text.trim().is_empty() || text.len() > LONGEST || !text.chars().all(|c| is_shown(c) && c != '\n') {
        let message = format!("`{}` is not {what}", shown(&text));
        problems.add(node.place, message, "not usable", format!("write it on one line, of {LONGEST} bytes at most"));
        return None;
    }
    Some(text)
}

impl Read for Line {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        line(node, "what a kernel takes", problems).map(Self)
    }
}

impl FilePath {
    /// As it is written.
    pub fn path(&self) -> &str {
        &self.0
    }
}

impl Read for FilePath {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let path = line(node, "a file", problems)?;
        // Both hypervisors take several options in one word, with commas between.
        if path.contains(',') {
            let message = format!("`{}` has a comma in it, which no hypervisor takes", shown(&path));
            problems.add(node.place, message, "not usable", "give the file another name");
            return None;
        }
        Some(Self(path))
    }
}

impl Default for VmText {
    /// Nothing written.
    fn default() -> Self {
        let (hypervisor, memory, cpus, kvm, kernel, initrd, image, run, append) = Default::default();
        Self { hypervisor, memory, cpus, kvm, kernel, initrd, image, run, append }
    }
}

impl VmText {
    /// Where the first of its keys has its value that only machines have; `None`: nothing of this is written.
    pub fn place(&self) -> Option<Place> {
        // A host that is none may have an image, too: of a container.
        let Self { hypervisor, memory, cpus, kvm, kernel, initrd, image: _, run, append } = self;
        let places = [
            hypervisor.as_ref().map(|text| text.place),
            memory.as_ref().map(|text| text.place),
            cpus.as_ref().map(|text| text.place),
            kvm.as_ref().map(|text| text.place),
            kernel.as_ref().map(|text| text.place),
            initrd.as_ref().map(|text| text.place),
            run.as_ref().map(|text| text.place),
            append.as_ref().map(|text| text.place),
        ];
        places.into_iter().flatten().min_by_key(|place| place.offset)
    }

    fn cpus(&self) -> u32 {
        self.cpus.as_ref().map_or(1, |text| text.value.0 as u32)
    }

    /// The device behind which it is, of each of its links.
    pub fn device(&self) -> String {
        VhostUserDevice::unnamed(VhostUserDevice::queues_of(self.cpus()))
    }

    /// The machine, with what the file leaves out. Notes what does not go together.
    pub fn vm(&self, problems: &mut Problems<'_>) -> Vm {
        let file = |text: &Option<At<FilePath>>| text.as_ref().map(|text| text.value.0.clone());
        let has_disk = self.image.is_some() || self.initrd.is_some();
        let hypervisor = self
            .hypervisor
            .as_ref()
            .map_or_else(|| if has_disk { Hypervisor::Qemu } else { Hypervisor::UserModeLinux }, |text| text.value);
        let mut refuse = |place: Option<Place>, key: &str, why: &str, hint: &str| {
            if let Some(place) = place {
                problems.add(place, format!("`{key}` {why}"), "of no use here", hint);
            }
        };
        match hypervisor {
            Hypervisor::UserModeLinux => {
                refuse(
                    self.cpus.as_ref().map(|text| text.place),
                    "cpus",
                    "is QEMU's: User-Mode Linux has one",
                    "remove it",
                );
                refuse(
                    self.kvm.as_ref().map(|text| text.place),
                    "kvm",
                    "is QEMU's: User-Mode Linux is an ordinary process",
                    "remove it",
                );
                refuse(
                    self.initrd.as_ref().map(|text| text.place),
                    "initrd",
                    "is QEMU's",
                    "remove it, or say `hypervisor: qemu`",
                );
                let spaced = self.image.as_ref().filter(|text| text.value.0.contains([' ', ':', '"']));
                refuse(
                    spaced.map(|text| text.place),
                    "image",
                    "has a space, colon or quote in its name, which User-Mode Linux does not take",
                    "give the file another name, or say `hypervisor: qemu`",
                );
                let run = self.run.as_ref().filter(|_| self.image.is_some());
                refuse(run.map(|text| text.place), "run", "is for guests without an image", "start it in the image");
            }
            Hypervisor::Qemu => {
                refuse(
                    self.run.as_ref().map(|text| text.place),
                    "run",
                    "is for guests of User-Mode Linux without an image",
                    "start it in the image",
                );
                let is_bare = self.image.is_none() && self.kernel.is_none();
                let place = self.hypervisor.as_ref().filter(|_| is_bare).map(|text| text.place);
                refuse(
                    place,
                    "qemu",
                    "has neither an image nor a kernel to start",
                    "give it an `image`, or a `kernel` and an `initrd`",
                );
                let append = self.append.as_ref().filter(|_| self.kernel.is_none());
                refuse(append.map(|text| text.place), "append", "is for a `kernel`", "remove it, or name the kernel");
                let initrd = self.initrd.as_ref().filter(|_| self.kernel.is_none());
                refuse(
                    initrd.map(|text| text.place),
                    "initrd",
                    "is for a `kernel`",
                    "name the kernel that it belongs to",
                );
            }
        }
        Vm {
            hypervisor,
            memory_bytes: self.memory.as_ref().map_or(MEMORY_BYTES, |text| text.value.0),
            cpus: self.cpus(),
            kvm: self.kvm.as_ref().map(|text| text.value.0),
            kernel: file(&self.kernel),
            initrd: file(&self.initrd),
            image: file(&self.image),
            run: self.run.as_ref().map(|text| text.value.words()),
            append: self.append.as_ref().map(|text| text.value.0.clone()),
        }
    }
}
