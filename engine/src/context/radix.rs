//! A radix tree over token ids: which known sequences share how much with a new one.

use std::collections::BTreeMap;

/// A compressed trie whose entries are numbers. Every leaf has an entry; a node without one has two children or
/// more. Nodes live in a list and are walked in loops: a long sequence is no deep recursion.
pub(super) struct Radix {
    nodes: Vec<Node>,
    free: Vec<usize>,
}

#[derive(Default)]
struct Node {
    /// Tokens between the parent and this node; empty only at the root.
    edge: Vec<u32>,
    parent: usize,
    /// By the first token of their edge.
    children: BTreeMap<u32, usize>,
    entry: Option<u64>,
}

/// What a tree knows about a sequence.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    /// Tokens that the sequence shares with some entry.
    pub common: usize,
    /// Entries that the whole of is a prefix of the sequence, shortest first: (tokens, entry).
    pub prefixes: Vec<(usize, u64)>,
    /// An entry that shares `common` tokens and goes on differently, or goes on at all.
    pub beyond: Option<u64>,
}

const ROOT: usize = 0;

impl Radix {
    pub fn new() -> Self {
        Radix { nodes: vec![Node::default()], free: Vec::new() }
    }

    /// Looks a sequence up.
    pub fn find(&self, tokens: &[u32]) -> Found {
        let mut found = Found::default();
        let mut at = ROOT;
        loop {
            let node = &self.nodes[at];
            found.prefixes.extend(node.entry.map(|entry| (found.common, entry)));
            let Some(&child) = tokens.get(found.common).and_then(|t| node.children.get(t)) else {
                // Below this node, if anything, entries go on beyond the common part.
                found.beyond = node.children.values().next().and_then(|&child| self.some_entry(child));
                return found;
            };
            let edge = &self.nodes[child].edge;
            let same = common_prefix(edge, &tokens[found.common..]);
            found.common += same;
            if same < edge.len() {
                found.beyond = self.some_entry(child);
                return found;
            }
            at = child;
        }
    }

    /// An entry at or below a node.
    fn some_entry(&self, mut at: usize) -> Option<u64> {
        loop {
            let node = &self.nodes[at];
            if node.entry.is_some() {
                return node.entry;
            }
            at = *node.children.values().next()?;
        }
    }

    /// Adds an entry; one that was at the same place is replaced and returned.
    pub fn insert(&mut self, tokens: &[u32], entry: u64) -> Option<u64> {
        let (mut at, mut depth) = (ROOT, 0);
        while depth < tokens.len() {
            let rest = &tokens[depth..];
            let Some(&child) = self.nodes[at].children.get(&rest[0]) else {
                at = self.add(at, rest.to_vec());
                break;
            };
            let same = common_prefix(&self.nodes[child].edge, rest);
            depth += same;
            at = if same < self.nodes[child].edge.len() { self.split(child, same) } else { child };
        }
        self.nodes[at].entry.replace(entry)
    }

    /// Removes the entry of exactly this sequence.
    pub fn remove(&mut self, tokens: &[u32]) -> Option<u64> {
        let (mut at, mut depth) = (ROOT, 0);
        while depth < tokens.len() {
            let &child = self.nodes[at].children.get(&tokens[depth])?;
            let edge = &self.nodes[child].edge;
            if !tokens[depth..].starts_with(edge) {
                return None;
            }
            depth += edge.len();
            at = child;
        }
        let entry = self.nodes[at].entry.take();
        self.tidy(at);
        entry
    }

    /// Restores the rule of the tree after `at` lost its entry.
    fn tidy(&mut self, at: usize) {
        if at == ROOT || self.nodes[at].entry.is_some() {
            return;
        }
        let parent = self.nodes[at].parent;
        match self.nodes[at].children.len() {
            0 => {
                let first = self.nodes[at].edge[0];
                self.nodes[parent].children.remove(&first);
                self.release(at);
                if self.nodes[parent].children.len() == 1 {
                    self.tidy_single(parent);
                }
            }
            1 => self.tidy_single(at),
            _ => {}
        }
    }

    /// Joins a node that has no entry and one child with that child.
    fn tidy_single(&mut self, at: usize) {
        if at == ROOT || self.nodes[at].entry.is_some() {
            return;
        }
        let Node { edge, parent, children, .. } = std::mem::take(&mut self.nodes[at]);
        if let Some(&child) = children.values().next() {
            let first = edge[0];
            let below = std::mem::take(&mut self.nodes[child].edge);
            self.nodes[child].edge = [edge, below].concat();
            self.nodes[child].parent = parent;
            self.nodes[parent].children.insert(first, child);
        }
        self.free.push(at);
    }

    fn add(&mut self, parent: usize, edge: Vec<u32>) -> usize {
        let first = edge[0];
        let node = Node { edge, parent, ..Node::default() };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        };
        self.nodes[parent].children.insert(first, at);
        at
    }

    /// Puts a node into the edge above `child`, after `same` of its tokens.
    fn split(&mut self, child: usize, same: usize) -> usize {
        let below = self.nodes[child].edge.split_off(same);
        let above = std::mem::replace(&mut self.nodes[child].edge, below);
        let middle = self.add(self.nodes[child].parent, above);
        self.nodes[child].parent = middle;
        let first = self.nodes[child].edge[0];
        self.nodes[middle].children.insert(first, child);
        middle
    }

    fn release(&mut self, at: usize) {
        self.nodes[at] = Node::default();
        self.free.push(at);
    }
}

fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `find` should say, from a plain list.
    fn expected(entries: &BTreeMap<Vec<u32>, u64>, tokens: &[u32]) -> (usize, Vec<(usize, u64)>) {
        let common = entries.keys().map(|k| common_prefix(k, tokens)).max().unwrap_or(0);
        let prefixes = entries.iter().filter(|(k, _)| tokens.starts_with(k)).map(|(k, e)| (k.len(), *e));
        (common, prefixes.collect())
    }

    #[test]
    fn the_tree_agrees_with_a_plain_list() {
        let mut state = 7u64;
        let mut random = move |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        let (mut tree, mut list) = (Radix::new(), BTreeMap::new());
        for step in 0..20_000u64 {
            // Few symbols and short sequences, so that they share and split often.
            let tokens: Vec<u32> = (0..random(9)).map(|_| random(3) as u32).collect();
            match random(3) {
                0 => assert_eq!(tree.insert(&tokens, step), list.insert(tokens, step)),
                1 => assert_eq!(tree.remove(&tokens), list.remove(&tokens)),
                _ => {
                    let found = tree.find(&tokens);
                    assert_eq!(
                        (found.common, found.prefixes.clone()),
                        expected(&list, &tokens),
                        "{tokens:?}"
                    );
                    let beyond = found.beyond.map(|e| list.iter().find(|(_, v)| **v == e).unwrap().0);
                    if let Some(beyond) = beyond {
                        assert_eq!(common_prefix(beyond, &tokens), found.common);
                        assert!(beyond.len() > found.common);
                    }
                    let others = list
                        .keys()
                        .any(|k| common_prefix(k, &tokens) == found.common && k.len() > found.common);
                    assert_eq!(beyond.is_some(), others, "{tokens:?}");
                }
            }
            assert!(tree.nodes.len() - tree.free.len() <= 2 * list.len() + 1, "nodes are given back");
        }
    }
}
