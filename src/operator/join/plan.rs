//! A join bound to the schemas of its sides: every check that needs no data.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::condition::{Condition, ConditionSpec};
use super::kind::{JoinKind, Which};
use crate::dictionary::{compared, plain, widened};
use crate::keys::{KeyIndex, hashable};
use crate::operator::schema::{extent_fields, find};
use crate::operator::shedding::SHARE;
use crate::operator::weights::weight_column;
use crate::types::named;
use crate::window::Measure;
use crate::{Error, Result};

/// A side as a join states it.
#[derive(Debug, Clone)]
pub struct SideSpec {
    /// The schema of its rows.
    pub input: SchemaRef,
    /// Its key columns.
    pub by: Vec<String>,
    /// Its time column.
    pub time: String,
    /// The columns of its input that the result has; by default all, but for weights, and the keys of the right side.
    pub columns: Option<Vec<String>>,
    /// The column that says whether a row is one (1) or retracts one (-1); without it, all are.
    pub weight: Option<String>,
}

/// A join as it is stated.
#[derive(Clone)]
pub struct JoinSpec {
    /// The side whose rows lead.
    pub left: SideSpec,
    /// The other side.
    pub right: SideSpec,
    /// Which rows are partners.
    pub condition: ConditionSpec,
    /// Which rows are in the result.
    pub kind: JoinKind,
    /// What is appended to the name of a column of the right side that the left side has, too.
    pub suffix: String,
    /// Whether a stream has rows without a partner in its results at once, and retracts them once they have one.
    pub early: bool,
    /// Whether keys may be dropped for want of memory, so that results say which share of them is left.
    pub sheds: bool,
}

/// A join bound to the schemas of its sides.
#[derive(Debug)]
pub struct JoinPlan {
    sides: [SidePlan; 2],
    /// The types in which keys of both sides are compared.
    keys: Vec<DataType>,
    pub(super) condition: Condition,
    pub(super) kind: JoinKind,
    /// Where the columns of the result come from.
    pub(super) sources: Vec<Source>,
    pub(super) early: bool,
    pub(super) sheds: bool,
    output: SchemaRef,
}

/// A side bound to its schema.
#[derive(Debug)]
pub(super) struct SidePlan {
    pub(super) input: SchemaRef,
    pub(super) by: Vec<usize>,
    pub(super) time: usize,
    pub(super) measure: Measure,
    /// Positions of the columns that are held for the result, and their types there.
    pub(super) held: Vec<(usize, DataType)>,
    /// The position of the column of weights.
    pub(super) weight: Option<usize>,
}

/// Where a column of the result comes from; by the numbers of held columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A column of a side.
    Of(Which, usize),
    /// A key: of the left side, or where there is no row of it, of the right side.
    Key(usize, usize),
    /// The window.
    Window,
    /// The share of keys that are not dropped.
    Share,
    /// The product of the weights, at which rows of the result add up to one, or none.
    Weight,
}

impl JoinPlan {
    /// Binds a join to the schemas of its sides.
    ///
    /// # Errors
    /// `UnknownColumn`, `InvalidType` or `InvalidValue`, naming the argument, what was given, and what is allowed.
    pub fn new(spec: JoinSpec) -> Result<Self> {
        let JoinSpec { left: left_spec, right: right_spec, condition, kind, suffix, early, sheds } = spec;
        let left = SidePlan::new(Which::Left, &left_spec)?;
        let right = SidePlan::new(Which::Right, &right_spec)?;
        if left.by.len() != right.by.len() {
            return Err(Error::InvalidValue(format!(
                "by: the left side has {} keys and the right side {}; each key of one has its own of the other",
                left.by.len(),
                right.by.len()
            )));
        }
        let pairs = left.by.iter().zip(&right.by);
        let keys = pairs.map(|(&own, &other)| {
            let (own, other) = (left.input.field(own), right.input.field(other));
            let rule = "keys of both sides have the same types; cast one of them";
            compared(own.data_type(), other.data_type()).ok_or_else(|| unlike("by", own, other, rule))
        });
        let keys = keys.collect::<Result<Vec<_>>>()?;
        KeyIndex::new(keys.clone())?;
        if !left.measure.is_comparable(&right.measure) {
            return Err(unlike(
                "left_time and right_time",
                left.input.field(left.time),
                right.input.field(right.time),
                "times of both sides are of one kind, and both have a zone or neither; cast one of them",
            ));
        }
        let condition = Condition::bind(&condition, &left.measure)?;
        let mut plan = Self {
            sides: [left, right],
            keys,
            condition,
            kind,
            sources: Vec::new(),
            early,
            sheds,
            output: Arc::new(Schema::empty()),
        };
        if early && !kind.keeps(Which::Left) && !kind.keeps(Which::Right) {
            return Err(Error::InvalidValue(
                "emit: early results are rows without a partner, of which this kind of join has none; allowed are left, \
                 right, full and anti joins"
                    .into(),
            ));
        }
        if sheds {
            plan.check_shedding()?;
        }
        plan.bind_output(&left_spec, &right_spec, &suffix)?;
        if plan.condition.windows().is_some() {
            // Rows of one window may differ in their times alone.
            for side in plan.sides.iter_mut().filter(|side| side.weight.is_some()) {
                side.hold(side.time, widened(side.input.field(side.time).data_type()));
            }
        }
        Ok(plan)
    }

