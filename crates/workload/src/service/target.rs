//! What a request asks for, and how it is written as the path of an HTTP request.

use core::fmt;

use machine::Span;

use super::quantity;
use super::tree::Page;

/// No request works for longer.
pub const DURATION_MAX: Span = Span::from_secs(3_600);

/// No request takes more memory, in bytes.
pub const SIZE_MAX: u64 = 1 << 40;

/// Memory of a page that is computed, in bytes.
const DYNAMIC_PAGE_BYTES: u64 = 64 << 10;

/// How long one is computed if its request does not say it.
const DYNAMIC_PAGE_LASTS: Span = Span::from_ms(1);

/// What a request asks for. What it leaves open is the server's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// `/`: an empty page.
    Root,
    /// `/work?size=BYTES&duration=MICROSECONDS`: memory, and how long to work on it.
    Work {
        /// In bytes.
        size: Option<u64>,
        /// How long.
        lasts: Option<Span>,
    },
    /// `/tree/static/DIRECTORY/CLASS-FILE`: a page as it is.
    Static(Page),
    /// `/tree/dynamic/DIRECTORY/CLASS-FILE?duration=MICROSECONDS`: one that is computed.
    Dynamic {
        /// Its name, from which its length follows.
        page: Page,
        /// How long it is computed.
        lasts: Option<Span>,
    },
}

/// Why a path is none of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// There is no such page.
    NotFound,
    /// Its query is wrong: what was expected.
    Query(&'static str),
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "there is no such page: expected /, /work?size=BYTES&duration=MICROSECONDS, /tree/static/DIRECTORY/CLASS-FILE or /tree/dynamic/DIRECTORY/CLASS-FILE",
            Self::Query(expected) => expected,
        })
    }
}

impl Target {
    /// Writes the path of a request for it.
    pub fn write_path(&self, to: &mut Vec<u8>) {
        let mut number = Decimal::default();
        match self {
            Self::Root => to.push(b'/'),
            Self::Work { size, lasts } => {
                to.extend_from_slice(b"/work");
                let mut separator = b'?';
                if let Some(size) = size {
                    to.push(separator);
                    to.extend_from_slice(b"size=");
                    to.extend_from_slice(number.of(*size));
                    separator = b'&';
                }
                write_duration(*lasts, separator, to);
            }
            Self::Static(page) => write_page(b"/tree/static/", *page, to),
            Self::Dynamic { page, lasts } => {
                write_page(b"/tree/dynamic/", *page, to);
                write_duration(*lasts, b'?', to);
            }
        }
    }

    /// Reads the path of a request, with its query.
    ///
    /// # Errors
    /// [`TargetError`]: what is wrong with it.
    pub fn parse(path: &str) -> Result<Self, TargetError> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        if path == "/" {
            return Ok(Self::Root);
        }
        if path == "/work" {
            let (size, lasts) = parse_query(query)?;
            return Ok(Self::Work { size, lasts });
        }
        if let Some(name) = path.strip_prefix("/tree/static/") {
            return Ok(Self::Static(parse_page(name)?));
        }
        let name = path.strip_prefix("/tree/dynamic/").ok_or(TargetError::NotFound)?;
        let page = parse_page(name)?;
        let (_, lasts) = parse_query(query)?;
        Ok(Self::Dynamic { page, lasts })
    }

    /// The memory that a request takes, in bytes, and how long it works; nothing: that is the server's choice.
    pub const fn demand(&self) -> (Option<u64>, Option<Span>) {
        match *self {
            Self::Root => (None, None),
            Self::Work { size, lasts } => (size, lasts),
            Self::Static(_) => (Some(0), Some(Span::ZERO)),
            Self::Dynamic { page: _, lasts: None } => (Some(DYNAMIC_PAGE_BYTES), Some(DYNAMIC_PAGE_LASTS)),
            Self::Dynamic { page: _, lasts } => (Some(DYNAMIC_PAGE_BYTES), lasts),
        }
    }

    /// The length of the answer, in bytes, of a server that adds none of its own.
    pub const fn answer_bytes(&self) -> u32 {
        match self {
            Self::Root | Self::Work { .. } => 0,
            Self::Static(page) | Self::Dynamic { page, .. } => page.bytes(),
        }
    }
}

/// The digits of a number, without a String.
#[derive(Default)]
struct Decimal([u8; 20]);

impl Decimal {
    fn of(&mut self, mut number: u64) -> &[u8] {
        let mut at = self.0.len();
        loop {
            at -= 1;
            self.0[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return &self.0[at..];
            }
        }
    }
}

