//! Histograms, summaries and confidence intervals.