    /// Determines the columns of the result, and which columns are held for them.
    fn bind_output(&mut self, left: &SideSpec, right: &SideSpec, suffix: &str) -> Result<()> {
        let (kind, [own, other]) = (self.kind, &mut self.sides);
        if !kind.has_pairs() && right.columns.is_some() {
            return Err(Error::InvalidValue(
                "right_columns: they are given for a semi or anti join, whose result has the columns of the left side \
                 alone"
                    .into(),
            ));
        }
        let inputs = [own.input.clone(), other.input.clone()];
        let mut fields: Vec<Field> = Vec::new();
        for position in chosen("left_columns", left, own.weight, |_| true)? {
            let mut field = inputs[0].field(position);
            let key = own.by.iter().position(|&key| key == position).filter(|_| kind.keeps(Which::Right));
            let mut is_nullable = kind.keeps(Which::Right);
            if let Some(of) = key.map(|key| inputs[1].field(other.by[key])) {
                // Rows of the right side alone have its keys, which a column of nulls has no type for.
                is_nullable = of.is_nullable();
                if *plain(field.data_type()) == DataType::Null {
                    field = of;
                    is_nullable |= kind.keeps(Which::Left);
                }
            }
            let wide = widened(field.data_type());
            let at = own.hold(position, wide.clone());
            self.sources.push(match key {
                Some(key) => Source::Key(at, other.hold(other.by[key], wide)),
                None => Source::Of(Which::Left, at),
            });
            fields.push(of_result(field, inputs[0].field(position).name().clone(), is_nullable));
        }
        if kind.has_pairs() {
            let names: HashSet<String> = fields.iter().map(|field| field.name().clone()).collect();
            let by = other.by.clone();
            for position in chosen("right_columns", right, other.weight, |position| !by.contains(&position))?
            {
                let field = inputs[1].field(position);
                let at = other.hold(position, widened(field.data_type()));
                self.sources.push(Source::Of(Which::Right, at));
                let mut name = field.name().clone();
                if names.contains(&name) {
                    name += suffix;
                }
                fields.push(of_result(field, name, kind.keeps(Which::Left)));
            }
        }
        if let Some(windows) = self.condition.windows() {
            let is_nullable = kind.keeps(Which::Left) || kind.keeps(Which::Right);
            fields.push(Field::new("window", DataType::Struct(extent_fields(windows.shown())), is_nullable));
            self.sources.push(Source::Window);
        }
        if self.has_weight() {
            fields.push(Field::new("weight", DataType::Int8, false));
            self.sources.push(Source::Weight);
        }
        if self.sheds {
            fields.push(Field::new(SHARE, DataType::Float64, false));
            self.sources.push(Source::Share);
        }
        self.output = Arc::new(Schema::new(fields));
        self.check_names()
    }

    /// Refuses to drop keys where there is none, or where what was returned of them would have to be retracted.
    fn check_shedding(&self) -> Result<()> {
        if self.keys.is_empty() {
            return Err(Error::InvalidValue(
                "shed: keep='keys' is given for a join without keys (by=[]); allowed are joins with keys"
                    .into(),
            ));
        }
        if self.has_weight() {
            return Err(Error::InvalidValue(
                "shed: it is given for a join whose results have weights; what was returned of keys that are dropped would \
                 never be retracted, so allowed are joins without weights and without emit"
                    .into(),
            ));
        }
        self.keys.iter().try_for_each(hashable)
    }

    /// Refuses two columns of one name, and says what to change.
    fn check_names(&self) -> Result<()> {
        let mut known = HashMap::new();
        let mut fields = self.output.fields().iter().enumerate();
        let twice = fields.find_map(|(at, field)| Some((known.insert(field.name(), at)?, at, field)));
        let Some((first, second, field)) = twice else {
            return Ok(());
        };
        let name = field.name();
        let origins = self.origins();
        Err(Error::InvalidValue(match (origins[first], origins[second]) {
            (Some((side, own)), Some((other, its))) if side == other && own == its => format!(
                "{0}: it has two columns '{own}'; rename one of them, or choose others by {0}_columns",
                side.name()
            ),
            (Some((side, own)), None) if self.sources[second] != Source::Window => format!(
                "{name}: the result has a column '{name}', and so would the {0} side; rename its column '{own}', or \
                 choose others by {0}_columns",
                side.name()
            ),
            (Some((side, own)), None) => format!(
                "windows: the result has a column '{name}', and so would the {0} side; rename its column '{own}', or \
                 choose others by {0}_columns",
                side.name()
            ),
            _ => format!(
                "suffix: the result would have two columns '{name}'; give another suffix, or choose columns by \
                 left_columns and right_columns"
            ),
        }))
    }

