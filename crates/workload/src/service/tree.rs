//! The web tree: directories of pages in four classes of size, static and dynamic, asked for in the mix of a typical web site.
//!
//! Sizes and mix are those that `SPECweb96` and `SPECweb99` document: files of up to 1 KB are 35 % of what is asked for, up to 10 KB 50 %, up to 100 KB 14 %,
//! up to 1 MB 1 %; nine sizes a class, those in its middle asked for most (a Poisson distribution of mean 5); directories by Zipf's law; 30 % of the requests of
//! `SPECweb99` are dynamic. A directory holds 36 pages, 5 MB in all.

use machine::Rng;

use super::distribution::{Zipf, weighted};

/// How often pages of each class are asked for, in per cent.
const CLASS_PERCENT: [u32; 4] = [35, 50, 14, 1];

/// How often each of a class's files is asked for, in per mille: a Poisson distribution of mean 5, of what lies within 1 to 9.
const FILE_PER_MILLE: [u32; 9] = [35, 88, 146, 183, 183, 152, 108, 68, 37];

/// The largest number of directories.
pub const DIRECTORIES_MAX: u32 = 10_000;

/// A page's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Page {
    directory: u32,
    class: u8,
    file: u8,
}

impl Page {
    /// A page, if there can be one of that name: classes are 0 to 3, files 1 to 9, directories below [`DIRECTORIES_MAX`].
    pub const fn new(directory: u32, class: u8, file: u8) -> Option<Self> {
        let is_page = directory < DIRECTORIES_MAX && class < 4 && file >= 1 && file <= 9;
        if is_page { Some(Self { directory, class, file }) } else { None }
    }

    /// In which directory.
    pub const fn directory(self) -> u32 {
        self.directory
    }

    /// The class of its size: 0 to 3.
    pub const fn class(self) -> u8 {
        self.class
    }

    /// Which of the class: 1 to 9.
    pub const fn file(self) -> u8 {
        self.file
    }

    /// Its length in bytes: 102, 204, ... 921; 1,024, ... 9,216; 10,240, ... 92,160; 102,400, ... 921,600.
    pub const fn bytes(self) -> u32 {
        1_024 * 10_u32.pow(self.class as u32) * self.file as u32 / 10
    }
}

/// Which pages are asked for.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    directories: Zipf,
}

impl Tree {
    pub fn new(directories: u32) -> Self {
        Self { directories: Zipf::new(directories, 1.0) }
    }

    pub fn draw(&self, rng: &mut Rng) -> Page {
        let directory = self.directories.draw(rng);
        let class = weighted(&CLASS_PERCENT, rng) as u8;
        let file = weighted(&FILE_PER_MILLE, rng) as u8 + 1;
        Page { directory, class, file }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_benchmark() {
        let bytes = |class, file| Page::new(0, class, file).map(Page::bytes);
        assert_eq!((bytes(0, 1), bytes(0, 9), bytes(1, 1)), (Some(102), Some(921), Some(1_024)));
        assert_eq!((bytes(2, 9), bytes(3, 9)), (Some(92_160), Some(921_600)));
        assert_eq!(
            (bytes(4, 1), bytes(0, 0), bytes(0, 10), Page::new(DIRECTORIES_MAX, 0, 1)),
            (None, None, None, None)
        );
        let whole: u32 = (0..4).flat_map(|class| (1..=9).filter_map(move |file| bytes(class, file))).sum();
        assert_eq!(whole / 1_000, 5_119, "kilobytes of a directory");
    }

    #[test]
    fn the_mix_is_the_documented_one() {
        let tree = Tree::new(100);
        let mut rng = Rng::new(2);
        let all: Vec<Page> = (0..100_000).map(|_| tree.draw(&mut rng)).collect();
        for (class, percent) in CLASS_PERCENT.iter().enumerate() {
            let seen = all.iter().filter(|page| usize::from(page.class) == class).count() as f64 / 1e3;
            assert!((seen - f64::from(*percent)).abs() < 0.7, "class {class}: {seen} %");
        }
        let mean = all.iter().map(|page| f64::from(page.bytes())).sum::<f64>() / 1e5;
        assert!((13_000.0..16_500.0).contains(&mean), "the mean answer is some 15 KB: {mean}");
    }
}
