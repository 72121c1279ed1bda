//! Parts of a kernel's source that User-Mode Linux is not built from.

/// Folders, and how the names of files below them end that nothing reads during a build. `Kconfig` files and
/// makefiles stay: the configuration reads them all.
type Part = (&'static str, &'static [&'static str]);

const ALL: &[&str] = &[""];
/// Its texts stay: a patch that is worth sending changes them, too.
const DOCUMENTS: &[&str] = &[".yaml", ".svg"];
const CODE: &[&str] = &[".c", ".h", ".S"];
const OF_A_MACHINE: &[&str] = &[".c", ".h", ".S", ".dts", ".dtsi", ".dtso", "defconfig", ".config"];

/// What no build of User-Mode Linux reads.
const FOREIGN: [Part; 22] = [
    ("Documentation", DOCUMENTS),
    ("tools/testing", ALL),
    ("tools/perf", ALL),
    ("arch/alpha", OF_A_MACHINE),
    ("arch/arc", OF_A_MACHINE),
    ("arch/arm", OF_A_MACHINE),
    ("arch/arm64", OF_A_MACHINE),
    ("arch/csky", OF_A_MACHINE),
    ("arch/hexagon", OF_A_MACHINE),
    ("arch/loongarch", OF_A_MACHINE),
    ("arch/m68k", OF_A_MACHINE),
    ("arch/microblaze", OF_A_MACHINE),
    ("arch/mips", OF_A_MACHINE),
    ("arch/nios2", OF_A_MACHINE),
    ("arch/openrisc", OF_A_MACHINE),
    ("arch/parisc", OF_A_MACHINE),
    ("arch/powerpc", OF_A_MACHINE),
    ("arch/riscv", OF_A_MACHINE),
    ("arch/s390", OF_A_MACHINE),
    ("arch/sh", OF_A_MACHINE),
    ("arch/sparc", OF_A_MACHINE),
    ("arch/xtensa", OF_A_MACHINE),
];

/// Drivers that no recipe configures; with them two thirds of the files and of the time for unpacking go.
const DRIVERS: [Part; 19] = [
    ("drivers/accel", CODE),
    ("drivers/clk", CODE),
    ("drivers/comedi", CODE),
    ("drivers/crypto", CODE),
    ("drivers/gpu", CODE),
    ("drivers/hwmon", CODE),
    ("drivers/iio", CODE),
    ("drivers/infiniband", CODE),
    ("drivers/media", CODE),
    ("drivers/net/ethernet", CODE),
    ("drivers/net/wireless", CODE),
    ("drivers/phy", CODE),
    ("drivers/pinctrl", CODE),
    ("drivers/platform", CODE),
    ("drivers/staging", CODE),
    ("drivers/usb", CODE),
    ("drivers/video", CODE),
    ("samples", CODE),
    ("sound", CODE),
];

/// Whether a file of this path is left out of any source, a person's own too.
pub(super) fn in_any_source(path: &str) -> bool {
    FOREIGN.iter().any(|(folder, endings)| {
        let inside = path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        inside && endings.iter().any(|ending| path.ends_with(ending))
    })
}

/// Patterns of `tar --exclude` for the distribution's source; their `*` matches slashes too.
pub(super) fn tar_exclusions() -> impl Iterator<Item = String> {
    let parts = FOREIGN.iter().chain(&DRIVERS);
    parts.flat_map(|(folder, endings)| endings.iter().map(move |ending| format!("--exclude=*/{folder}/*{ending}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makefiles_and_kconfig_stay() {
        for unused in ["arch/arm/mm/x.c", "arch/arm/configs/defconfig", "Documentation/a.yaml", "tools/perf/Makefile"] {
            assert!(in_any_source(unused), "{unused}");
        }
        let texts = "Documentation/block/index.rst";
        for used in [texts, "arch/arm/Kconfig", "arch/arm/Makefile", "arch/army/x.c", "arch/x86/x.c", "drivers/gpu/x.c"]
        {
            assert!(!in_any_source(used), "{used}");
        }
        let patterns: Vec<String> = tar_exclusions().collect();
        assert!(patterns.contains(&"--exclude=*/drivers/gpu/*.c".to_owned()), "{patterns:?}");
        assert!(patterns.contains(&"--exclude=*/tools/perf/*".to_owned()), "{patterns:?}");
    }
}
