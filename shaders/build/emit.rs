//! The artifact's Rust text.

use crate::reflect::{Binding, Kernel, Struct};
use std::collections::BTreeMap;
use std::fmt::Write;

pub fn emit(kernels: &[Kernel]) -> Result<String, String> {
    let mut text = String::new();
    let mut structs: BTreeMap<&str, &Struct> = BTreeMap::new();
    for kernel in kernels {
        emit_kernel(&mut text, kernel);
        for s in &kernel.structs {
            if *structs.entry(&s.name).or_insert(s) != s {
                return Err(format!("{}: struct {} differs from another kernel's", kernel.name, s.name));
            }
        }
    }
    let names: Vec<String> = kernels.iter().map(|k| format!("&{}", k.name.to_uppercase())).collect();
    let _ = writeln!(
        text,
        "/// All kernels, by name.\npub static KERNELS: &[&Kernel] = &[{}];",
        names.join(", ")
    );
    for s in structs.values() {
        emit_struct(&mut text, s);
    }
    Ok(text)
}

fn emit_kernel(text: &mut String, kernel: &Kernel) {
    let constants: Vec<String> = kernel
        .constants
        .iter()
        .map(|c| format!("Constant {{ name: {:?}, ty: {:?}, values: &{:?} }}", c.name, c.ty, c.values))
        .collect();
    let bindings: Vec<String> = kernel
        .bindings
        .iter()
        .map(|b| match b {
            Binding::Uniform { bytes } => format!("Binding::Uniform {{ bytes: {bytes} }}"),
            Binding::Read => "Binding::Read".into(),
            Binding::ReadWrite => "Binding::ReadWrite".into(),
        })
        .collect();
    let _ = writeln!(
        text,
        "/// `wgsl/{name}.wgsl`.\npub static {upper}: Kernel = Kernel {{ name: {name:?}, source: {source:?}, \
         constants: &[{constants}], bindings: &[{bindings}], subgroups: {subgroups}, f16: {f16}, \
         cooperative: {cooperative}, front: {front:?} }};",
        name = kernel.name,
        upper = kernel.name.to_uppercase(),
        source = kernel.source,
        constants = constants.join(", "),
        bindings = bindings.join(", "),
        subgroups = kernel.needs.subgroups,
        f16 = kernel.needs.f16,
        cooperative = kernel.needs.cooperative,
        front = kernel.needs.front(),
    );
}

fn emit_struct(text: &mut String, s: &Struct) {
    let members: String = s.members.iter().map(|(name, ty)| format!("    pub {name}: {ty},\n")).collect();
    let _ = writeln!(
        text,
        "/// Twin of the shaders' `{name}`; its members are explained there.\n#[allow(missing_docs)]\n#[repr(C)]\n\
         #[derive(Debug, Clone, Copy, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]\n\
         pub struct {name} {{\n{members}}}",
        name = s.name,
    );
}
