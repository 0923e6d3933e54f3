//! Batches from all runnable work of a model.
