//! Images of containers as roots of hosts: the OCI's image layout, in a folder or an archive, or what `docker save` writes. Each is unpacked once, into the user's cache, under the digest
//! of what it is made of, which is verified.

mod blobs;
mod root;
pub mod tar;
mod unpack;
mod zstd;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::read::MultiGzDecoder;
use ring::digest::{Context, SHA256};
use serde::Deserialize;

pub(crate) use blobs::Blobs;
pub(crate) use root::overlay;
pub use root::{MOUNT, Root};
use unpack::Unpacker;
pub(crate) use unpack::is_first_user_namespace;

/// Layers of an image.
const LAYERS_MAX: usize = 256;

/// Indexes within indexes.
const INDEXES_MAX: usize = 4;

/// What an image by name begins with, and the program that fetches it.
const BY_NAME: &str = "docker://";
const SKOPEO: &str = "skopeo";

/// An image that is unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The folder with its files.
    pub root: PathBuf,
    /// Its environment: `PATH=/usr/bin`.
    pub environment: Vec<String>,
    /// Where its programs start.
    pub folder: String,
    /// What it starts itself: a program and its arguments. Empty: nothing.
    pub command: Vec<String>,
}

/// What is wrong with an image, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Unusable {
    /// Why.
    pub reason: String,
    /// What fixes it.
    pub hint: &'static str,
}

const BY_NAME_HINT: &str = "name a folder with an OCI image layout, or an archive of one or of `docker save`; an image of a registry is written with `docker://`: `image: docker://debian:12`";

const MAKE_ONE_OF_ROOT: &str = "it seems to be the files of an image, unpacked: `tar -C FOLDER -c . | docker import - NAME` makes one of them, and `docker save NAME -o FILE` writes it";

const WRITE_ANEW: &str =
    "`skopeo copy docker://debian:12 oci-archive:debian.tar` or `docker save debian:12 -o debian.tar` writes one";

impl Unusable {
    pub(crate) fn new(reason: impl Into<String>, hint: &'static str) -> Self {
        Self { reason: reason.into(), hint }
    }

    fn of(what: String) -> impl Fn(io::Error) -> Self {
        move |error| {
            let hint = match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "make room below ~/.cache/heddle, or name another folder by XDG_CACHE_HOME"
                }
                io::ErrorKind::PermissionDenied => {
                    "the user who calls `heddle up` must be allowed to read it, and to write below ~/.cache"
                }
                _ => WRITE_ANEW,
            };
            Self::new(format!("{what}: {error}"), hint)
        }
    }
}

/// A part of an image.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    platform: Option<Platform>,
}

#[derive(Clone, Debug, Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

#[derive(Debug, Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

/// An image of `docker save`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    layers: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Configuration {
    #[serde(default)]
    config: Runtime,
    #[serde(default)]
    rootfs: RootFs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Runtime {
    env: Option<Vec<String>>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    working_dir: Option<String>,
}

impl Runtime {
    /// What it starts: its entry point, with the usual arguments.
    fn command(&self) -> Vec<String> {
        self.entrypoint.iter().chain(&self.cmd).flatten().cloned().collect()
    }
}

#[derive(Debug, Default, Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: Vec<String>,
}

/// An image as it is found: the path of each layer, and what it says of itself.
struct ImageParts {
    layers: Vec<String>,
    configuration: Vec<u8>,
}

/// Unpacks an image, unless the cache has it. `folder` is what a path is relative to.
///
/// # Errors
/// If it is no image, or can't be read, fetched or unpacked.
pub fn prepare(written: &str, folder: &Path) -> Result<Image, Unusable> {
    let cache = cache_folder().ok_or_else(|| {
        Unusable::new("there is no folder to unpack it into: neither XDG_CACHE_HOME nor HOME is set", "set HOME")
    })?;
    fs::create_dir_all(&cache).map_err(Unusable::of(cache.display().to_string()))?;
    // What is in it may belong to anybody; nobody else is to reach it.
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&cache, private).map_err(Unusable::of(cache.display().to_string()))?;
    if written.starts_with(BY_NAME) {
        let archive = fetch(written, &cache)?;
        return unpack(&archive, &cache);
    }
    unpack(&named(written, folder)?, &cache)
}

