//! Multisets as the nodes of trees: runs of their values, sorted.

use std::sync::Arc;

use super::Multiset;
use crate::aggregate::order::Codes;
use crate::aggregate::partials::{Partials, RunNodes};
use crate::aggregate::sorted_runs::SortedRun;
use crate::poll::Poll;

/// Nodes of values with these codes.
pub(super) struct Nodes<C: Codes> {
    codes: C,
    nodes: Vec<Option<Arc<SortedRun<C::Key>>>>,
    poll: Poll,
}

impl<C: Codes> Nodes<C> {
    pub(super) fn new(codes: C, poll: Poll) -> Self {
        Self { codes, nodes: Vec::new(), poll }
    }

    fn put(&mut self, node: u32, run: SortedRun<C::Key>) {
        let node = node as usize;
        if self.nodes.len() <= node {
            self.nodes.resize(node + 1, None);
        }
        self.nodes[node] = Some(Arc::new(run));
    }

    fn get(&self, node: u32) -> &Arc<SortedRun<C::Key>> {
        self.nodes[node as usize].as_ref().expect("nodes exist before they are used")
    }
}

impl<C: Codes> RunNodes for Nodes<C> {
    fn lift(&mut self, node: u32, slots: &[(&dyn Partials, u32)]) {
        let mut items = Vec::new();
        for (partials, slot) in slots {
            let sets = partials.alike::<Multiset<C>>();
            sets.visit(*slot as usize, |code, count| items.push((code, count)));
        }
        self.put(node, SortedRun::new(items));
    }

    fn merge(&mut self, node: u32, earlier: u32, later: u32) {
        self.put(node, self.get(earlier).merged(self.get(later)));
    }

    fn drop_node(&mut self, node: u32) {
        // One that was never finished may not be there.
        if let Some(node) = self.nodes.get_mut(node as usize) {
            *node = None;
        }
    }

    fn answer(&self, nodes: &[u32], offsets: &[usize]) -> Box<dyn Partials> {
        let runs = nodes.iter().map(|&node| self.get(node).clone()).collect();
        Box::new(Multiset::merged(&self.codes, runs, offsets.to_vec(), self.poll))
    }

    fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<usize>()
            + self.nodes.iter().flatten().map(|run| run.bytes()).sum::<usize>()
    }
}
