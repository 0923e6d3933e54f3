//! The Generation object that joins context, backend, matcher and sampler.
