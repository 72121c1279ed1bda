//! The processor's costs on the modelled host: of the spec, or of a measured table.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use lab::results::RunResult;
use lab::{Experiment, LabError, commands_of_run, plan};

const SPEC: &str = "title = 't'\nstack.device = 'optane-905p-960gb'\n\
    workload.fio = \"\"\"[j]\nrw=randread\nbs=4k\nsize=64m\nio_size=4m\nioengine=psync\ndirect=1\n\"\"\"\n";

const TABLE: &str = "system_call_ns = 9000\ncopy_ns_per_kib = 1\npath_ns = 1\npath_component_ns = 1\nopen_ns = 1\nname_change_ns = 1\nfile_write_ns = 1\n\
    page_write_ns = 1\npage_fault_ns = 1\npage_cache_add_ns = 1\ncontext_switch_ns = 7000\n";

fn ran(folder: &Path, more: &str) -> Result<RunResult, LabError> {
    let experiment = Experiment::parse("t", "t.toml", &format!("{SPEC}{more}"), folder, &[])?;
    Ok(commands_of_run(&plan(&experiment)?[0], 0)?.0)
}

#[test]
fn a_table_stands_for_the_costs_of_the_spec() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("costs.toml"), TABLE).unwrap();
    let plain = ran(folder.path(), "").unwrap();
    let charged = ran(folder.path(), "stack.linux.charge = 'costs.toml'\n").unwrap();
    let said = "stack.cpu = { syscall = '9us', context_switch = '7us', migration = '0us' }\n\
                stack.io_path = { submit = '0us', complete = '0us' }\n";
    let by_spec = ran(folder.path(), said).unwrap();
    assert_eq!(charged.jobs, by_spec.jobs);
    assert_eq!(charged.counters, by_spec.counters);
    assert!(charged.elapsed_ns > plain.elapsed_ns, "{} and {}", charged.elapsed_ns, plain.elapsed_ns);
    assert!(charged.notes.iter().any(|note| note.contains("system_call_ns = 9000")), "{:?}", charged.notes);
    assert!(charged.key != plain.key && charged.key != by_spec.key);

    let both = format!("stack.linux.charge = 'costs.toml'\n{said}");
    let error = ran(folder.path(), &both).unwrap_err().to_string();
    assert!(error.contains("stack.linux.charge") && error.contains("stack.io_path"), "{error}");
    let absent = ran(folder.path(), "stack.linux.charge = 'absent.toml'\n").unwrap_err().to_string();
    assert!(absent.contains("absent.toml"), "{absent}");
}
