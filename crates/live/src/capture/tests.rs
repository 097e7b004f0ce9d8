//! Captures as bytes, and files that are none.

use super::*;
use crate::tap::VNET_HEADER;

/// A frame and when it was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Nanoseconds since 1970.
    pub ns: u64,
    pub bytes: Vec<u8>,
}

/// A capture that was never on a disk.
impl Storage for Vec<u8> {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.truncate(at as usize);
        self.extend(bytes);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.truncate(len as usize);
        Ok(())
    }
}

/// A pcap file with nanoseconds, in this machine's byte order.
pub fn pcap(frames: &[Frame]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_3c4d]);
    file.extend([2_u16, 4].iter().flat_map(|half| half.to_ne_bytes()));
    file.extend(words(&[0, 0, 65_535, 1]));
    for Frame { ns, bytes } in frames {
        let len = bytes.len() as u32;
        file.extend(words(&[(ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32, len, len]));
        file.extend(bytes);
    }
    file
}

/// All packets of a capture.
pub fn frames(file: &[u8]) -> Result<Vec<Frame>, CaptureError> {
    let mut reader = Reader::new(file)?;
    let mut frames = Vec::new();
    let mut buffer = vec![0; PACKET_MAX as usize];
    while let Some(ns) = reader.peek()? {
        let len = reader.read(&mut buffer)?.expect("it was seen");
        frames.push(Frame { ns, bytes: buffer[..len].to_vec() });
    }
    assert_eq!(reader.packets(), frames.len() as u64);
    Ok(frames)
}

/// Checks a network with two hosts behind these captures, in this folder; what the user sees.
fn checked(folder: &Path, a: &str, b: &str) -> Result<(), String> {
    let text = format!(
        "nodes:\n  a: {{ kind: host, devices: ['{a}'] }}\n  b: {{ kind: host, devices: ['{b}'] }}\n  s: switch\n\
         links:\n  - between: [a, s]\n  - between: [b, s]\n"
    );
    let source = fabric::Source { name: "captures".to_owned(), text };
    let fabric = fabric::parse(&source).unwrap_or_else(|error| panic!("{:?}", error.problems()));
    check_captures(&fabric, folder).map_err(|error| {
        assert!(error.hint().is_some());
        error.to_string()
    })
}

#[test]
fn what_can_not_be_played_or_written_is_refused_with_its_host_and_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let answer = |a: &str, b: &str| {
        checked(folder.path(), a, b).map_err(|message| message.replace(&*folder.path().to_string_lossy(), "FOLDER"))
    };
    fs::write(path("good.pcap"), pcap(&[Frame { ns: 0, bytes: vec![0; 60] }])).unwrap();
    fs::write(path("text.pcap"), "name: x").unwrap();
    nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink("good.pcap", path("link.pcap")).unwrap();
    assert_eq!(answer("pcap:good.pcap", "pcap:rx=good.pcap,tx=out.pcap"), Ok(()));
    assert!(!path("out.pcap").exists(), "a check changes nothing");
    let expected = |what: &str| Err(what.to_owned());
    let none = "No such file or directory (os error 2)";
    assert_eq!(
        answer("pcap:good.pcap", "pcap:no.pcap"),
        expected(&format!("host `b`, FOLDER/no.pcap: it can't be read: {none}"))
    );
    assert_eq!(
        answer("pcap:text.pcap", "null:"),
        expected(
            "host `a`, FOLDER/text.pcap: it begins with the bytes 6e 61 6d 65, expected those of a capture (pcap or pcapng)"
        )
    );
    assert_eq!(answer("pcap:fifo", "null:"), expected("host `a`, FOLDER/fifo: it is no file on a disk"));
    assert_eq!(answer("pcap:tx=fifo", "null:"), expected("host `a`, FOLDER/fifo: it is no file on a disk"));
    assert_eq!(
        answer("null:", "pcap:tx=no/out.pcap"),
        expected(&format!("host `b`, FOLDER/no/out.pcap: it can't be written: {none}"))
    );
    let in_use = "it is written by one device, and played or written by another one";
    assert_eq!(
        answer("pcap:good.pcap", "pcap:tx=link.pcap"),
        expected(&format!("host `b`, FOLDER/link.pcap: {in_use}"))
    );
}

#[test]
fn a_recording_empties_its_file_when_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcap");
    let yesterday = [Frame { ns: 0, bytes: vec![0; 60] }, Frame { ns: 1, bytes: vec![1; 60] }];
    fs::write(&path, pcap(&yesterday)).unwrap();
    let mut recorder = Recorder::new(open_to_record(&path).unwrap());
    assert!(fs::metadata(&path).unwrap().len() > 24);
    recorder.begin();
    assert_eq!(frames(&fs::read(&path).unwrap()).unwrap(), []);
    let frame = [vec![0; VNET_HEADER], vec![7; 60]].concat();
    recorder.record(5, &frame).unwrap();
    recorder.flush();
    assert_eq!(frames(&fs::read(&path).unwrap()).unwrap(), [Frame { ns: 5, bytes: vec![7; 60] }]);
}

