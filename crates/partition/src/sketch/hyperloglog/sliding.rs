//! Unions of neighbouring sketches, as a window slides over them.
//!
//! | | |
//! |---|---|
//! | needs | windows neither of whose ends decreases |
//! | time | O(1) amortised per coupon of a sketch that enters, or O(2^p) per one of registers; per window an estimate |
//! | space | 2 * 2^p bytes, 8 per register that was raised, and some 20 per coupon in the window |
//! | first appeared | Two-Stacks: folklore; here its front is one sketch and a log of what raised it, which is undone slice by slice, instead of a sketch per slice |
//!
//! A register of a window is the greater of two: that of the front, which holds the sketches that the window had when
//! it was last flipped, less those that left since; and that of the back, which holds those that entered since. The
//! front was built from its end to its beginning, so that the registers raised by the oldest sketch were raised last.
//!
//! Coupons are counted separately, as windows with few values are estimated by their number: a coupon is in the window
//! if the last sketch that has it is.

use std::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::dense::Sums;
use super::image;
use super::sparse::limit;
use super::union::{Estimates, Union};

/// Least number of coupons to remember before those that left are forgotten.
const REMEMBERED: usize = 1 << 12;

/// The union of the sketches in a window.
pub struct Sliding<'a> {
    precision: u32,
    sketches: &'a [Union],
    window: Range<usize>,
    /// Sketches in the window that hold registers.
    many: usize,
    /// `None` if all windows have registers.
    recent: Option<Recent>,
    /// `None` if no window has.
    registers: Option<TwoStacks>,
}

/// Coupons by the last sketch that has them.
struct Recent {
    last: HashMap<u32, u32, FixedState>,
    /// How many coupons have this sketch as their last.
    ends: Vec<u32>,
    /// Coupons of the window.
    live: usize,
    forget_at: usize,
}

/// The registers of a window whose sketches come and go, by two stacks.
struct TwoStacks {
    front: Box<[u8]>,
    back: Box<[u8]>,
    /// Which registers of the front were raised, and from which rank.
    log: Vec<(u32, u8)>,
    /// How long the log was before each sketch of the front, the oldest last.
    marks: Vec<usize>,
    /// Registers of the back that are not 0.
    raised: Vec<u32>,
    /// The sums over registers, each the greater one of front and back.
    sums: Sums,
}

impl<'a> Sliding<'a> {
    /// Before the first of these windows.
    pub fn new(precision: u32, sketches: &'a [Union], windows: &[(u32, u32)]) -> Self {
        let mut before = Vec::with_capacity(sketches.len() + 1);
        before.push((0, 0));
        before.extend(sketches.iter().scan((0, 0), |(coupons, many), sketch| {
            *coupons += sketch.coupons();
            *many += usize::from(sketch.is_many());
            Some((*coupons, *many))
        }));
        let of = |&(lo, hi): &(u32, u32)| (before[lo as usize], before[hi as usize]);
        let has_many = |window| {
            let (from, to) = of(window);
            to.1 > from.1
        };
        let may_have_many = |window| {
            let (from, to) = of(window);
            to.1 > from.1 || to.0 - from.0 > limit(precision)
        };
        Self {
            precision,
            sketches,
            window: 0..0,
            many: 0,
            recent: (!windows.iter().all(has_many)).then(|| Recent::new(sketches.len())),
            registers: windows.iter().any(may_have_many).then(|| TwoStacks::new(precision)),
        }
    }

    /// Moves on to the window of these sketches; neither end decreases.
    pub fn slide(&mut self, lo: usize, hi: usize) {
        let Range { start: from, end: to } = self.window;
        let left = from..lo.min(to);
        let kept = lo.min(to)..to;
        let came = lo.max(to)..hi;
        let many =
            |which: Range<usize>| self.sketches[which].iter().filter(|sketch| sketch.is_many()).count();
        self.many = self.many - many(left.clone()) + many(came.clone());
        if let Some(recent) = &mut self.recent {
            recent.leave(left.clone());
            came.clone().for_each(|slot| recent.enter(slot, &self.sketches[slot], lo));
        }
        if let Some(registers) = &mut self.registers {
            registers.leave(left.len(), &self.sketches[kept], self.precision);
            self.sketches[came].iter().for_each(|sketch| registers.enter(sketch));
        }
        self.window = lo..hi;
    }

