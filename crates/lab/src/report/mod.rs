//! A self-contained HTML report: one file, no network, any browser.
//!
//! Pictures are inline SVG drawn here, at write time, and a little plain
//! JavaScript adds tooltips and switches. A charting library would have to be
//! embedded whole (about a megabyte in every report) and would leave a reader
//! without scripts, or a printer, with an empty page.

mod chart;
mod data;
mod downloads;
mod effects;
mod heat_map;
mod html;
mod index;
mod large;
mod latency;
mod number;
mod overview;
mod page;
mod points;
mod published;
mod scale;
mod story;
mod sweep;
mod thin;
mod throughput;
mod utilisation;
mod values;

pub use data::{
    ChannelUtilisation, Comparison, Counter, CounterGroup, DeviceData, DirectionData, EffectRow, EffectTable, Estimate,
    HeatMapData, PointData, ReportData, Severity, Story, SweepLine, SweepPlot, ThroughputSample, Unit, Utilisation,
    Warning,
};
pub use index::IndexEntry;
pub use page::{Pages, pages, render, render_index};
pub use thin::PICTURED_POINTS;
