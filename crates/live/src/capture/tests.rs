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
    assert_eq!(answer("pcap:fifo", "null:"), expected("host `a`, FOLDER/fifo: it is no regular file"));
    assert_eq!(answer("pcap:tx=fifo", "null:"), expected("host `a`, FOLDER/fifo: it is no regular file"));
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
    fs::write(&path, "a recording of yesterday, which is longer than the header").unwrap();
    let mut recorder = Recorder::new(open_to_record(&path).unwrap());
    assert!(fs::metadata(&path).unwrap().len() > 24);
    recorder.begin();
    assert_eq!(frames(&fs::read(&path).unwrap()).unwrap(), []);
    let frame = [vec![0; VNET_HEADER], vec![7; 60]].concat();
    recorder.record(5, &frame).unwrap();
    recorder.flush();
    assert_eq!(frames(&fs::read(&path).unwrap()).unwrap(), [Frame { ns: 5, bytes: vec![7; 60] }]);
}