    /// The estimated number of values in the window.
    pub fn estimate(&self, estimates: &mut Estimates) -> f64 {
        match (self.few(), &self.registers) {
            (Some(few), _) => estimates.of_few(few.live),
            (None, Some(registers)) => estimates.of_many(registers.sums),
            (None, None) => unreachable!("registers are kept where a window may have them"),
        }
    }

    /// The union of the window's sketches.
    pub fn union(&self) -> Union {
        match (self.few(), &self.registers) {
            (Some(few), _) => {
                let mut union = Union::new(self.precision);
                // Whichever are fewer: a long window may have few coupons.
                if few.last.len() < self.window.len() {
                    let live = few.last.iter().filter(|&(_, &last)| last as usize >= self.window.start);
                    live.for_each(|(&coupon, _)| union.insert(coupon));
                } else {
                    self.sketches[self.window.clone()].iter().for_each(|sketch| union.merge(sketch));
                }
                union
            }
            (None, Some(registers)) => {
                let pairs = registers.front.iter().zip(&registers.back);
                Union::of_registers(pairs.map(|(&front, &back)| front.max(back)).collect())
            }
            (None, None) => unreachable!("registers are kept where a window may have them"),
        }
    }

    /// How many bytes the union has.
    pub fn len_of_bytes(&self) -> usize {
        match self.few() {
            Some(few) => image::len_of_few(few.live),
            None => image::REGISTERS_FROM + (1 << self.precision),
        }
    }

    /// The window's coupons, if there are so few that it has nothing else.
    fn few(&self) -> Option<&Recent> {
        self.recent.as_ref().filter(|recent| self.many == 0 && recent.live <= limit(self.precision))
    }
}

impl Recent {
    fn new(sketches: usize) -> Self {
        Self { last: HashMap::default(), ends: vec![0; sketches], live: 0, forget_at: REMEMBERED }
    }

    fn leave(&mut self, slots: Range<usize>) {
        let left: usize = self.ends[slots].iter().map(|&coupons| coupons as usize).sum();
        self.live -= left;
    }

    /// Sketches before `lo` have left.
    fn enter(&mut self, slot: usize, sketch: &Union, lo: usize) {
        sketch.each_coupon(|coupon| {
            match self.last.insert(coupon, slot as u32) {
                Some(before) if before as usize >= lo => self.ends[before as usize] -= 1,
                _ => self.live += 1,
            }
            self.ends[slot] += 1;
        });
        if self.last.len() > self.forget_at {
            self.last.retain(|_, last| *last as usize >= lo);
            self.forget_at = REMEMBERED.max(2 * self.last.len());
        }
    }
}

impl TwoStacks {
    fn new(precision: u32) -> Self {
        let registers = || vec![0; 1 << precision].into_boxed_slice();
        Self {
            front: registers(),
            back: registers(),
            log: Vec::new(),
            marks: Vec::new(),
            raised: Vec::new(),
            sums: Sums::new(precision),
        }
    }

    fn enter(&mut self, sketch: &Union) {
        let Self { front, back, raised, sums, .. } = self;
        sketch.raise(back, |index, old, new| {
            if old == 0 {
                raised.push(index as u32);
            }
            let front = front[index];
            sums.change(old.max(front), new.max(front));
        });
    }

    /// Removes the oldest `count` sketches; these are the remaining ones.
    fn leave(&mut self, count: usize, kept: &[Union], precision: u32) {
        if count > self.marks.len() {
            self.turn_over(kept, precision);
            return;
        }
        let Some(mark) = self.marks.drain(self.marks.len() - count..).next() else { return };
        for (index, old) in self.log.drain(mark..).rev() {
            let index = index as usize;
            let back = self.back[index];
            self.sums.change(self.front[index].max(back), old.max(back));
            self.front[index] = old;
        }
    }

    /// Forgets everything, and rebuilds the front.
    fn turn_over(&mut self, kept: &[Union], precision: u32) {
        self.log.drain(..).for_each(|(index, _)| self.front[index as usize] = 0);
        self.raised.drain(..).for_each(|index| self.back[index as usize] = 0);
        self.marks.clear();
        self.sums = Sums::new(precision);
        let Self { front, log, marks, sums, .. } = self;
        for sketch in kept.iter().rev() {
            marks.push(log.len());
            sketch.raise(front, |index, old, new| {
                log.push((index as u32, old));
                sums.change(old, new);
            });
        }
    }
}
