//! Bytes given as a HyperLogLog sketch: good ones that were changed, and any others.
#![no_main]

use arrow_array::UInt16Array;
use libfuzzer_sys::fuzz_target;
use windowkit::sketch::HyperLogLog;
use windowkit_fuzz::hostile::{Damage, quiet};

fuzz_target!(|case: (u8, u8, u16, u8, Damage, Option<Vec<u8>>)| {
    quiet();
    let (precision, bits, values, others, damage, any) = case;
    let good = || {
        let mut sketch = HyperLogLog::new(u32::from(precision % 6) + 4).unwrap();
        sketch.update(&(0..values % 2048).collect::<UInt16Array>()).unwrap();
        let mut bytes = sketch.to_bytes([4, 6, 8][usize::from(bits) % 3]).unwrap();
        damage.apply(&mut bytes, 0);
        bytes
    };
    let Ok(mut sketch) = HyperLogLog::from_bytes(&any.unwrap_or_else(good)) else { return };
    let estimate = sketch.estimate();
    assert!(!(estimate < 0.0), "{estimate}");
    for deviations in 1..=3 {
        let (low, high) = sketch.bounds(deviations).unwrap();
        assert!(!(low > high), "{low} {high}");
    }
    sketch.update(&(0..u16::from(others)).collect::<UInt16Array>()).unwrap();
    let mut other = HyperLogLog::new(8).unwrap();
    other.update(&(0..u16::from(others)).collect::<UInt16Array>()).unwrap();
    other.merge(&sketch);
    sketch.merge(&other);
    for bits in [4, 6, 8] {
        HyperLogLog::from_bytes(&sketch.to_bytes(bits).unwrap()).unwrap();
    }
});
