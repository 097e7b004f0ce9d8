//! Tar archives (POSIX.1-2001's ustar and pax, and GNU's long names), read as a stream that may come from an enemy: names, headers and numbers are bounded, and nothing is
//! believed before it is checked.

use std::io::{self, Read};

/// Bytes of a block.
const BLOCK: usize = 512;

/// Bytes of a path, as the kernel has it.
const PATH_MAX: usize = 4_096;

/// Bytes of an extended header: a path, another path, and room for what is not looked at.
const EXTENDED_MAX: u64 = 1 << 20;

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file, whose bytes follow.
    File,
    /// A folder.
    Folder,
    /// A symbolic link to this.
    Symlink(Vec<u8>),
    /// Another name of this file of the archive.
    HardLink(Vec<u8>),
    /// A device or a pipe.
    Special,
}

/// What an archive says of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path, as it is written.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Bytes of a file.
    pub size: u64,
    /// Its permissions.
    pub mode: u32,
    /// Its user and its group.
    pub owner: (u32, u32),
}

/// An archive, entry by entry.
#[derive(Debug)]
pub struct Archive<R> {
    reader: R,
    /// Bytes of the entry that were not read yet, and those behind it up to the next block.
    left: u64,
    padding: u64,
    /// Where in the archive the reader is.
    offset: u64,
}

/// What extended headers say of the next entry.
#[derive(Default)]
struct Extended {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    size: Option<u64>,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl<R: Read> Archive<R> {
    /// The archive that begins where the reader is.
    pub const fn new(reader: R) -> Self {
        Self { reader, left: 0, padding: 0, offset: 0 }
    }

    /// Where the bytes of the current entry begin.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next entry; what was not read of the one before is passed over. `None` at the end.
    ///
    /// # Errors
    /// If the archive can't be read, is none, or goes beyond a bound.
    pub fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        let mut extended = Extended::default();
        loop {
            self.pass_over()?;
            let mut block = [0; BLOCK];
            if !self.read_block(&mut block)? || block.iter().all(|byte| *byte == 0) {
                return Ok(None);
            }
            check_sum(&block)?;
            let size = number(&block[124..136])?;
            match block[156] {
                // Of one entry; of all that follow, nothing is said there that is looked at.
                b'x' => read_pax(&self.read_extended(size)?, &mut extended)?,
                b'g' => drop(self.read_extended(size)?),
                b'L' => extended.path = Some(until_zero(&self.read_extended(size)?).to_vec()),
                b'K' => extended.target = Some(until_zero(&self.read_extended(size)?).to_vec()),
                kind => return self.entry(&block, kind, size, extended).map(Some),
            }
        }
    }

    fn entry(&mut self, block: &[u8; BLOCK], kind: u8, size: u64, extended: Extended) -> io::Result<Entry> {
        let is_ustar = &block[257..262] == b"ustar" && block[262] == 0;
        let written = || {
            let (name, prefix) = (until_zero(&block[..100]), until_zero(&block[345..500]));
            if is_ustar && !prefix.is_empty() { [prefix, b"/", name].concat() } else { name.to_vec() }
        };
        let path = extended.path.unwrap_or_else(written);
        let target = extended.target.unwrap_or_else(|| until_zero(&block[157..257]).to_vec());
        if path.len() >= PATH_MAX || target.len() >= PATH_MAX {
            return Err(invalid("a path in it is too long"));
        }
        let is_folder = path.ends_with(b"/");
        let kind = match kind {
            b'0' | b'7' | 0 if is_folder => Kind::Folder,
            b'0' | b'7' | 0 => Kind::File,
            b'1' => Kind::HardLink(target),
            b'2' => Kind::Symlink(target),
            b'3' | b'4' | b'6' => Kind::Special,
            b'5' => Kind::Folder,
            b'S' => return Err(invalid("it has a sparse file, which is not read here")),
            _ => return Err(invalid("it has an entry of a kind that is not known")),
        };
        // Only files have bytes; what others say of a size is of no meaning, and some archives have it.
        let size = if kind == Kind::File { extended.size.unwrap_or(size) } else { 0 };
        self.expect_bytes(size)?;
        let id = |field: &[u8]| number(field).ok().and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
        Ok(Entry {
            path,
            kind,
            size,
            mode: (number(&block[100..108]).unwrap_or(0o755) & 0o7777) as u32,
            owner: (id(&block[108..116]), id(&block[116..124])),
        })
    }

