/work/wt/target-p/release/deps/rand_xorshift-cf7537a79bb7c84a.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rand_xorshift-0.5.0/src/lib.rs

/work/wt/target-p/release/deps/librand_xorshift-cf7537a79bb7c84a.rlib: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rand_xorshift-0.5.0/src/lib.rs

/work/wt/target-p/release/deps/librand_xorshift-cf7537a79bb7c84a.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rand_xorshift-0.5.0/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rand_xorshift-0.5.0/src/lib.rs:
