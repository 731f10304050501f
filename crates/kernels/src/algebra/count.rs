//! Number of values.

use super::{Lift, Monoid};

/// The number of values.
#[derive(Debug, Clone, Copy)]
pub struct Count;

impl Monoid for Count {
    type State = i64;

    #[inline]
    fn identity(&self) -> i64 {
        0
    }

    #[inline]
    fn combine(&self, earlier: i64, later: i64) -> i64 {
        earlier + later
    }

    fn inverts(&self) -> bool {
        true
    }

    #[inline]
    fn evict(&self, whole: i64, part: i64) -> Option<i64> {
        Some(whole - part)
    }
}

impl<V: Copy> Lift<V> for Count {
    #[inline]
    fn lift(&self, _: usize, _: V) -> i64 {
        1
    }

    #[inline]
    fn reduce(&self, _: usize, values: &[V]) -> i64 {
        values.len() as i64
    }
}
