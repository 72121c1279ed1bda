//! fio job files and block traces, run against a modelled stack.
