//! When a node's messages move down, and which: one policy a file, each returns a plan.

mod cost_benefit;
mod largest;
mod rest;

pub(crate) use rest::is_worth_at_rest;

/// What a policy sees of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChildLoad {
    /// Bytes that wait for it.
    pub buffered_bytes: u64,
    /// In how many runs.
    pub runs: usize,
}

/// What a policy sees of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeLoad {
    /// Bytes that may wait in the node.
    pub buffer_bytes: u64,
    /// Bytes that a flush into one child rewrites, at most: the size of a leaf.
    pub leaf_bytes: u64,
    /// Whether the children are leaves.
    pub above_leaves: bool,
    /// The children, in key order.
    pub children: Vec<ChildLoad>,
}

/// What to do next with a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushPlan {
    /// Nothing: it may stay as it is.
    Rest,
    /// Move everything that waits for this child into it.
    Flush {
        /// Index of the child.
        child: usize,
    },
}

/// Which messages move down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FlushPolicy {
    /// When a node is over its bound: the child with the most bytes.
    #[default]
    Largest,
    /// Above leaves, also every child whose buffer is worth the leaf it rewrites; over the bound, the largest.
    CostBenefit,
}

impl FlushPolicy {
    /// The policies by name.
    pub const ALL: [(&'static str, Self); 2] = [("largest", Self::Largest), ("cost-benefit", Self::CostBenefit)];

    /// What to do with a node.
    pub fn plan(self, node: &NodeLoad) -> FlushPlan {
        match self {
            Self::Largest => largest::plan(node),
            Self::CostBenefit => cost_benefit::plan(node),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(children: &[u64], buffer_bytes: u64, above_leaves: bool) -> NodeLoad {
        let children = children.iter().map(|bytes| ChildLoad { buffered_bytes: *bytes, runs: usize::from(*bytes > 0) });
        NodeLoad { buffer_bytes, leaf_bytes: 100, above_leaves, children: children.collect() }
    }

    proptest! {
        /// Whatever the policy: a node over its bound is flushed, and never a child for which nothing waits.
        #[test]
        fn plans_bound_the_buffers(children in prop::collection::vec(0u64..200, 1..9), buffer_bytes in 1u64..800, above: bool) {
            let node = node(&children, buffer_bytes, above);
            for (name, policy) in FlushPolicy::ALL {
                match policy.plan(&node) {
                    FlushPlan::Flush { child } => prop_assert!(children[child] > 0, "{name}"),
                    FlushPlan::Rest => prop_assert!(children.iter().sum::<u64>() <= buffer_bytes, "{name}"),
                }
            }
        }
    }

    #[test]
    fn at_rest_an_eighth_may_be_there_twice() {
        assert!(!is_worth_at_rest(100, 800) && is_worth_at_rest(101, 800) && is_worth_at_rest(1, 0));
    }

    #[test]
    fn the_largest_child_goes_first() {
        assert_eq!(FlushPolicy::Largest.plan(&node(&[3, 9, 4], 15, true)), FlushPlan::Flush { child: 1 });
        assert_eq!(FlushPolicy::Largest.plan(&node(&[3, 9, 4], 16, true)), FlushPlan::Rest);
    }

    #[test]
    fn a_buffer_worth_its_leaf_goes_at_once() {
        assert_eq!(FlushPolicy::CostBenefit.plan(&node(&[3, 60, 4], 500, true)), FlushPlan::Flush { child: 1 });
        assert_eq!(FlushPolicy::CostBenefit.plan(&node(&[3, 60, 4], 500, false)), FlushPlan::Rest);
    }
}
