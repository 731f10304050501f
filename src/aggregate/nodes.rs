//! Slots that change in place: the nodes of trees over partials.

/// Slots of plain states, one per node.
///
/// A tree of partials (FlatFAT, in the crate `baselines`) only does arithmetic on slots: it writes down what is to be combined
/// as a program, and each column runs it in one call.
pub trait Nodes {
    /// Grows to `len` slots; new ones are identities, without values.
    fn grow(&mut self, len: usize);

    /// Makes slots identities again.
    fn reset(&mut self, slots: &[u32]);

    /// For each `(to, earlier, later)`, in this order, slot `to` becomes `earlier` combined with `later`.
    fn combine(&mut self, program: &[(u32, u32, u32)]);
}