    fn expect_bytes(&mut self, size: u64) -> io::Result<()> {
        if size > i64::MAX as u64 {
            return Err(invalid("a file in it is too large"));
        }
        let block = BLOCK as u64;
        (self.left, self.padding) = (size, (block - size % block) % block);
        Ok(())
    }

    /// All bytes of an extended header.
    fn read_extended(&mut self, size: u64) -> io::Result<Vec<u8>> {
        if size > EXTENDED_MAX {
            return Err(invalid("an extended header in it is too long"));
        }
        self.expect_bytes(size)?;
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn pass_over(&mut self) -> io::Result<()> {
        let rest = self.left + self.padding;
        let passed = io::copy(&mut (&mut self.reader).take(rest), &mut io::sink())?;
        // The last block of an archive may be cut.
        if passed < self.left {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.offset += passed;
        (self.left, self.padding) = (0, 0);
        Ok(())
    }

    /// Whether there was a block: some archives end without those that mark the end.
    fn read_block(&mut self, block: &mut [u8; BLOCK]) -> io::Result<bool> {
        let mut filled = 0;
        while filled < BLOCK {
            match self.reader.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.offset += BLOCK as u64;
        Ok(true)
    }
}

/// The bytes of the current entry.
impl<R: Read> Read for Archive<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if wanted == 0 {
            return Ok(0);
        }
        let bytes = self.reader.read(&mut buffer[..wanted])?;
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= bytes as u64;
        self.offset += bytes as u64;
        Ok(bytes)
    }
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())]
}

/// A number: octal digits, or GNU's binary form, which begins with a set bit.
fn number(field: &[u8]) -> io::Result<u64> {
    if field[0] & 0x80 != 0 {
        let (high, low) = field.split_at(field.len().saturating_sub(8));
        // The first bit says that it is binary.
        let is_small = high.iter().enumerate().all(|(at, byte)| if at == 0 { *byte == 0x80 } else { *byte == 0 });
        let number = low.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        let number = if high.is_empty() { number & (u64::MAX >> 1) } else { number };
        return if is_small { Ok(number) } else { Err(invalid("a number in it is too large")) };
    }
    let digits = until_zero(field).trim_ascii();
    if digits.is_empty() {
        return Ok(0);
    }
    let text = std::str::from_utf8(digits).map_err(|_| invalid("it is no tar archive"))?;
    u64::from_str_radix(text, 8).map_err(|_| invalid("it is no tar archive"))
}

fn check_sum(block: &[u8; BLOCK]) -> io::Result<()> {
    let sum: u64 =
        block.iter().enumerate().map(|(at, byte)| u64::from(if (148..156).contains(&at) { b' ' } else { *byte })).sum();
    if number(&block[148..156])? == sum { Ok(()) } else { Err(invalid("it is no tar archive")) }
}

