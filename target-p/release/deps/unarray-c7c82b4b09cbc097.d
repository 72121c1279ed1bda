/work/wt/target-p/release/deps/unarray-c7c82b4b09cbc097.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/lib.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/build.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/map.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/from_iter.rs

/work/wt/target-p/release/deps/libunarray-c7c82b4b09cbc097.rlib: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/lib.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/build.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/map.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/from_iter.rs

/work/wt/target-p/release/deps/libunarray-c7c82b4b09cbc097.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/lib.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/build.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/map.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/from_iter.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/lib.rs:
/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/build.rs:
/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/map.rs:
/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/unarray-0.1.4/src/from_iter.rs:
