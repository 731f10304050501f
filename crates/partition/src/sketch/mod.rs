//! Sketches: summaries of many keys whose memory does not grow with their number.
//!
//! [`HyperLogLog`] takes columns and is compatible with Apache DataSketches. The others, which partitioners use, take
//! 64-bit hashes whose bits are independent, as [`crate::keys::hash_rows`] makes them, are
//! deterministic, and write themselves as bytes that any platform reads.
//!
//! | sketch | answers | memory |
//! |---|---|---|
//! | [`HyperLogLog`] | how many distinct values a column, or a window, has | 2^precision bytes |
//! | [`Registers`] | how many distinct keys | 2^precision bytes |
//! | [`HeavyHitters`] | which keys are heavy, and how heavy | 25 bytes a counter |
//! | [`Filter`] | was this key seen before | 2 to 8 bytes a key, at any number of keys |

mod filter;
mod heavy_hitters;
mod hyperloglog;
mod registers;

pub use filter::Filter;
pub use heavy_hitters::{Counter, HeavyHitters, Hit};
pub use hyperloglog::HyperLogLog;
pub use hyperloglog::{Estimates, PRECISIONS, Sliding, Union, coupons_by_row};
pub use registers::Registers;
