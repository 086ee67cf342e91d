//! The parts of a parsed expression.

use jmespath::ast::Ast;

fn children(node: &Ast) -> Vec<&Ast> {
    match node {
        Ast::Comparison { lhs, rhs, .. }
        | Ast::Projection { lhs, rhs, .. }
        | Ast::And { lhs, rhs, .. }
        | Ast::Or { lhs, rhs, .. }
        | Ast::Subexpr { lhs, rhs, .. } => vec![lhs, rhs],
        Ast::Condition { predicate, then, .. } => vec![predicate, then],
        Ast::Expref { ast, .. } => vec![ast],
        Ast::Flatten { node, .. } | Ast::Not { node, .. } | Ast::ObjectValues { node, .. } => {
            vec![node]
        }
        Ast::Function { args, .. } => args.iter().collect(),
        Ast::MultiList { elements, .. } => elements.iter().collect(),
        Ast::MultiHash { elements, .. } => elements.iter().map(|pair| &pair.value).collect(),
        Ast::Identity { .. }
        | Ast::Field { .. }
        | Ast::Index { .. }
        | Ast::Literal { .. }
        | Ast::Slice { .. } => vec![],
    }
}

/// The expression and all within it, in the order of their text.
pub fn nodes(root: &Ast) -> Vec<&Ast> {
    let mut found = vec![];
    let mut rest = vec![root];
    while let Some(node) = rest.pop() {
        found.push(node);
        rest.extend(children(node).into_iter().rev());
    }
    found
}
