//! The backend as a whole, on small random models.

mod behaviour;
mod identity;
mod kv;
mod lowrank;
mod model;
mod naive;
