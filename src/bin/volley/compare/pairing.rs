//! Finding for every row of one result its equal in another, and naming the rows that have none.

use std::collections::HashMap;

use super::canonical::Canonical;

/// How far two floating-point values may be apart, relative to the larger: what other orders of addition make of sums
/// over some billion rows, and far below any difference that a wrong row makes.
pub const TOLERANCE: f64 = 1e-9;
/// Pairs looked at before rows with equal exact columns and crossing floats are called different.
const MAX_CANDIDATES: usize = 5_000_000;

/// Rows of `left` and `right` that have no equal on the other side, in row order. Both empty: equal multisets.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    pub left: Vec<usize>,
    pub right: Vec<usize>,
}

/// Pairs the rows `left` of `a` with the rows `right` of `b`.
pub fn pair(
    a: &Canonical,
    left: impl IntoIterator<Item = usize>,
    b: &Canonical,
    right: impl IntoIterator<Item = usize>,
) -> Unmatched {
    #[derive(Default)]
    struct Group {
        left: Vec<usize>,
        right: Vec<usize>,
    }
    let mut groups: HashMap<u128, Group> = HashMap::new();
    for row in left {
        groups.entry(a.exact[row]).or_default().left.push(row);
    }
    for row in right {
        groups.entry(b.exact[row]).or_default().right.push(row);
    }
    let mut unmatched = Unmatched::default();
    for Group { mut left, mut right } in groups.into_values() {
        if a.width == 0 {
            let common = left.len().min(right.len());
            unmatched.left.extend(left.drain(common..));
            unmatched.right.extend(right.drain(common..));
        } else {
            pair_floats(a, left, b, right, &mut unmatched);
        }
    }
    unmatched.left.sort_unstable();
    unmatched.right.sort_unstable();
    unmatched
}

/// Rows whose exact columns are equal.
fn pair_floats(a: &Canonical, mut left: Vec<usize>, b: &Canonical, mut right: Vec<usize>, unmatched: &mut Unmatched) {
    left.sort_by(|x, y| total_order(a.floats(*x), a.floats(*y)));
    right.sort_by(|x, y| total_order(b.floats(*x), b.floats(*y)));
    // Nearly always sorting brings the partners side by side.
    if left.len() == right.len() && left.iter().zip(&right).all(|(x, y)| all_near(a.floats(*x), b.floats(*y))) {
        return;
    }
    // Values that differ in the last digits only may have changed places, and rows may be missing: a largest matching.
    let mut candidates = Vec::with_capacity(left.len());
    let mut count = 0;
    for x in &left {
        let near = near_rows(a.floats(*x), b, &right);
        count += near.len();
        candidates.push(near);
        if count > MAX_CANDIDATES {
            unmatched.left.extend(&left);
            unmatched.right.extend(&right);
            return;
        }
    }
    let partner = largest_matching(&candidates, right.len());
    let mut taken = vec![false; left.len()];
    for (y, x) in right.iter().zip(&partner) {
        match x {
            Some(x) => taken[*x] = true,
            None => unmatched.right.push(*y),
        }
    }
    unmatched.left.extend(left.iter().zip(taken).filter(|(_, taken)| !taken).map(|(x, _)| *x));
}

/// Places in `right`, sorted by [`total_order`], whose rows of `b` are near `floats`.
fn near_rows(floats: &[Option<f64>], b: &Canonical, right: &[usize]) -> Vec<usize> {
    let place = |bound: f64| right.partition_point(|row| total_order(&b.floats(*row)[..1], &[Some(bound)]).is_lt());
    let range = match floats[0] {
        Some(first) if first.is_finite() => {
            let reach = first.abs() * (2.0 * TOLERANCE);
            place(first - reach)
                ..right.partition_point(|row| total_order(&b.floats(*row)[..1], &[Some(first + reach)]).is_le())
        }
        // NULL, NaN and the infinities have no neighbours; looking at all rows is simple and they are few.
        _ => 0..right.len(),
    };
    range.filter(|place| all_near(floats, b.floats(right[*place]))).collect()
}

