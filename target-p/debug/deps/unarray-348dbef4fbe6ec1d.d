/work/wt/target-p/debug/deps/unarray-348dbef4fbe6ec1d.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/lib.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/build.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/map.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/from_iter.rs

/work/wt/target-p/debug/deps/libunarray-348dbef4fbe6ec1d.rlib: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/lib.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/build.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/map.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/from_iter.rs

/work/wt/target-p/debug/deps/libunarray-348dbef4fbe6ec1d.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/lib.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/build.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/map.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/from_iter.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/lib.rs:
/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/build.rs:
/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/map.rs:
/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/from_iter.rs:
