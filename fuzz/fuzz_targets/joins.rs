//! Snapshots of joins of streams, and of streams without duplicates, whose contents were changed and whose checksums
//! fit: refused, or restored to something that can be used.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use windowkit::kernels::Closed;
use windowkit::operator::{
    ConditionSpec, DistinctOptions, DistinctPlan, DistinctStep, DistinctStream, JoinKind, JoinOptions,
    JoinPlan, JoinSpec, JoinStep, JoinStream, Length, Per, SideSpec, Which, WindowKind, WindowSpec,
};
use windowkit::window::Partial;
use windowkit_fuzz::hostile::{Damage, Row, quiet, rows};

const IDENTITY: &str = "a join";
const KEYS: [&[&str]; 7] = [&["k"], &["d"], &["s"], &["w"], &["k", "x"], &[], &["l"]];

#[derive(arbitrary::Arbitrary, Debug)]
enum Case {
    Join { join: Join, before: Vec<Call>, damage: Damage, after: Vec<Call> },
    Distinct { keys: u8, within: u8, before: Vec<Call>, damage: Damage, after: Vec<Call> },
}

#[derive(arbitrary::Arbitrary, Debug)]
struct Join {
    keys: u8,
    condition: u8,
    kind: u8,
}

/// A call of an operator: of a side, where it has two. Every third is rolled back.
#[derive(arbitrary::Arbitrary, Debug)]
enum Call {
    Push(bool, Vec<Row>),
    Advance(bool, u8),
    TakeLate(bool),
    Close,
}

impl Join {
    fn plan(&self) -> Arc<JoinPlan> {
        let side = || SideSpec {
            input: rows(&[]).schema(),
            by: names(self.keys),
            time: "t".into(),
            columns: None,
            weight: None,
        };
        let band = |before, after, closed| ConditionSpec::Band {
            before: Length::Units(before),
            after: Length::Units(after),
            closed,
        };
        let window = |kind| ConditionSpec::Windows(WindowSpec { name: "w".into(), kind });
        let units = Length::Units;
        let conditions = [
            band(3, 5, Closed::Both),
            band(0, 0, Closed::Both),
            band(4, 0, Closed::Left),
            window(WindowKind::Tumbling { size: units(10), start_time: None, partial: Partial::NONE }),
            window(WindowKind::Sliding {
                size: units(10),
                slide: units(3),
                start_time: None,
                partial: Partial::NONE,
            }),
        ];
        let kinds = ["inner", "left", "right", "full", "semi", "anti"];
        Arc::new(
            JoinPlan::new(JoinSpec {
                left: side(),
                right: side(),
                condition: conditions[usize::from(self.condition) % conditions.len()].clone(),
                kind: JoinKind::parse(kinds[usize::from(self.kind) % kinds.len()]).unwrap(),
                suffix: "_right".into(),
                early: false,
                sheds: false,
            })
            .unwrap(),
        )
    }
}

fn names(keys: u8) -> Vec<String> {
    KEYS[usize::from(keys) % KEYS.len()].iter().map(|&key| key.to_owned()).collect()
}

fn which(is_left: bool) -> Which {
    if is_left { Which::Left } else { Which::Right }
}

fn join(stream: &mut JoinStream, calls: &[Call]) {
    for call in calls {
        let batch;
        let step = match call {
            Call::Push(is_left, given) => {
                batch = [rows(given)];
                JoinStep::Push(which(*is_left), &batch)
            }
            Call::Advance(is_left, watermark) => JoinStep::Advance(which(*is_left), i64::from(*watermark)),
            Call::TakeLate(is_left) => JoinStep::TakeLate(which(*is_left)),
            Call::Close => JoinStep::Close,
        };
        let _ = stream.call(step);
        let _ =
            (stream.stats(), stream.watermark(Which::Left), stream.individual(Which::Right), stream.joint());
    }
}

fn distinct(stream: &mut DistinctStream, calls: &[Call]) {
    for call in calls {
        let batch;
        let step = match call {
            Call::Push(_, given) => {
                batch = [rows(given)];
                DistinctStep::Push(&batch)
            }
            Call::Advance(_, watermark) => DistinctStep::Advance(i64::from(*watermark)),
            Call::TakeLate(_) => DistinctStep::TakeLate,
            Call::Close => DistinctStep::Close,
        };
        let _ = stream.call(step);
        let _ = (stream.stats(), stream.watermark());
    }
}

fuzz_target!(|case: Case| {
    quiet();
    match case {
        Case::Join { join: of, before, damage, after } => {
            let mut stream = JoinStream::new(of.plan(), JoinOptions::default()).unwrap();
            join(&mut stream, &before);
            let mut snapshot = stream.snapshot(IDENTITY).unwrap();
            damage.apply_sealed(&mut snapshot);
            let _ = JoinStream::contents(&snapshot, IDENTITY);
            let Ok(mut stream) = JoinStream::restore(&snapshot, IDENTITY, of.plan()) else { return };
            join(&mut stream, &after);
            if let Ok(snapshot) = stream.snapshot(IDENTITY) {
                let _ = JoinStream::restore(&snapshot, IDENTITY, of.plan());
            }
            join(&mut stream, &[Call::Close]);
        }
        Case::Distinct { keys, within, before, damage, after } => {
            let plan = || {
                let within = Length::Units(i128::from(within));
                Arc::new(
                    DistinctPlan::new(rows(&[]).schema(), &names(keys), "t", within, Per::First).unwrap(),
                )
            };
            let mut stream = DistinctStream::new(plan(), DistinctOptions::default()).unwrap();
            distinct(&mut stream, &before);
            let mut snapshot = stream.snapshot(IDENTITY).unwrap();
            damage.apply_sealed(&mut snapshot);
            let _ = DistinctStream::contents(&snapshot, IDENTITY);
            let Ok(mut stream) = DistinctStream::restore(&snapshot, IDENTITY, plan()) else { return };
            distinct(&mut stream, &after);
            if let Ok(snapshot) = stream.snapshot(IDENTITY) {
                let _ = DistinctStream::restore(&snapshot, IDENTITY, plan());
            }
            distinct(&mut stream, &[Call::Close]);
        }
    }
});
