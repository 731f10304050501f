//! The public functions over sliding windows: which kernel computes which windows.

use super::element::{self, Order};
use super::extrema::Extrema;
use super::lanes::{Key, Lanes};
use super::level::dispatch;
use super::pieces::{Pieces, windows_of_pieces};
use super::reduce::Least;
use super::stream::{Append, Sink, Source, Values};
use super::{Column, Element, window_count};
use std::mem::MaybeUninit;

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
    if windows == 0 {
        return;
    }
    if slide > FEW {
        let least = |pieces, out: &mut Vec<T::Key>| least::<T>(&source, order, pieces, out);
        let keys = windows_of_pieces(size, slide, windows, T::Key::MAX, T::Key::min, least);
        out.extend(keys.into_iter().map(|key| leave::<T>(key, order)));
        return;
    }
    if slide > 1 {
        let mut pick = Pick { out, slide, skip: 0, room: Vec::new() };
        slide_one::<T>(&source, order, size, (windows - 1) * slide + 1, &mut pick);
        return;
    }
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

/// Up to this slide, all windows of slide 1 are computed and some are picked: pieces would be too short.
pub(super) const FEW: usize = 24;

/// Takes every `slide`-th answer.
struct Pick<'a, T: Element> {
    out: &'a mut Vec<T>,
    slide: usize,
    /// Number of answers before the next one to take.
    skip: usize,
    room: Vec<T::Key>,
}

impl<T: Element> Sink<T::Key> for Pick<'_, T> {
    fn room(&mut self, len: usize) -> &mut [MaybeUninit<T::Key>] {
        self.room.clear();
        self.room.reserve(len);
        self.room.spare_capacity_mut()
    }

    unsafe fn commit(&mut self, windows: usize) {
        // SAFETY: the caller has written that many keys of the capacity after the empty vector.
        unsafe { self.room.set_len(windows) };
        let answers = element::elements::<T>(&self.room);
        self.out.extend(answers.iter().skip(self.skip).step_by(self.slide));
        self.skip = skip_after(self.skip, windows, self.slide);
    }
}

/// How many answers to skip after a tile of `windows`, of which the first `skip` were skipped.
pub(super) fn skip_after(skip: usize, windows: usize, slide: usize) -> usize {
    if windows <= skip { skip - windows } else { (slide - (windows - skip) % slide) % slide }
}

fn least<T: Element>(
    source: &dyn Source<T::Key>,
    order: Order<T::Key>,
    pieces: Pieces,
    out: &mut Vec<T::Key>,
) {
    if T::FLOAT {
        dispatch(Least::<_, true> { source, order, pieces, out });
    } else {
        dispatch(Least::<_, false> { source, order, pieces, out });
    }
}

/// The element of a key.
fn leave<T: Element>(key: T::Key, order: Order<T::Key>) -> T {
    let vector = <T::Key as Key>::Vector::splat(key).xor(<T::Key as Key>::Vector::splat(order.flip));
    let nans = <T::Key as Key>::Vector::splat(order.nans);
    let key = if T::FLOAT { vector.leave(nans) } else { vector };
    element::elements::<T>(&[key.least()])[0]
}
