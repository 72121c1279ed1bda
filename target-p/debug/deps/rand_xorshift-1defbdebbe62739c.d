/work/wt/target-p/debug/deps/rand_xorshift-1defbdebbe62739c.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rand_xorshift-0.5.0/src/lib.rs

/work/wt/target-p/debug/deps/librand_xorshift-1defbdebbe62739c.rlib: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rand_xorshift-0.5.0/src/lib.rs

/work/wt/target-p/debug/deps/librand_xorshift-1defbdebbe62739c.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rand_xorshift-0.5.0/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rand_xorshift-0.5.0/src/lib.rs:
