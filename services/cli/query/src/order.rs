//! The order of properties. The crate `jmespath` keeps those of an object sorted, so it is restored
//! afterwards from the objects where the same properties stand in an order that somebody chose.

use std::collections::HashMap;

use jmespath::ast::Ast;
use jmespath::Variable;
use serde_json::{Map, Number, Value};

use crate::tree::nodes;

/// Whole numbers below this have an exact place in a float.
const EXACT: f64 = 9_007_199_254_740_992.0;

#[derive(Clone)]
pub struct Orders {
    /// By the sorted names.
    known: HashMap<Vec<String>, Vec<String>>,
}

impl Orders {
    /// Those of the expression's `{name: value}`.
    pub fn of_expression(root: &Ast) -> Self {
        let mut orders = Orders { known: HashMap::new() };
        for node in nodes(root) {
            if let Ast::MultiHash { elements, .. } = node {
                let mut names: Vec<String> = vec![];
                for pair in elements {
                    if !names.contains(&pair.key) {
                        names.push(pair.key.clone());
                    }
                }
                orders.learn(names);
            }
        }
        orders
    }

    /// Those of a document, where the expression has none for the same names.
    pub fn learn_all(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.learn_all(item)),
            Value::Object(map) => {
                self.learn(map.keys().cloned().collect());
                map.values().for_each(|item| self.learn_all(item));
            }
            _ => {}
        }
    }

    fn learn(&mut self, names: Vec<String>) {
        let mut sorted = names.clone();
        sorted.sort();
        self.known.entry(sorted).or_insert(names);
    }

    /// The value for printing. None if it contains an expression of the kind `&name`.
    pub fn value(&self, variable: &Variable) -> Option<Value> {
        Some(match variable {
            Variable::Null => Value::Null,
            Variable::String(text) => Value::String(text.clone()),
            Variable::Bool(is) => Value::Bool(*is),
            Variable::Number(number) => Value::Number(plain(number)),
            Variable::Array(items) => {
                Value::Array(items.iter().map(|item| self.value(item)).collect::<Option<_>>()?)
            }
            Variable::Object(items) => {
                let sorted: Vec<String> = items.keys().cloned().collect();
                let mut map = Map::new();
                for name in self.known.get(&sorted).unwrap_or(&sorted) {
                    map.insert(name.clone(), self.value(&items[name])?);
                }
                Value::Object(map)
            }
            Variable::Expref(_) => return None,
        })
    }
}

/// Sums are floats. A shell wants 12 and not 12.0.
fn plain(number: &Number) -> Number {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT => {
            Number::from(float as i64)
        }
        _ => number.clone(),
    }
}
