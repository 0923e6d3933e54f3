//! The backend as a whole, on small random models.

mod behaviour;
mod identity;
mod kernels;
mod kv;
mod lowrank;
mod model;
mod naive;
