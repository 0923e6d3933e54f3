//! The GPU backend against transformers' fixtures, on whatever Vulkan adapter is there: in the checks that is
//! Mesa's lavapipe. Without one the tests say so and pass, unless `LEAN_REQUIRE_GPU=1`.
#![cfg(feature = "gpu")]

mod common;
mod facade;
mod failures;
mod fixtures;
mod selection;
mod states;
