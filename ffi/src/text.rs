//! Strings that C reads.

use std::ffi::c_char;

/// Text followed by a NUL byte that its length does not count.
pub(crate) struct Text(String);

impl Text {
    pub fn new(text: impl Into<String>) -> Self {
        let mut text = text.into();
        text.push('\0');
        Text(text)
    }

    pub fn ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }

    pub fn len(&self) -> usize {
        self.0.len() - 1
    }
}

impl Default for Text {
    fn default() -> Self {
        Text::new("")
    }
}