fn write_duration(lasts: Option<Span>, separator: u8, to: &mut Vec<u8>) {
    if let Some(lasts) = lasts {
        to.push(separator);
        to.extend_from_slice(b"duration=");
        to.extend_from_slice(Decimal::default().of(lasts.as_ns() / 1_000));
    }
}

fn write_page(folder: &[u8], page: Page, to: &mut Vec<u8>) {
    to.extend_from_slice(folder);
    to.extend_from_slice(Decimal::default().of(u64::from(page.directory())));
    to.extend_from_slice(&[b'/', b'0' + page.class(), b'-', b'0' + page.file()]);
}

fn parse_page(name: &str) -> Result<Page, TargetError> {
    let page = || {
        let (directory, file) = name.split_once('/')?;
        let (class, file) = file.split_once('-')?;
        Page::new(digits(directory)?.try_into().ok()?, digits(class)?.try_into().ok()?, digits(file)?.try_into().ok()?)
    };
    page().ok_or(TargetError::NotFound)
}

/// A number without sign or spaces.
fn digits(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Size in bytes and duration of a query. Both may have units, too.
fn parse_query(query: &str) -> Result<(Option<u64>, Option<Span>), TargetError> {
    const SIZE: TargetError =
        TargetError::Query("size: expected bytes, as in size=1048576 or size=1MiB, 1024GiB at most");
    const DURATION: TargetError = TargetError::Query(
        "duration: expected microseconds, as in duration=2000, or a time, as in duration=2ms, 1h at most",
    );
    let (mut size, mut lasts) = (None, None);
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("size", text)) => size = Some(quantity::size(text).map_err(|_| SIZE)?),
            Some(("duration", text)) => {
                let span = digits(text).map(Span::from_us).or_else(|| quantity::time(text).ok());
                lasts = Some(span.filter(|span| *span <= DURATION_MAX).ok_or(DURATION)?);
            }
            _ => return Err(TargetError::Query("expected size=BYTES and duration=MICROSECONDS, joined by &")),
        }
    }
    Ok((size, lasts))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(target: Target) -> String {
        let mut path = Vec::new();
        target.write_path(&mut path);
        String::from_utf8(path).expect("ASCII")
    }

    #[test]
    fn paths_are_as_documented() {
        let page = Page::new(17, 2, 5).expect("there is one");
        let (size, lasts) = (Some(4_096), Some(Span::from_ms(2)));
        assert_eq!(path(Target::Root), "/");
        assert_eq!(path(Target::Work { size, lasts }), "/work?size=4096&duration=2000");
        assert_eq!(path(Target::Work { size: None, lasts }), "/work?duration=2000");
        assert_eq!(path(Target::Work { size: None, lasts: None }), "/work");
        assert_eq!(path(Target::Static(page)), "/tree/static/17/2-5");
        assert_eq!(path(Target::Dynamic { page, lasts }), "/tree/dynamic/17/2-5?duration=2000");
        let work = Target::Work { size: Some(1 << 20), lasts };
        assert_eq!(Target::parse("/work?duration=2ms&size=1MiB"), Ok(work));
        assert_eq!(Target::parse("/?anything"), Ok(Target::Root));
    }

    #[test]
    fn what_is_no_page_is_refused() {
        for wrong in [
            "",
            "work",
            "/workx",
            "/tree/static/",
            "/tree/static/1/4-1",
            "/tree/static/1/1-0",
            "/tree/static/+1/1-1",
            "/tree/static/10000/1-1",
            "/../etc/passwd",
        ] {
            assert_eq!(Target::parse(wrong), Err(TargetError::NotFound), "{wrong}");
        }
        for wrong in [
            "size",
            "size=",
            "size=-1",
            "duration=3600000001",
            "duration=99999999999999999999",
            "a=1",
            "size=1&&duration=x",
        ] {
            let found = Target::parse(&format!("/work?{wrong}"));
            assert!(matches!(found, Err(TargetError::Query(_))), "{wrong}: {found:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(size in prop::option::of(0..=SIZE_MAX), us in prop::option::of(0..=3_600_000_000_u64), directory in 0..10_000_u32, class in 0..4_u8, file in 1..10_u8) {
            let lasts = us.map(Span::from_us);
            let page = Page::new(directory, class, file).expect("there is one");
            for target in [Target::Work { size, lasts }, Target::Static(page), Target::Dynamic { page, lasts }] {
                prop_assert_eq!(Target::parse(&path(target)), Ok(target));
            }
        }

        #[test]
        fn no_path_breaks_it(path in "/(work|tree/(static|dynamic)/)?\\PC{0,40}") {
            let _ = Target::parse(&path);
        }
    }
}
