//! An expression that is compiled once and applied to texts of JSON.

use jmespath::ast::Ast;
use jmespath::{
    Context, ErrorReason, Expression, JmespathError, Rcvar, RuntimeError, Variable, DEFAULT_RUNTIME,
};
use serde_json::Value;

use crate::numbers::unreadable;
use crate::order::Orders;
use crate::reason::message;
use crate::tree::nodes;
use crate::Result;

/// Parser and interpreter call themselves for each level, and the stack has an end.
const LONGEST: usize = 4096;

pub struct Query {
    expression: Expression<'static>,
    orders: Orders,
}

impl Query {
    pub fn compile(text: &str) -> Result<Self> {
        if text.len() > LONGEST {
            return Err(format!("it has {} bytes, and at most {LONGEST} are taken", text.len()));
        }
        if let Some(offset) = unreadable(text) {
            let said = format!("a place in a list has to be at most {}", i32::MAX);
            let error = JmespathError::new(text, offset, ErrorReason::Parse(said));
            return Err(message(text, &error, None));
        }
        let expression = jmespath::compile(text).map_err(|error| message(text, &error, None))?;
        for node in nodes(expression.as_ast()) {
            if let Some(error) = mistake(text, node) {
                return Err(message(text, &error, name_of(node)));
            }
        }
        let orders = Orders::of_expression(expression.as_ast());
        Ok(Query { expression, orders })
    }

    /// The result for the document `json`, as JSON.
    pub fn apply(&self, json: &str) -> Result<String> {
        let document: Value = serde_json::from_str(json)
            .map_err(|error| format!("the answer is not JSON: {error}"))?;
        let result = self.expression.search(&document).map_err(|error| self.explain(&error))?;
        let mut orders = self.orders.clone();
        orders.learn_all(&document);
        match orders.value(&result) {
            Some(value) => Ok(value.to_string()),
            None => Err("its result is an expression and no value. Leave out the &".to_owned()),
        }
    }

    fn explain(&self, error: &JmespathError) -> String {
        let failed = nodes(self.expression.as_ast())
            .into_iter()
            .find(|node| matches!(node, Ast::Function { offset, .. } if *offset == error.offset));
        message(self.expression.as_str(), error, failed.and_then(name_of))
    }
}

fn name_of(node: &Ast) -> Option<&str> {
    match node {
        Ast::Function { name, .. } => Some(name),
        _ => None,
    }
}

/// A mistake that no document makes right. The crate finds it only while it evaluates.
fn mistake(text: &str, node: &Ast) -> Option<JmespathError> {
    match node {
        Ast::Slice { step: 0, offset, .. } => {
            Some(runtime_error(text, *offset, RuntimeError::InvalidSlice))
        }
        Ast::Function { name, args, offset } => {
            let Some(function) = DEFAULT_RUNTIME.get_function(name) else {
                let reason = RuntimeError::UnknownFunction(name.clone());
                return Some(runtime_error(text, *offset, reason));
            };
            // Functions count their arguments before they look at them.
            let nulls = vec![Rcvar::new(Variable::Null); args.len()];
            let mut context = Context::new(text, &DEFAULT_RUNTIME);
            context.offset = *offset;
            function.evaluate(&nulls, &mut context).err().filter(|error| {
                matches!(
                    error.reason,
                    ErrorReason::Runtime(
                        RuntimeError::TooManyArguments { .. }
                            | RuntimeError::NotEnoughArguments { .. }
                    )
                )
            })
        }
        _ => None,
    }
}

fn runtime_error(text: &str, offset: usize, reason: RuntimeError) -> JmespathError {
    JmespathError::new(text, offset, ErrorReason::Runtime(reason))
}