#[test]
fn two_devices_never_write_one_file_also_one_that_is_not_there_yet() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let both = |a: &str, b: &str| checked(folder.path(), &format!("pcap:tx={a}"), &format!("pcap:tx={b}"));
    let absolute = folder.path().join("out.pcap");
    for other in ["./out.pcap", "sub/../out.pcap", absolute.to_str().unwrap()] {
        let message = both("out.pcap", other).unwrap_err();
        assert!(message.contains("it is written by one device, and played or written by another one"), "{message}");
    }
    assert_eq!(both("out.pcap", "sub/out.pcap"), Ok(()));
    assert_eq!(both("out.pcap", "out2.pcap"), Ok(()));
}

#[test]
fn what_is_no_capture_is_not_overwritten_and_links_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let writes = |name: &str| {
        let checked = checked(folder.path(), &format!("pcap:tx={name}"), "null:");
        // What is refused when it is checked is refused when it is opened as well: another one may stand there by then.
        let opened = open_to_record(&path(name)).map(drop);
        assert_eq!(checked.is_ok(), opened.is_ok(), "{name}: {checked:?}, {opened:?}");
        checked.map_err(|message| message.rsplit_once(": ").unwrap().1.to_owned())
    };
    fs::write(path("net.fabric.yaml"), "name: x").unwrap();
    fs::write(path("short"), "\n\r\r\n").unwrap();
    fs::write(path("text"), "\n\r\r\n and more than twelve bytes").unwrap();
    for precious in ["net.fabric.yaml", "short", "text"] {
        let bytes = fs::read(path(precious)).unwrap();
        assert_eq!(writes(precious), Err("it would be overwritten, and is no capture".to_owned()), "{precious}");
        assert_eq!(fs::read(path(precious)).unwrap(), bytes);
    }
    for target in ["net.fabric.yaml", "not-there-yet"] {
        let link = path(&format!("to-{target}"));
        std::os::unix::fs::symlink(path(target), &link).unwrap();
        let name = format!("to-{target}");
        assert_eq!(writes(&name), Err("it is a symbolic link, and would be overwritten".to_owned()), "{name}");
    }
    assert!(!path("not-there-yet").exists());
    fs::write(path("empty"), "").unwrap();
    fs::write(path("old.pcap"), pcap(&[])).unwrap();
    fs::write(path("old.pcapng"), [0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0]).unwrap();
    for overwritten in ["empty", "old.pcap", "old.pcapng", "new"] {
        assert_eq!(writes(overwritten), Ok(()), "{overwritten}");
    }
    assert!(writes(".").unwrap_err().contains("no file on a disk"));
}

/// They say that they are regular files, and act when they are read or written.
#[test]
fn files_of_the_kernel_are_neither_played_nor_written() {
    for file in ["/proc/self/comm", "/proc/self/status", "/sys/kernel/uevent_seqnum"] {
        let Ok(metadata) = fs::metadata(file) else { continue };
        assert!(metadata.is_file(), "{file}");
        let error = open_to_play(Path::new(file)).unwrap_err();
        assert!(matches!(error, CaptureError::NotAFile), "{file}: {error}");
    }
    let error = open_to_record(Path::new("/proc/self/comm")).unwrap_err();
    assert!(matches!(error, CaptureError::NotAFile), "{error}");
}

#[test]
fn an_empty_file_is_called_empty() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("empty.pcap"), "").unwrap();
    let message = checked(folder.path(), "pcap:empty.pcap", "null:").unwrap_err();
    assert!(message.ends_with("it is empty: a capture has a header, even one without packets"), "{message}");
    fs::write(folder.path().join("half.pcap"), [0xd4, 0xc3]).unwrap();
    assert!(checked(folder.path(), "pcap:half.pcap", "null:").unwrap_err().contains("it is cut off"));
}

#[test]
fn a_file_that_is_cut_off_while_it_is_recorded_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcap");
    let mut recorder = Recorder::new(open_to_record(&path).unwrap());
    let mut record = |number: u8| {
        recorder.record(u64::from(number), &[vec![0; VNET_HEADER], vec![number; 60]].concat()).unwrap();
        assert_eq!(recorder.flush().frames, 0);
    };
    record(1);
    for len in [0, 10, 50] {
        File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
        record(2);
        record(3);
        let expected = [2, 3].map(|number: u8| Frame { ns: number.into(), bytes: vec![number; 60] });
        assert_eq!(frames(&fs::read(&path).unwrap()).unwrap(), expected, "cut to {len}");
    }
}
