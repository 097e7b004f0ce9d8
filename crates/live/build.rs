//! With the feature `dpdk`: compiles what is called of DPDK, and links its libraries. Without it there is nothing to do.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "dpdk")]
    dpdk();
}

/// The libraries whose functions are called by themselves; drivers are loaded by DPDK.
#[cfg(feature = "dpdk")]
const LIBRARIES: [&str; 5] = ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal"];

#[cfg(feature = "dpdk")]
fn dpdk() {
    println!("cargo::rerun-if-changed=dpdk/shim.c");
    let flags = pkg_config(&["--cflags"]);
    let mut build = cc::Build::new();
    build.file("dpdk/shim.c").warnings(true).extra_warnings(true).warnings_into_errors(true);
    // Its headers are not free of warnings.
    for flag in &flags {
        match flag.strip_prefix("-I") {
            Some(folder) => build.flag("-isystem").flag(folder),
            None => build.flag(flag),
        };
    }
    build.compile("heddle_dpdk");
    for folder in pkg_config(&["--libs-only-L"]) {
        println!("cargo::rustc-link-search=native={}", folder.trim_start_matches("-L"));
    }
    for library in LIBRARIES {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}

/// What `pkg-config` says of DPDK, word by word.
#[cfg(feature = "dpdk")]
fn pkg_config(what: &[&str]) -> Vec<String> {
    let said = std::process::Command::new("pkg-config").args(what).arg("libdpdk").output();
    let Ok(said) = said.inspect_err(|error| eprintln!("pkg-config: {error}")) else { missing() };
    if !said.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&said.stderr));
        missing();
    }
    String::from_utf8_lossy(&said.stdout).split_whitespace().map(str::to_owned).collect()
}

#[cfg(feature = "dpdk")]
fn missing() -> ! {
    panic!("the feature `dpdk` needs DPDK's headers and pkg-config; on Debian: apt install libdpdk-dev pkgconf")
}
