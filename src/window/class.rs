//! The properties of a window type: its class, and whether it is a session or counts rows (Traub et al. 2019,
//! §4.3-4.4).

/// What must be known to determine a window's edges (§4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Context free (CF): nothing.
    ContextFree,
    /// Forward context free (FCF): all rows up to the edge.
    ForwardContextFree,
    /// Forward context aware (FCA): rows after the edge.
    ForwardContextAware,
}

impl Class {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Class::ContextFree => "context free",
            Class::ForwardContextFree => "forward context free",
            Class::ForwardContextAware => "forward context aware",
        }
    }
}

/// The properties that determine how a window type is sliced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WindowTraits {
    /// Its class.
    pub class: Class,
    /// Whether it is a session: context aware, but fragments can be merged.
    pub session: bool,
    /// Whether it is measured by the number of rows (§4.3).
    pub count: bool,
}

impl WindowTraits {
    /// A type of this class that is not a session and does not count rows.
    pub const fn of(class: Class) -> Self {
        Self { class, session: false, count: false }
    }

    /// Whether no row changes where its windows start and end in time.
    pub fn is_fixed(&self) -> bool {
        self.class == Class::ContextFree && !self.count
    }
}
