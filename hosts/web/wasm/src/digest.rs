//! SHA-256 of what arrives in pieces, which a page's own cryptography cannot do.

use sha2::{Digest as _, Sha256};
use wasm_bindgen::prelude::wasm_bindgen;

/// A digest in the making.
#[wasm_bindgen]
#[derive(Default)]
pub struct Digest(Sha256);

#[wasm_bindgen]
impl Digest {
    /// Of nothing yet.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes, in hexadecimal.
    pub fn hex(&self) -> String {
        self.0.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_digest_of_the_whole() {
        let mut digest = Digest::new();
        digest.update(b"a");
        digest.update(b"bc");
        assert_eq!(digest.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
