//! How the binary is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        // At a fixed address, nothing of it is relocated: 114,000 words on 300 pages at each start, which is most of what a short
        // command under `plumb prefetch run` would wait for.
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
