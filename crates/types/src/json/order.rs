//! The order of jsonb's B-tree: objects after arrays, booleans, numbers, strings and null; of two
//! containers the one with more in it is greater.

use std::cmp::Ordering;

use super::value::Json;
use crate::text_order::TextOrder;

fn rank(json: &Json) -> u8 {
    match json {
        Json::Null => 0,
        Json::String(_) => 1,
        Json::Number(_) => 2,
        Json::Bool(_) => 3,
        Json::Array(_) => 4,
        Json::Object(_) => 5,
    }
}

impl Json {
    /// The order of two whole values. A scalar is less than an array, but that an empty array comes
    /// before any scalar. Texts have an order of their own.
    pub fn order(&self, other: &Json, texts: TextOrder<'_>) -> Ordering {
        let scalar = |json: &Json| !matches!(json, Json::Array(_) | Json::Object(_));
        match (self, other) {
            (Json::Array(items), b) if scalar(b) => {
                if items.is_empty() {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            (a, Json::Array(_)) if scalar(a) => other.order(self, texts).reverse(),
            _ => self.order_within(other, texts),
        }
    }

    fn order_within(&self, other: &Json, texts: TextOrder<'_>) -> Ordering {
        match (self, other) {
            (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
            (Json::Number(a), Json::Number(b)) => a.cmp(b),
            (Json::String(a), Json::String(b)) => texts(a, b),
            (Json::Array(a), Json::Array(b)) => {
                a.len().cmp(&b.len()).then_with(|| pairwise(a.iter().zip(b), texts))
            }
            (Json::Object(a), Json::Object(b)) => a.len().cmp(&b.len()).then_with(|| {
                let pairs = a.iter().zip(b);
                let order = pairs
                    .map(|((k, v), (l, w))| texts(k, l).then_with(|| v.order_within(w, texts)));
                order.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            }),
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }
}

fn pairwise<'j>(
    mut pairs: impl Iterator<Item = (&'j Json, &'j Json)>,
    texts: TextOrder<'_>,
) -> Ordering {
    let order = |(a, b): (&Json, &Json)| Some(a.order_within(b, texts)).filter(|o| o.is_ne());
    let order = pairs.find_map(order);
    order.unwrap_or(Ordering::Equal)
}
