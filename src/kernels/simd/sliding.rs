//! The public functions over sliding windows: which kernel answers which windows.

use super::element::{self, Order};
use super::extrema::Extrema;
use super::lanes::{Key, Lanes};
use super::level::dispatch;
use super::stream::{Append, Sink, Source, Values};
use super::{Column, Element, window_count};

/// The least value of each window, appended to `out`; a window without values gets [`Element::GREATEST`].
pub fn sliding_min<T: Element>(column: Column<'_, T>, size: usize, slide: usize, out: &mut Vec<T>) {
    extrema(column, size, slide, T::GREATEST, Order::least::<T>(), out);
}

/// The greatest value of each window, appended to `out`; a window without values gets [`Element::LEAST`].
pub fn sliding_max<T: Element>(column: Column<'_, T>, size: usize, slide: usize, out: &mut Vec<T>) {
    extrema(column, size, slide, T::LEAST, Order::greatest::<T>(), out);
}

fn extrema<T: Element>(
    column: Column<'_, T>,
    size: usize,
    slide: usize,
    identity: T,
    order: Order<T::Key>,
    out: &mut Vec<T>,
) {
    let windows = window_count(column.len(), size, slide);
    let source =
        Values { keys: element::keys(column.values), validity: column.validity, fill: identity.key() };
    assert_eq!(slide, 1, "for now");
    let mut sink = Append::<T, T::Key>::new(out, windows, 256 * 64);
    slide_one::<T>(&source, order, size, windows, &mut sink);
}

fn slide_one<T: Element>(
    source: &dyn Source<T::Key>,
    order: Order<T::Key>,
    size: usize,
    windows: usize,
    sink: &mut dyn Sink<T::Key>,
) {
    if T::FLOAT {
        dispatch(Extrema::<_, true> { source, order, size, windows, sink });
    } else {
        dispatch(Extrema::<_, false> { source, order, size, windows, sink });
    }
}
