//! Layers of images: any bytes are an archive or are refused, and no more is read of one than there is.
#![no_main]

use std::io::Read as _;

use libfuzzer_sys::fuzz_target;
use live::image::tar::Archive;

fuzz_target!(|input: &[u8]| {
    let mut archive = Archive::new(input);
    let mut read = 0;
    while let Ok(Some(entry)) = archive.next_entry() {
        assert!(entry.path.len() < 4_096);
        let mut content = Vec::new();
        if archive.read_to_end(&mut content).is_err() {
            break;
        }
        assert_eq!(content.len() as u64, entry.size);
        read += content.len();
        assert!(read <= input.len() && archive.offset() <= input.len() as u64);
    }
});
