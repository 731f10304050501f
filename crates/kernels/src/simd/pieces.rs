//! Windows at slides above 1: pre-aggregation per slide.
//!
//! | | |
//! |---|---|
//! | needs | an associative `join` |
//! | time | one step per value; per slide at most four joins |
//! | space | two aggregates per slide, one per window |
//! | first appeared | pairs of panes: Krishnamurthy, Wu, Franklin, *On-the-fly sharing for streamed aggregation*, SIGMOD 2006; per slide before Two-Stacks: Theodorakis et al., *Hammer Slide*, ADMS 2018, §3.2 |
//!
//! With `size = q slide + rest`, every slide is cut in two pieces, the first `rest` values and the others. A window is
//! `q` whole slides and the first piece of the next, so windows over values become windows over whole slides at slide 1,
//! for any `size` and `slide`. Pieces are reduced by vectors at the speed of memory, and there are few of them: what
//! follows need not be vectorised. Windows that do not overlap are pieces themselves.

/// Pieces `at, at + every, at + 2 every, ...` of `len` values each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces {
    pub at: usize,
    pub every: usize,
    pub len: usize,
    pub count: usize,
}

impl Pieces {
    /// Values that are reduced before the next pieces are, so that the two pieces of a slide are read from memory once.
    const CHUNK: usize = 1 << 14;

    /// Some pieces after others, `CHUNK` values at a time.
    fn chunks(self) -> impl Iterator<Item = Pieces> {
        let step = (Self::CHUNK / self.every).max(1);
        (0..self.count).step_by(step).map(move |first| Pieces {
            at: self.at + first * self.every,
            count: step.min(self.count - first),
            ..self
        })
    }
}

/// Computes `windows` windows of `size` at `slide` from reductions of pieces, which `reduce` appends to its vector.
pub(super) fn windows_of_pieces<S: Copy>(
    size: usize,
    slide: usize,
    windows: usize,
    identity: S,
    join: impl Fn(S, S) -> S,
    mut reduce: impl FnMut(Pieces, &mut Vec<S>),
) -> Vec<S> {
    if windows == 0 {
        return Vec::new();
    }
    if slide >= size {
        let mut answers = Vec::with_capacity(windows);
        for chunk in (Pieces { at: 0, every: slide, len: size, count: windows }).chunks() {
            reduce(chunk, &mut answers);
        }
        return answers;
    }
    let (whole, rest) = (size / slide, size % slide);
    let mut firsts = Vec::with_capacity(windows + whole);
    let mut slides = Vec::with_capacity(windows + whole);
    let count = windows + whole - 1;
    let mut others = Vec::new();
    for chunk in (Pieces { at: 0, every: slide, len: slide, count }).chunks() {
        if rest == 0 {
            reduce(chunk, &mut slides);
            continue;
        }
        let known = firsts.len();
        reduce(Pieces { len: rest, ..chunk }, &mut firsts);
        others.clear();
        reduce(Pieces { at: chunk.at + rest, len: slide - rest, ..chunk }, &mut others);
        slides.extend(firsts[known..].iter().zip(&others).map(|(&first, &other)| join(first, other)));
    }
    let mut answers = slide_one(&slides, whole, windows, identity, &join);
    if rest > 0 {
        // The last window ends in a slide of which there may be no more than its first piece.
        reduce(Pieces { at: count * slide, every: slide, len: rest, count: 1 }, &mut firsts);
        for (answer, &first) in answers.iter_mut().zip(&firsts[whole..]) {
            *answer = join(*answer, first);
        }
    }
    answers
}

/// Windows of `size` aggregates at slide 1, by an aligned flip.
fn slide_one<S: Copy>(
    column: &[S],
    size: usize,
    windows: usize,
    identity: S,
    join: impl Fn(S, S) -> S,
) -> Vec<S> {
    let mut answers = Vec::with_capacity(windows);
    let mut front = vec![identity; size];
    for start in (0..windows).step_by(size) {
        let mut suffix = identity;
        for (slot, &aggregate) in front.iter_mut().zip(&column[start..start + size]).rev() {
            suffix = join(aggregate, suffix);
            *slot = suffix;
        }
        let mut back = identity;
        for (i, &suffix) in front.iter().take(windows - start).enumerate() {
            answers.push(join(suffix, back));
            if let Some(&aggregate) = column.get(start + size + i) {
                back = join(back, aggregate);
            }
        }
    }
    answers
}