/// Records of pax: `LENGTH KEY=VALUE\n` each.
fn read_pax(mut bytes: &[u8], extended: &mut Extended) -> io::Result<()> {
    let wrong = || invalid("an extended header in it is not understood");
    while !bytes.is_empty() {
        let space = bytes.iter().take(20).position(|byte| *byte == b' ').ok_or_else(wrong)?;
        let length = std::str::from_utf8(&bytes[..space]).ok().and_then(|text| text.parse::<usize>().ok());
        let length = length.filter(|length| (space + 2..=bytes.len()).contains(length)).ok_or_else(wrong)?;
        let record = bytes[space + 1..length].strip_suffix(b"\n").ok_or_else(wrong)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        match key {
            b"path" => extended.path = Some(value.to_vec()),
            b"linkpath" => extended.target = Some(value.to_vec()),
            b"size" => {
                let size = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                extended.size = Some(size.ok_or_else(wrong)?);
            }
            _ => {}
        }
        bytes = &bytes[length..];
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Gives a header its check sum.
    pub fn seal(block: &mut [u8]) {
        block[148..156].fill(b' ');
        let sum: u32 = block[..BLOCK].iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    }

    /// An entry of an archive, with its bytes.
    pub fn entry(path: &str, kind: u8, target: &str, bytes: &[u8]) -> Vec<u8> {
        let mut block = [0; BLOCK];
        block[..path.len()].copy_from_slice(path.as_bytes());
        block[100..107].copy_from_slice(b"0000755");
        block[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        block[156] = kind;
        block[157..157 + target.len()].copy_from_slice(target.as_bytes());
        block[257..263].copy_from_slice(b"ustar\0");
        seal(&mut block);
        let mut all = block.to_vec();
        all.extend_from_slice(bytes);
        all.resize(all.len().next_multiple_of(BLOCK), 0);
        all
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<(String, Kind, Vec<u8>)>> {
        let mut archive = Archive::new(bytes);
        let mut all = Vec::new();
        while let Some(entry) = archive.next_entry()? {
            let mut content = Vec::new();
            archive.read_to_end(&mut content)?;
            all.push((String::from_utf8_lossy(&entry.path).into_owned(), entry.kind, content));
        }
        Ok(all)
    }

    #[test]
    fn files_folders_and_links_come_as_they_were_written() {
        let bytes = [
            entry("etc/", b'5', "", b""),
            entry("etc/motd", b'0', "", b"hello\n"),
            entry("bin", b'2', "usr/bin", b""),
            entry("etc/other", b'1', "etc/motd", b""),
            entry("dev/sda", b'4', "", b""),
            vec![0; 2 * BLOCK],
        ];
        let all = read(&bytes.concat()).unwrap();
        let kinds: Vec<_> = all.iter().map(|(path, kind, bytes)| (path.as_str(), kind.clone(), bytes.len())).collect();
        let expected = [
            ("etc/", Kind::Folder, 0),
            ("etc/motd", Kind::File, 6),
            ("bin", Kind::Symlink(b"usr/bin".to_vec()), 0),
            ("etc/other", Kind::HardLink(b"etc/motd".to_vec()), 0),
            ("dev/sda", Kind::Special, 0),
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn extended_headers_give_long_names() {
        let long = "d/".repeat(120) + "file";
        let record = format!("{} path={long}\n", long.len() + 10);
        let pax = [entry("x", b'x', "", record.as_bytes()), entry("short", b'0', "", b"1")].concat();
        assert_eq!(read(&pax).unwrap()[0].0, long);
        let gnu = [entry("x", b'L', "", format!("{long}\0").as_bytes()), entry("short", b'0', "", b"1")].concat();
        assert_eq!(read(&gnu).unwrap()[0].0, long);
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        let good = entry("file", b'0', "", b"bytes");
        for (at, byte) in [(0, b'g'), (124, b'9'), (148, b'7'), (156, b'S'), (156, b'z')] {
            let mut bad = good.clone();
            bad[at] = byte;
            if at == 156 {
                bad = entry("file", byte, "", b"bytes");
            }
            assert!(read(&bad).is_err(), "{at} {byte}");
        }
        assert!(read(&good[..514]).is_err());
        assert!(read(&[7; 700]).is_err());
        // A header that claims more than may be read at once.
        let mut large = entry("x", b'x', "", b"");
        large[124..135].copy_from_slice(b"77777777777");
        seal(&mut large);
        assert!(read(&large).is_err());
        for record in ["5 x\n", "99 path=x\n", "x path=y\n", "10 path=xy", " path=x\n", "8 size=x\n"] {
            assert!(read(&entry("x", b'x', "", record.as_bytes())).is_err(), "{record}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_an_archive_or_an_error(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..2_000)) {
            let _ = read(&bytes);
        }
    }
}