/// `partner[right]` is the left node it is paired with. Augmenting paths, depth first on a stack of our own.
fn largest_matching(candidates: &[Vec<usize>], right: usize) -> Vec<Option<usize>> {
    let mut partner: Vec<Option<usize>> = vec![None; right];
    // The left node whose search last saw this right node.
    let mut seen = vec![usize::MAX; right];
    for start in 0..candidates.len() {
        // (left node, next candidate to try); the right node chosen at each level is the candidate before `next`.
        let mut path = vec![(start, 0)];
        while let Some((left, next)) = path.last_mut() {
            let Some(&node) = candidates[*left].get(*next) else {
                path.pop();
                continue;
            };
            *next += 1;
            if seen[node] == start {
                continue;
            }
            seen[node] = start;
            match partner[node] {
                Some(holder) => path.push((holder, 0)),
                None => {
                    for (left, next) in path.drain(..) {
                        partner[candidates[left][next - 1]] = Some(left);
                    }
                }
            }
        }
    }
    partner
}

/// A total order over rows of floats: NULL, then numbers, then NaN; -0.0 is 0.0.
fn total_order(a: &[Option<f64>], b: &[Option<f64>]) -> std::cmp::Ordering {
    a.iter()
        .zip(b)
        .map(|(a, b)| compare_values(*a, *b))
        .find(|order| order.is_ne())
        .unwrap_or(std::cmp::Ordering::Equal)
}

/// NULL before numbers before NaN, whatever the NaN's sign.
pub fn compare_values(a: Option<f64>, b: Option<f64>) -> std::cmp::Ordering {
    use std::cmp::Ordering;
    match (a, b) {
        (Some(a), Some(b)) => match (a.is_nan(), b.is_nan()) {
            (false, false) => a.partial_cmp(&b).expect("numbers compare"),
            (a, b) => a.cmp(&b),
        },
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
    }
}

fn all_near(a: &[Option<f64>], b: &[Option<f64>]) -> bool {
    a.iter().zip(b).all(|(a, b)| near(*a, *b))
}

/// Equal within [`TOLERANCE`]; NULL equals NULL, NaN NaN, -0.0 0.0, an infinity itself.
pub fn near(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            a == b
                || (a.is_nan() && b.is_nan())
                || ((a - b).abs() <= TOLERANCE * a.abs().max(b.abs()) && a.is_finite() && b.is_finite())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_relative() {
        let check = |a: Option<f64>, b: Option<f64>, expect| assert_eq!(near(a, b), expect, "{a:?} {b:?}");
        check(Some(1.0), Some(1.0 + 9e-10), true);
        check(Some(1.0), Some(1.0 + 2e-9), false);
        check(Some(1e20), Some(1e20 + 1e10), true);
        check(Some(0.0), Some(-0.0), true);
        check(Some(0.0), Some(1e-12), false);
        check(Some(f64::NAN), Some(-f64::NAN), true);
        check(Some(f64::INFINITY), Some(f64::INFINITY), true);
        check(Some(f64::INFINITY), Some(f64::MAX), false);
        check(Some(f64::INFINITY), Some(f64::NEG_INFINITY), false);
        check(None, Some(0.0), false);
        check(None, None, true);
    }

    #[test]
    fn a_matching_is_the_largest() {
        // 0 could take 0 or 1, 1 only 0, 2 only 1 or 2: all three fit.
        let partner = largest_matching(&[vec![0, 1], vec![0], vec![1, 2]], 3);
        assert!(partner.iter().all(Option::is_some), "{partner:?}");
        // Two for one place.
        let partner = largest_matching(&[vec![0], vec![0]], 2);
        assert_eq!(partner, [Some(0), None]);
    }
}
