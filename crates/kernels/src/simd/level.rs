//! Run-time choice of the instruction set: every kernel is compiled once per level, and the level is found once.
//!
//! A kernel is a value whose [`Kernel::run`] is inlined, with all that it calls, into one function per level that may
//! use that level's instructions. Which level runs never changes a result: vectors are 64 bytes at every level (the
//! compiler splits them where registers are narrower), so that sums associate alike, and nothing is fused.

use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// What every machine of the target has: SSE2 on x86-64, NEON on AArch64.
    Baseline = 1,
    /// AVX2, with BMI and POPCNT.
    Avx2 = 2,
    /// AVX-512 F, BW, CD, DQ and VL on top of AVX2.
    Avx512 = 3,
}

impl Level {
    /// The levels of this machine, ascending.
    pub fn available() -> impl Iterator<Item = Level> {
        let best = best();
        [Level::Baseline, Level::Avx2, Level::Avx512].into_iter().filter(move |&level| level <= best)
    }

    /// The level that kernels run at.
    #[inline]
    pub fn current() -> Level {
        #[cfg(test)]
        if let Some(level) = FORCED.get() {
            return level;
        }
        best()
    }
}

/// The best level of this machine; 0 in the cache means that it is not known yet.
#[inline]
fn best() -> Level {
    static BEST: AtomicU8 = AtomicU8::new(0);
    match BEST.load(Ordering::Relaxed) {
        1 => Level::Baseline,
        2 => Level::Avx2,
        3 => Level::Avx512,
        _ => {
            let level = detect();
            BEST.store(level as u8, Ordering::Relaxed);
            level
        }
    }
}

#[cold]
fn detect() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        let avx2 = has!("avx2") && has!("bmi1") && has!("bmi2") && has!("popcnt") && has!("lzcnt");
        let avx512 =
            has!("avx512f") && has!("avx512bw") && has!("avx512cd") && has!("avx512dq") && has!("avx512vl");
        if avx2 && avx512 {
            return Level::Avx512;
        }
        if avx2 {
            return Level::Avx2;
        }
    }
    Level::Baseline
}

/// Work that is compiled once per level. `run` must be `#[inline(always)]`, and so must everything it calls in its
/// loops; closures are not, so loops use none.
pub(super) trait Kernel {
    /// The result of the work.
    type Output;
    /// Does the work.
    fn run(self) -> Self::Output;
}

/// Runs the kernel's copy for the current level.
#[inline]
pub(super) fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    match Level::current() {
        // SAFETY: `current` is at most the level that `detect` found, so this machine has the features of `avx512`.
        Level::Avx512 => return unsafe { avx512(kernel) },
        // SAFETY: as above, for the features of `avx2`.
        Level::Avx2 => return unsafe { avx2(kernel) },
        Level::Baseline => {}
    }
    kernel.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
fn avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
fn avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}

#[cfg(test)]
thread_local! {
    static FORCED: std::cell::Cell<Option<Level>> = const { std::cell::Cell::new(None) };
}

/// Runs `work` once per level of this machine, on this thread, so that each copy is tested.
#[cfg(test)]
pub(super) fn at_each_level(mut work: impl FnMut(Level)) {
    for level in Level::available() {
        FORCED.set(Some(level));
        work(level);
        FORCED.set(None);
    }
}
