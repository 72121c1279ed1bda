//! Compiles the preload library, whose bytes the launcher carries: users install one binary.
//!
//! By rustc alone, since Cargo has no stable way to depend on a `cdylib`: the library is a single crate without dependencies.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

/// What the library is made of, beside what the compiler brings.
const SOURCES: [&str; 4] = ["src/preload", "src/shared", "src/mutants.rs", "../prefetch/src"];

fn main() -> Result<(), Box<dyn Error>> {
    let variable = |name: &str| env::var(name).map_err(|error| format!("{name}: {error}"));
    println!("cargo::rerun-if-changed=build.rs");
    SOURCES.iter().for_each(|folder| println!("cargo::rerun-if-changed={folder}"));
    let library = PathBuf::from(variable("OUT_DIR")?).join("libplumb_prefetch.so");
    let mut compiler = Command::new(variable("RUSTC")?);
    compiler.args(["--crate-name", "plumb_prefetch", "--crate-type", "cdylib", "--edition", "2024"]);
    compiler.args(["--cfg", "plumb_preload", "--cap-lints", "allow", "--target", &variable("TARGET")?]);
    // It runs inside other programs' hottest loops, whatever Plumb's own profile is.
    for option in ["opt-level=3", "lto=fat", "codegen-units=1", "strip=debuginfo", "panic=abort"] {
        compiler.args(["-C", option]);
    }
    // A thread that is cancelled within `read` unwinds through the hook.
    compiler.args(["-C", "force-unwind-tables=yes"]);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        compiler.arg("-C").arg(format!("linker={linker}"));
    }
    compiler.arg("-o").arg(&library).arg("src/preload/root.rs");
    let status = compiler.status()?;
    if !status.success() {
        return Err(format!("the preload library was not compiled ({status})").into());
    }
    println!("cargo::rustc-env=PLUMB_PREFETCH_LIBRARY={}", library.display());
    println!("cargo::rustc-env=PLUMB_PREFETCH_LIBRARY_HASH={:016x}", hash(&std::fs::read(&library)?));
    Ok(())
}

/// FNV-1a: a name for these bytes, that another version's differ from.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
