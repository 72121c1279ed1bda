/work/wt/target-p/debug/deps/prefetch-847d55685b2c32ad.d: crates/prefetch/src/lib.rs crates/prefetch/src/access.rs crates/prefetch/src/bulk.rs crates/prefetch/src/coverage.rs crates/prefetch/src/ledger.rs crates/prefetch/src/mutant.rs crates/prefetch/src/plan.rs crates/prefetch/src/policy/mod.rs crates/prefetch/src/policy/app_only.rs crates/prefetch/src/policy/budget.rs crates/prefetch/src/policy/fetch_all.rs crates/prefetch/src/policy/mapping.rs crates/prefetch/src/policy/os_only.rs crates/prefetch/src/policy/predict.rs crates/prefetch/src/policy/tests.rs crates/prefetch/src/simulate/mod.rs crates/prefetch/src/simulate/cache.rs crates/prefetch/src/simulate/device.rs crates/prefetch/src/simulate/machine.rs crates/prefetch/src/simulate/oracle.rs crates/prefetch/src/simulate/outcome.rs crates/prefetch/src/simulate/patterns.rs crates/prefetch/src/simulate/picture.rs crates/prefetch/src/simulate/readahead.rs crates/prefetch/src/simulate/run.rs crates/prefetch/src/simulate/run/executor.rs crates/prefetch/src/simulate/trace.rs crates/prefetch/src/simulate/tests.rs crates/prefetch/src/streams/mod.rs crates/prefetch/src/streams/stream.rs crates/prefetch/src/streams/window.rs crates/prefetch/src/streams/tests.rs crates/prefetch/src/whole.rs

/work/wt/target-p/debug/deps/prefetch-847d55685b2c32ad: crates/prefetch/src/lib.rs crates/prefetch/src/access.rs crates/prefetch/src/bulk.rs crates/prefetch/src/coverage.rs crates/prefetch/src/ledger.rs crates/prefetch/src/mutant.rs crates/prefetch/src/plan.rs crates/prefetch/src/policy/mod.rs crates/prefetch/src/policy/app_only.rs crates/prefetch/src/policy/budget.rs crates/prefetch/src/policy/fetch_all.rs crates/prefetch/src/policy/mapping.rs crates/prefetch/src/policy/os_only.rs crates/prefetch/src/policy/predict.rs crates/prefetch/src/policy/tests.rs crates/prefetch/src/simulate/mod.rs crates/prefetch/src/simulate/cache.rs crates/prefetch/src/simulate/device.rs crates/prefetch/src/simulate/machine.rs crates/prefetch/src/simulate/oracle.rs crates/prefetch/src/simulate/outcome.rs crates/prefetch/src/simulate/patterns.rs crates/prefetch/src/simulate/picture.rs crates/prefetch/src/simulate/readahead.rs crates/prefetch/src/simulate/run.rs crates/prefetch/src/simulate/run/executor.rs crates/prefetch/src/simulate/trace.rs crates/prefetch/src/simulate/tests.rs crates/prefetch/src/streams/mod.rs crates/prefetch/src/streams/stream.rs crates/prefetch/src/streams/window.rs crates/prefetch/src/streams/tests.rs crates/prefetch/src/whole.rs

crates/prefetch/src/lib.rs:
crates/prefetch/src/access.rs:
crates/prefetch/src/bulk.rs:
crates/prefetch/src/coverage.rs:
crates/prefetch/src/ledger.rs:
crates/prefetch/src/mutant.rs:
crates/prefetch/src/plan.rs:
crates/prefetch/src/policy/mod.rs:
crates/prefetch/src/policy/app_only.rs:
crates/prefetch/src/policy/budget.rs:
crates/prefetch/src/policy/fetch_all.rs:
crates/prefetch/src/policy/mapping.rs:
crates/prefetch/src/policy/os_only.rs:
crates/prefetch/src/policy/predict.rs:
crates/prefetch/src/policy/tests.rs:
crates/prefetch/src/simulate/mod.rs:
crates/prefetch/src/simulate/cache.rs:
crates/prefetch/src/simulate/device.rs:
crates/prefetch/src/simulate/machine.rs:
crates/prefetch/src/simulate/oracle.rs:
crates/prefetch/src/simulate/outcome.rs:
crates/prefetch/src/simulate/patterns.rs:
crates/prefetch/src/simulate/picture.rs:
crates/prefetch/src/simulate/readahead.rs:
crates/prefetch/src/simulate/run.rs:
crates/prefetch/src/simulate/run/executor.rs:
crates/prefetch/src/simulate/trace.rs:
crates/prefetch/src/simulate/tests.rs:
crates/prefetch/src/streams/mod.rs:
crates/prefetch/src/streams/stream.rs:
crates/prefetch/src/streams/window.rs:
crates/prefetch/src/streams/tests.rs:
crates/prefetch/src/whole.rs:
