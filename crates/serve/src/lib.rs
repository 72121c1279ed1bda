//! Front-ends that serve a modelled device on the wall clock.