impl Image {
    /// Whether it starts something itself.
    ///
    /// # Errors
    /// If it does not.
    pub fn check_command(&self) -> Result<(), Unusable> {
        check_command(&self.command)
    }
}

fn check_command(command: &[String]) -> Result<(), Unusable> {
    const SAY_IT: &str = "say what runs in it: `programs: { NAME: COMMAND }`";
    if command.is_empty() { Err(Unusable::new("it starts nothing itself", SAY_IT)) } else { Ok(()) }
}

/// Whether an image is one, as far as that goes without unpacking it, and whether it starts something itself if it `runs_itself`. What is fetched by name is not looked at.
///
/// # Errors
/// If it is no image, or can't be read.
pub fn check(written: &str, folder: &Path, runs_itself: bool) -> Result<(), Unusable> {
    if written.starts_with(BY_NAME) {
        return Ok(());
    }
    let path = named(written, folder)?;
    let blobs = Blobs::open(&path).map_err(Unusable::of(path.display().to_string()))?;
    let (_, said) = read(&blobs)?;
    if runs_itself { check_command(&said.config.command()) } else { Ok(()) }
}

/// The path of an image that is named by one.
fn named(written: &str, folder: &Path) -> Result<PathBuf, Unusable> {
    let path = folder.join(written);
    if path.exists() { Ok(path) } else { Err(Unusable::new(format!("there is no {}", path.display()), BY_NAME_HINT)) }
}

/// Where unpacked images are.
fn cache_folder() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = of("XDG_CACHE_HOME").or_else(|| of("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("heddle/images"))
}

/// Has skopeo fetch an image, unless that was done before.
fn fetch(name: &str, cache: &Path) -> Result<PathBuf, Unusable> {
    let archive = cache.join(format!("{}.tar", hex(ring::digest::digest(&SHA256, name.as_bytes()).as_ref())));
    if archive.exists() {
        return Ok(archive);
    }
    let Some(skopeo) = crate::uplink::find_program(SKOPEO) else {
        return Err(Unusable::new(
            "it is fetched by skopeo, which is not installed",
            "`sudo apt install skopeo`, or name the archive that `docker save` writes",
        ));
    };
    let part = cache.join(format!("{}.part", std::process::id()));
    let _ = fs::remove_file(&part);
    let to = format!("oci-archive:{}", part.display());
    let output = Command::new(skopeo)
        .args(["copy", "--quiet", name, &to])
        .stdin(Stdio::null())
        .output()
        .map_err(Unusable::of("skopeo".to_owned()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("it says nothing").chars().take(400).collect::<String>();
        return Err(Unusable::new(
            format!("skopeo cannot fetch it: {last}"),
            "`skopeo inspect` says what it finds there",
        ));
    }
    fs::rename(&part, &archive).map_err(Unusable::of(archive.display().to_string()))?;
    Ok(archive)
}

fn unpack(path: &Path, cache: &Path) -> Result<Image, Unusable> {
    let shown = path.display().to_string();
    let blobs = Blobs::open(path).map_err(Unusable::of(shown.clone()))?;
    let (ImageParts { layers, configuration }, Configuration { config, rootfs }) = read(&blobs)?;
    let key = hex(ring::digest::digest(&SHA256, &configuration).as_ref());
    let root = cache.join(&key);
    if !root.exists() {
        let part = tempfile_folder(cache).map_err(Unusable::of(cache.display().to_string()))?;
        let unpacked = unpack_layers(&blobs, &layers, &rootfs.diff_ids, &part).and_then(|()| {
            // Another process may have been faster.
            fs::rename(&part, &root)
                .or_else(|error| if root.exists() { Ok(()) } else { Err(Unusable::of(shown.clone())(error)) })
        });
        let _ = fs::remove_dir_all(&part);
        unpacked?;
    }
    let command = config.command();
    let environment = config.env.unwrap_or_default().into_iter().filter(|one| one.contains('=') && !one.contains('\0'));
    let folder = config.working_dir.filter(|folder| folder.starts_with('/')).unwrap_or_else(|| "/".to_owned());
    Ok(Image { root, environment: environment.collect(), folder, command })
}

/// What an image says of itself.
fn read(blobs: &Blobs) -> Result<(ImageParts, Configuration), Unusable> {
    let parts = find(blobs)?;
    let said: Configuration = serde_json::from_slice(&parts.configuration)
        .map_err(|error| Unusable::new(format!("its configuration: {error}"), WRITE_ANEW))?;
    let (layers, ids) = (parts.layers.len(), said.rootfs.diff_ids.len());
    if layers != ids || layers > LAYERS_MAX {
        return Err(Unusable::new(format!("it has {layers} layers, and its configuration {ids}"), WRITE_ANEW));
    }
    Ok((parts, said))
}

/// A new folder in the cache.
fn tempfile_folder(cache: &Path) -> io::Result<PathBuf> {
    for number in 0..u32::from(u16::MAX) {
        let path = cache.join(format!(".{}.{number}", std::process::id()));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Bytes behind the end of a layer's archive.
const BEHIND_MAX: u64 = 16 << 20;

fn unpack_layers(blobs: &Blobs, layers: &[String], ids: &[String], into: &Path) -> Result<(), Unusable> {
    let mut unpacker = Unpacker::new(into).map_err(Unusable::of(into.display().to_string()))?;
    for (layer, id) in layers.iter().zip(ids) {
        let of_layer = Unusable::of(format!("its layer {}", layer.escape_debug()));
        let compressed = blobs.read(layer).map_err(&of_layer)?;
        let plain = decompressed(compressed).map_err(&of_layer)?;
        let mut hashed = Hashed { reader: plain, context: Context::new(&SHA256) };
        unpacker.layer(&mut hashed).map_err(&of_layer)?;
        // What is behind the archive's end counts, too: archives fill their last blocks with zeros.
        if io::copy(&mut (&mut hashed).take(BEHIND_MAX + 1), &mut io::sink()).map_err(&of_layer)? > BEHIND_MAX {
            let error = io::Error::new(io::ErrorKind::InvalidData, "it goes on behind the end of its archive");
            return Err(of_layer(error));
        }
        let is = format!("sha256:{}", hex(hashed.context.finish().as_ref()));
        if is != *id {
            return Err(Unusable::new(
                format!("its layer {} is not what its configuration says", layer.escape_debug()),
                WRITE_ANEW,
            ));
        }
    }
    Ok(())
}

/// A layer as an archive, whether it is compressed by gzip, by zstd, or not at all.
fn decompressed<'a>(mut layer: Box<dyn Read + 'a>) -> io::Result<Box<dyn Read + 'a>> {
    let mut magic = Vec::new();
    (&mut layer).take(4).read_to_end(&mut magic)?;
    let all = io::Cursor::new(magic.clone()).chain(layer);
    match magic.as_slice() {
        [0x1f, 0x8b, ..] => Ok(Box::new(MultiGzDecoder::new(io::BufReader::new(all)))),
        begin if zstd::begins(begin) => Ok(Box::new(zstd::Decoder::new(io::BufReader::new(all)))),
        _ => Ok(Box::new(all)),
    }
}

/// Bytes that are hashed as they are read.
struct Hashed<R> {
    reader: R,
    context: Context,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.reader.read(buffer)?;
        self.context.update(&buffer[..bytes]);
        Ok(bytes)
    }
}

/// Finds the image of a layout or an archive.
fn find(blobs: &Blobs) -> Result<ImageParts, Unusable> {
    let document = |path: &str| match blobs.document(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(Unusable::of(format!("its {path}"))),
    };
    if let Some(index) = document("index.json")? {
        return find_in_layout(blobs, &index);
    }
    let Some(manifest) = document("manifest.json")? else { return Err(no_image(blobs)) };
    let saved: Vec<Saved> = serde_json::from_slice(&manifest)
        .map_err(|error| Unusable::new(format!("its manifest.json is none of `docker save`: {error}"), WRITE_ANEW))?;
    let [Saved { config, layers }] = <[Saved; 1]>::try_from(saved).map_err(|all: Vec<Saved>| {
        Unusable::new(format!("it has {} images", all.len()), "save one image in an archive")
    })?;
    let configuration = blobs.document(&config).map_err(Unusable::of("its configuration".to_owned()))?;
    Ok(ImageParts { layers, configuration })
}

/// That something is no image, and what was expected.
fn no_image(blobs: &Blobs) -> Unusable {
    let is_root = blobs.has("etc") && (blobs.has("bin") || blobs.has("usr"));
    let hint = if is_root { MAKE_ONE_OF_ROOT } else { WRITE_ANEW };
    let place = blobs.place().display();
    Unusable::new(
        format!(
            "it is no image: expected an OCI image layout, with index.json, or what `docker save` writes, with manifest.json; {place} has neither index.json nor manifest.json"
        ),
        hint,
    )
}

fn find_in_layout(blobs: &Blobs, index: &[u8]) -> Result<ImageParts, Unusable> {
    let mut document = index.to_vec();
    for _ in 0..INDEXES_MAX {
        let index: Index = serde_json::from_slice(&document).map_err(|error| {
            Unusable::new(format!("its index.json is none of an OCI image layout: {error}"), WRITE_ANEW)
        })?;
        let descriptor = choose(index.manifests)?;
        document = verified(blobs, &descriptor)?;
        if !descriptor.media_type.contains("index") && !descriptor.media_type.contains("manifest.list") {
            let Manifest { config, layers } = serde_json::from_slice(&document)
                .map_err(|error| Unusable::new(format!("its manifest: {error}"), WRITE_ANEW))?;
            let layers = layers.iter().map(|layer| path_of(&layer.digest)).collect::<Result<_, _>>()?;
            return Ok(ImageParts { layers, configuration: verified(blobs, &config)? });
        }
    }
    Err(Unusable::new("it has indexes within indexes", WRITE_ANEW))
}

/// The only image of an index, or the one for this machine.
fn choose(all: Vec<Descriptor>) -> Result<Descriptor, Unusable> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let fits = |descriptor: &Descriptor| {
        descriptor
            .platform
            .as_ref()
            .is_none_or(|platform| platform.os == "linux" && platform.architecture == architecture)
    };
    let known = all.len();
    let mut fitting = all.into_iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => Err(Unusable::new(
            "it has several images",
            "copy one of them: `skopeo copy oci:FOLDER:TAG oci-archive:FILE`",
        )),
        (None, _) => Err(Unusable::new(
            format!("none of its {known} images is for this machine (linux/{architecture})"),
            WRITE_ANEW,
        )),
    }
}

/// Where a part lies in a layout.
fn path_of(digest: &str) -> Result<String, Unusable> {
    let hash = digest.strip_prefix("sha256:");
    let hash =
        hash.filter(|hash| hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
    match hash {
        Some(hash) => Ok(format!("blobs/sha256/{hash}")),
        None => Err(Unusable::new(format!("`{}` is no digest by SHA-256", digest.escape_debug()), WRITE_ANEW)),
    }
}

/// A small part, which is what its digest says.
fn verified(blobs: &Blobs, descriptor: &Descriptor) -> Result<Vec<u8>, Unusable> {
    let path = path_of(&descriptor.digest)?;
    let document = blobs.document(&path).map_err(Unusable::of("a part that it names".to_owned()))?;
    if path.ends_with(&hex(ring::digest::digest(&SHA256, &document).as_ref())) {
        Ok(document)
    } else {
        Err(Unusable::new(format!("{path} is not what its digest says"), WRITE_ANEW))
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::tar::tests::entry;
    use super::*;

    fn digest(bytes: &[u8]) -> String {
        hex(ring::digest::digest(&SHA256, bytes).as_ref())
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Makes something else of a document.
    type Spoil = fn(&str) -> String;

    /// The files of a layout with these layers, of which `spoil` may make something else.
    fn layout(layers: &[Vec<u8>], spoil: impl Fn(&str) -> String) -> Vec<(String, Vec<u8>)> {
        let ids: Vec<String> = layers.iter().map(|layer| format!("\"sha256:{}\"", digest(layer))).collect();
        let configuration = spoil(&format!(
            "{{\"config\": {{\"Env\": [\"PATH=/bin\", \"odd\"], \"WorkingDir\": \"/srv\"}}, \"rootfs\": {{\"diff_ids\": [{}]}}}}",
            ids.join(",")
        ));
        let either = |(number, layer): (usize, &Vec<u8>)| {
            if number % 2 == 0 { gzip(layer) } else { zstd::tests::compressed(layer) }
        };
        let zipped: Vec<Vec<u8>> = layers.iter().enumerate().map(either).collect();
        let part = |bytes: &[u8]| format!("{{\"digest\": \"sha256:{}\"}}", digest(bytes));
        let parts: Vec<String> = zipped.iter().map(|layer| part(layer)).collect();
        let manifest =
            spoil(&format!("{{\"config\": {}, \"layers\": [{}]}}", part(configuration.as_bytes()), parts.join(",")));
        let index = spoil(&format!("{{\"manifests\": [{}]}}", part(manifest.as_bytes())));
        let mut files = vec![("index.json".to_owned(), index.into_bytes())];
        for bytes in zipped.into_iter().chain([configuration.into_bytes(), manifest.into_bytes()]) {
            files.push((format!("blobs/sha256/{}", digest(&bytes)), bytes));
        }
        files
    }

    fn archive(files: &[(String, Vec<u8>)]) -> Vec<u8> {
        let parts = files.iter().map(|(path, bytes)| entry(path, b'0', "", bytes));
        parts.chain([vec![0; 1024]]).collect::<Vec<_>>().concat()
    }

    fn layers() -> Vec<Vec<u8>> {
        let first = [entry("bin/sh", b'0', "", b"#!"), entry("etc/a", b'0', "", b"a")].concat();
        vec![first, [entry("etc/.wh.a", b'0', "", b""), entry("etc/b", b'0', "", b"b")].concat()]
    }

    #[test]
    fn a_layout_is_unpacked_once_from_a_folder_or_an_archive() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        fs::create_dir(&cache).unwrap();
        let files = layout(&layers(), str::to_owned);
        for (path, bytes) in &files {
            let path = folder.path().join("image").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        fs::write(folder.path().join("image.tar"), archive(&files)).unwrap();
        let image = unpack(&folder.path().join("image"), &cache).unwrap();
        assert_eq!(fs::read_to_string(image.root.join("etc/b")).unwrap(), "b");
        assert!(!image.root.join("etc/a").exists());
        assert_eq!((image.environment.as_slice(), image.folder.as_str()), (&["PATH=/bin".to_owned()][..], "/srv"));
        // What the cache has is not unpacked again.
        fs::write(image.root.join("etc/b"), "changed").unwrap();
        assert_eq!(unpack(&folder.path().join("image.tar"), &cache).unwrap(), image);
        assert_eq!(fs::read_to_string(image.root.join("etc/b")).unwrap(), "changed");
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
    }

    #[test]
    fn what_docker_saves_is_unpacked_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let layers = layers();
        let ids: Vec<String> = layers.iter().map(|layer| format!("\"sha256:{}\"", digest(layer))).collect();
        let configuration = format!("{{\"rootfs\": {{\"diff_ids\": [{}]}}}}", ids.join(","));
        let manifest = b"[{\"Config\": \"c.json\", \"Layers\": [\"one/layer.tar\", \"two/layer.tar\"]}]";
        let saved = [
            entry("manifest.json", b'0', "", manifest),
            entry("c.json", b'0', "", configuration.as_bytes()),
            entry("other/layer.tar", b'0', "", &layers[0]),
            entry("one/layer.tar", b'2', "../other/layer.tar", b""),
            entry("two/layer.tar", b'0', "", &layers[1]),
        ];
        let path = folder.path().join("saved.tar");
        fs::write(&path, saved.concat()).unwrap();
        let image = unpack(&path, folder.path()).unwrap();
        assert_eq!(fs::read_to_string(image.root.join("etc/b")).unwrap(), "b");
        assert_eq!(image.folder, "/");
    }

    /// Nobody writes into a pipe: whoever waited for that would hold up the network.
    #[test]
    fn a_pipe_is_no_image_and_no_part_of_one() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        fs::create_dir(&cache).unwrap();
        let pipe = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
            path
        };
        let error = unpack(&pipe("image.tar"), &cache).unwrap_err();
        assert!(error.to_string().contains("it is neither a folder nor a file"), "{error}");
        pipe("layout/index.json");
        let error = unpack(&folder.path().join("layout"), &cache).unwrap_err();
        assert!(error.to_string().contains("layout/index.json: it is neither a folder nor a file"), "{error}");
        // What is not there is named with its path, and what was expected is said.
        let error = unpack(&cache, &cache).unwrap_err();
        assert!(
            error.reason.contains("expected an OCI image layout") && error.reason.contains(cache.to_str().unwrap()),
            "{error}"
        );
        fs::create_dir_all(folder.path().join("root/etc")).unwrap();
        fs::create_dir_all(folder.path().join("root/usr")).unwrap();
        let error = unpack(&folder.path().join("root"), &cache).unwrap_err();
        assert!(error.hint.contains("docker import"), "{error}");
        fs::write(folder.path().join("text"), "hello\n").unwrap();
        let error = unpack(&folder.path().join("text"), &cache).unwrap_err();
        assert!(error.reason.contains("text: it is no tar archive"), "{error}");
        fs::create_dir(folder.path().join("partial")).unwrap();
        let digest = "a".repeat(64);
        let index = format!("{{\"manifests\":[{{\"digest\":\"sha256:{digest}\"}}]}}");
        fs::write(folder.path().join("partial/index.json"), index).unwrap();
        let error = unpack(&folder.path().join("partial"), &cache).unwrap_err();
        assert!(error.reason.ends_with(&format!("/partial/blobs/sha256/{digest}")), "{error}");
        let files = layout(&layers(), str::to_owned);
        for (path, bytes) in &files {
            let path = folder.path().join("whole").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let layer = &files[1].0;
        fs::remove_file(folder.path().join("whole").join(layer)).unwrap();
        pipe(&format!("whole/{layer}"));
        let error = unpack(&folder.path().join("whole"), &cache).unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with(&format!("its layer {layer}: ")), "{said}");
        assert!(said.ends_with("it is neither a folder nor a file"), "{said}");
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
    }

    /// Archives fill their last blocks with zeros, and no more than that: a small file may be unpacked into gigabytes of them.
    #[test]
    fn a_layer_that_goes_on_behind_its_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        fs::create_dir(&cache).unwrap();
        let path = folder.path().join("image.tar");
        let with_zeros = |zeros: u64| {
            let mut layer = layers()[0].clone();
            layer.resize(layer.len() + zeros as usize, 0);
            fs::write(&path, archive(&layout(&[layer], str::to_owned))).unwrap();
            unpack(&path, &cache)
        };
        let error = with_zeros(BEHIND_MAX + 10_240).unwrap_err();
        assert!(error.to_string().contains("it goes on behind the end of its archive"), "{error}");
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
        with_zeros(10_240).unwrap();
    }

    #[test]
    fn what_is_not_what_it_says_is_refused_and_leaves_nothing() {
        let spoilt: [(&str, Spoil); 5] = [
            ("is not what its configuration says", |text| {
                text.replace("diff_ids\": [\"sha256:", "diff_ids\": [\"sha256:0")
            }),
            ("is no digest by SHA-256", |text| text.replace("sha256:", "sha256:../")),
            ("its configuration 0", |text| text.replace("diff_ids", "other")),
            ("its index", |text| text.replace("manifests", "other")),
            ("its manifest", |text| text.replace("layers", "other")),
        ];
        for (expected, spoil) in spoilt {
            let folder = tempfile::tempdir().unwrap();
            let cache = folder.path().join("cache");
            fs::create_dir(&cache).unwrap();
            let path = folder.path().join("image.tar");
            fs::write(&path, archive(&layout(&layers(), spoil))).unwrap();
            let error = unpack(&path, &cache).unwrap_err();
            assert!(error.to_string().contains(expected), "{expected}: {error}");
            assert_eq!(fs::read_dir(&cache).unwrap().count(), 0, "{expected}");
        }
        let folder = tempfile::tempdir().unwrap();
        let mut files = layout(&layers(), str::to_owned);
        let last = files.len() - 1;
        files[last].1.push(b' ');
        let path = folder.path().join("image.tar");
        fs::write(&path, archive(&files)).unwrap();
        assert!(unpack(&path, folder.path()).unwrap_err().to_string().contains("is not what its digest says"));
        fs::write(&path, "no archive").unwrap();
        assert!(unpack(&path, folder.path()).is_err());
    }
}