    /// The schema of the result.
    pub fn output(&self) -> &SchemaRef {
        &self.output
    }

    /// A batch of the result: so many rows, in these columns.
    pub(super) fn batch(&self, rows: usize, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.output.clone(), columns, &options)?)
    }

    /// The column of a side that each column of the result has the values of; none for windows.
    pub fn origins(&self) -> Vec<Option<(Which, &str)>> {
        let of = |which: Which, at: usize| {
            let side = self.side(which);
            Some((which, side.input.field(side.held[at].0).name().as_str()))
        };
        let sources = self.sources.iter().map(|source| match *source {
            Source::Of(which, at) => of(which, at),
            Source::Key(at, _) => of(Which::Left, at),
            Source::Window | Source::Weight | Source::Share => None,
        });
        sources.collect()
    }

    /// Positions of the columns of a side that are read.
    pub fn columns(&self, which: Which) -> Vec<usize> {
        let side = self.side(which);
        let held = side.held.iter().map(|&(position, _)| position);
        side.by.iter().copied().chain([side.time]).chain(held).chain(side.weight).collect()
    }

    /// Whether rows of the result have weights, as some may retract others.
    pub(super) fn has_weight(&self) -> bool {
        self.early || self.sides.iter().any(|side| side.weight.is_some())
    }

    /// The schema and the times of a side.
    pub fn stream(&self, which: Which) -> (&SchemaRef, &Measure) {
        let side = self.side(which);
        (&side.input, &side.measure)
    }

    pub(super) fn sides(&self) -> &[SidePlan; 2] {
        &self.sides
    }

    pub(super) fn side(&self, which: Which) -> &SidePlan {
        match which {
            Which::Left => &self.sides[0],
            Which::Right => &self.sides[1],
        }
    }

    /// The types in which keys of both sides are compared.
    pub(super) fn keys(&self) -> &[DataType] {
        &self.keys
    }
}

impl SidePlan {
    fn new(which: Which, spec: &SideSpec) -> Result<Self> {
        let argument = format!("by, of the {} side", which.name());
        let by = spec.by.iter().map(|name| find(&spec.input, &argument, name)).collect::<Result<_>>()?;
        let argument = format!("{}_time", which.name());
        let time = find(&spec.input, &argument, &spec.time)?;
        let measure = Measure::named(&argument, &spec.time, spec.input.field(time).data_type())?;
        let argument = format!("{}_weight", which.name());
        let weight = spec.weight.as_ref().map(|name| weight_column(&argument, name, &spec.input));
        Ok(Self {
            input: spec.input.clone(),
            by,
            time,
            measure,
            held: Vec::new(),
            weight: weight.transpose()?,
        })
    }

    /// The number of a column that is held in a type.
    fn hold(&mut self, position: usize, kind: DataType) -> usize {
        let wanted = (position, kind);
        self.held.iter().position(|held| *held == wanted).unwrap_or_else(|| {
            self.held.push(wanted);
            self.held.len() - 1
        })
    }
}

/// Positions of the columns of a side that the result has.
fn chosen(
    argument: &str,
    spec: &SideSpec,
    weight: Option<usize>,
    by_default: impl Fn(usize) -> bool,
) -> Result<Vec<usize>> {
    let Some(names) = &spec.columns else {
        let own = (0..spec.input.fields().len()).filter(|&position| Some(position) != weight);
        return Ok(own.filter(|&position| by_default(position)).collect());
    };
    let found = |name: &String| {
        let position = find(&spec.input, argument, name)?;
        match Some(position) == weight {
            false => Ok(position),
            true => Err(Error::InvalidValue(format!(
                "{argument}: '{name}' is the column of weights, which are multiplied in the column 'weight' of the result; \
                 allowed are other columns"
            ))),
        }
    };
    names.iter().map(found).collect()
}

fn of_result(field: &Field, name: String, is_nullable: bool) -> Field {
    let is_nullable = is_nullable || field.is_nullable();
    field.clone().with_name(name).with_data_type(widened(field.data_type())).with_nullable(is_nullable)
}

/// The error for columns of the two sides that cannot be compared.
fn unlike(argument: &str, left: &Field, right: &Field, rule: &str) -> Error {
    Error::InvalidType(format!(
        "{argument}: column '{}' of the left side is {}, and '{}' of the right side is {}; {rule}",
        left.name(),
        named(left.data_type()),
        right.name(),
        named(right.data_type())
    ))
}
