//! Parses and validates every variant of a kernel with naga and reads its bindings, workgroup and structs.

use crate::link::{Constant, Linked, Needs};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{AddressSpace, Module, ScalarKind, StorageAccess, TypeInner};

/// What is bound at an index.
#[derive(Clone, Copy, PartialEq)]
pub enum Binding {
    Uniform { bytes: u32 },
    Read,
    ReadWrite,
}

/// A struct of 4-byte members without holes.
#[derive(Clone, PartialEq)]
pub struct Struct {
    pub name: String,
    /// Name and Rust type.
    pub members: Vec<(String, &'static str)>,
}

pub struct Kernel {
    pub name: String,
    pub source: String,
    pub constants: Vec<Constant>,
    pub bindings: Vec<Binding>,
    pub structs: Vec<Struct>,
    pub needs: Needs,
}

/// WebGPU's guaranteed number; kernels stay within it so that they run everywhere.
const MAX_STORAGE_BUFFERS: usize = 8;

pub fn reflect(name: String, linked: Linked) -> Result<Kernel, String> {
    let mut found: Option<(Vec<Binding>, Vec<Struct>)> = None;
    for front in variants(&linked.constants) {
        let text = format!("{}{front}{}", linked.needs.front(), linked.source);
        let module = validate(&name, &text, linked.needs)?;
        let this = (bindings(&name, &module)?, structs(&name, &module)?);
        if found.as_ref().is_some_and(|f| *f != this) {
            return Err(format!("{name}: bindings or structs differ between variants"));
        }
        found = Some(this);
    }
    let (bindings, structs) = found.ok_or_else(|| format!("{name}: no variant"))?;
    let storage = bindings.iter().filter(|b| !matches!(b, Binding::Uniform { .. })).count();
    if storage > MAX_STORAGE_BUFFERS {
        return Err(format!("{name}: {storage} storage buffers, at most {MAX_STORAGE_BUFFERS} are portable"));
    }
    Ok(Kernel {
        name,
        source: linked.source,
        constants: linked.constants,
        bindings,
        structs,
        needs: linked.needs,
    })
}

/// Combinations of values that are all validated; of more, those that differ from the first or from the last one in
/// one value.
const ALL: usize = 24;

/// The `const` lines of the combinations of values that are validated.
fn variants(constants: &[Constant]) -> Vec<String> {
    let line = |c: &Constant, v: &str| format!("const {}: {} = {v};\n", c.name, c.ty);
    if constants.iter().map(|c| c.values.len()).product::<usize>() <= ALL {
        let add = |fronts: Vec<String>, c: &Constant| {
            let with = |front: &String| -> Vec<String> {
                c.values.iter().map(|v| format!("{front}{}", line(c, v))).collect()
            };
            fronts.iter().flat_map(with).collect()
        };
        return constants.iter().fold(vec![String::new()], add);
    }
    let mut fronts = std::collections::BTreeSet::new();
    for corner in [0, usize::MAX] {
        for changed in constants {
            for value in &changed.values {
                let of = |c: &Constant| {
                    let base = &c.values[corner.min(c.values.len() - 1)];
                    line(c, if c.name == changed.name { value } else { base })
                };
                fronts.insert(constants.iter().map(of).collect::<String>());
            }
        }
    }
    fronts.into_iter().collect()
}

fn validate(name: &str, text: &str, needs: Needs) -> Result<Module, String> {
    let path = format!("wgsl/{name}.wgsl (linked)");
    let module = naga::front::wgsl::parse_str(text).map_err(|e| e.emit_to_string_with_path(text, &path))?;
    // WGSL everywhere has `unpack2x16float`; naga counts it among what a device may lack.
    let mut capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    capabilities.set(Capabilities::SUBGROUP, needs.subgroups);
    capabilities.set(Capabilities::SHADER_FLOAT16, needs.f16);
    capabilities.set(Capabilities::COOPERATIVE_MATRIX, needs.cooperative);
    Validator::new(ValidationFlags::all(), capabilities)
        .validate(&module)
        .map_err(|e| e.emit_to_string_with_path(text, &path))?;
    match &module.entry_points[..] {
        [entry] if entry.name == "main" => Ok(module),
        _ => Err(format!("{name}: exactly one entry point, main, is expected")),
    }
}

fn bindings(name: &str, module: &Module) -> Result<Vec<Binding>, String> {
    let mut all = Vec::new();
    for (_, global) in module.global_variables.iter() {
        let Some(at) = &global.binding else { continue };
        let binding = match global.space {
            AddressSpace::Uniform => {
                Binding::Uniform { bytes: module.types[global.ty].inner.size(module.to_ctx()) }
            }
            AddressSpace::Storage { access } if access.contains(StorageAccess::STORE) => Binding::ReadWrite,
            AddressSpace::Storage { .. } => Binding::Read,
            _ => return Err(format!("{name}: binding {} has an unknown kind", at.binding)),
        };
        all.push((at.group, at.binding, binding));
    }
    all.sort_by_key(|b| (b.0, b.1));
    for (i, b) in all.iter().enumerate() {
        if (b.0, b.1 as usize) != (0, i) || (i == 0) != matches!(b.2, Binding::Uniform { .. }) {
            return Err(format!("{name}: bindings are group 0, the uniform at 0, then storage without gaps"));
        }
    }
    Ok(all.into_iter().map(|b| b.2).collect())
}

fn structs(name: &str, module: &Module) -> Result<Vec<Struct>, String> {
    let mut all: Vec<Struct> = Vec::new();
    // What the host sees: structs of bindings. Those that only the kernel uses may have any members.
    let bound = module.global_variables.iter().filter(|(_, global)| global.binding.is_some());
    for (_, global) in bound {
        let ty = match module.types[global.ty].inner {
            TypeInner::Array { base, .. } => &module.types[base],
            _ => &module.types[global.ty],
        };
        let (Some(type_name), TypeInner::Struct { members, span }) = (&ty.name, &ty.inner) else { continue };
        if all.iter().any(|s| s.name == *type_name) {
            continue;
        }
        let mut twin = Vec::new();
        for (i, member) in members.iter().enumerate() {
            let rust = match &module.types[member.ty].inner {
                TypeInner::Scalar(s) if s.width == 4 => match s.kind {
                    ScalarKind::Uint => Some("u32"),
                    ScalarKind::Sint => Some("i32"),
                    ScalarKind::Float => Some("f32"),
                    _ => None,
                },
                _ => None,
            };
            let field = member.name.clone().unwrap_or_default();
            let rust = rust.filter(|_| member.offset as usize == 4 * i);
            twin.push((
                field.clone(),
                rust.ok_or_else(|| format!("{name}: {type_name}.{field}: 4-byte scalars only"))?,
            ));
        }
        if *span as usize != 4 * members.len() {
            return Err(format!("{name}: {type_name} has a hole at its end"));
        }
        all.push(Struct { name: type_name.clone(), members: twin });
    }
    Ok(all)
}
