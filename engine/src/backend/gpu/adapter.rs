//! Choosing an adapter: by what it is, by number or by name, never by a timing run.

use super::GpuOptions;
use crate::error::{Error, Result};

/// An adapter, as `lean devices` lists it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct GpuDevice {
    /// What [`GpuOptions::adapter`] may say instead of a part of its name.
    pub index: usize,
    /// The adapter's name.
    pub name: String,
    /// The interface that it is driven through.
    pub interface: String,
    /// `discrete`, `integrated`, `virtual`, `software` or `other`.
    pub kind: &'static str,
    /// Name and version of the driver, where it says.
    pub driver: String,
    /// Bytes of the largest storage binding: a wider matrix is bound in pieces.
    pub max_binding: u64,
    /// Bytes of the largest buffer.
    pub max_buffer: u64,
    /// Bytes of workgroup memory.
    pub workgroup_memory: u32,
    /// Fewest and most invocations of a subgroup; both 0 without subgroup operations.
    pub subgroup: [u32; 2],
    /// Features that kernels use or could use.
    pub features: Vec<&'static str>,
}

/// Every adapter, software ones too, best first.
///
/// # Errors
/// [`Error::Device`] where this build has no GPU interface for this target.
pub fn devices() -> Result<Vec<GpuDevice>> {
    let adapters = super::pair::block_on(all())??;
    Ok(adapters.iter().enumerate().map(|(index, adapter)| device(index, adapter)).collect())
}

/// Keeps Mesa's device selection quiet, which asks a display server for its device and prints errors where there is none:
/// adapters are chosen here. It changes the environment, so it is for programs of their own, before they have threads.
pub fn without_mesas_device_selection() {
    if std::env::var_os("NODEVICE_SELECT").is_none() {
        std::env::set_var("NODEVICE_SELECT", "1");
    }
}

fn device(index: usize, adapter: &wgpu::Adapter) -> GpuDevice {
    use wgpu::Features as F;
    let (info, limits, has) = (adapter.get_info(), adapter.limits(), adapter.features());
    let known = [
        (F::SUBGROUP, "subgroup"),
        (F::SHADER_F16, "f16"),
        (F::EXPERIMENTAL_COOPERATIVE_MATRIX, "cooperative-matrix"),
        (F::PIPELINE_CACHE, "pipeline-cache"),
    ];
    let subgroup = match has.contains(F::SUBGROUP) {
        true => [info.subgroup_min_size, info.subgroup_max_size],
        false => [0, 0],
    };
    GpuDevice {
        index,
        name: info.name.clone(),
        interface: info.backend.to_string(),
        kind: kind(info.device_type),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_string(),
        max_binding: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size),
        max_buffer: limits.max_buffer_size,
        workgroup_memory: limits.max_compute_workgroup_storage_size,
        subgroup,
        features: known.into_iter().filter(|(f, _)| has.contains(*f)).map(|(_, name)| name).collect(),
    }
}

fn kind(kind: wgpu::DeviceType) -> &'static str {
    match kind {
        wgpu::DeviceType::DiscreteGpu => "discrete",
        wgpu::DeviceType::IntegratedGpu => "integrated",
        wgpu::DeviceType::VirtualGpu => "virtual",
        wgpu::DeviceType::Cpu => "software",
        wgpu::DeviceType::Other => "other",
    }
}

/// All adapters, best first.
async fn all() -> Result<Vec<wgpu::Adapter>> {
    super::pair::may_look()?;
    if wgpu::Instance::enabled_backend_features().is_empty() {
        return Err(Error::Device { reason: "this build has no GPU interface for this target".into() });
    }
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    // An embedded engine loads no validation layers unless the environment asks for them.
    descriptor.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(descriptor.with_env());
    let mut adapters = instance.enumerate_adapters(wgpu::Backends::all().with_env()).await;
    adapters.sort_by_key(|a| rank(a.get_info().device_type));
    Ok(adapters)
}

/// The adapter that the options ask for.
pub async fn choose(options: &GpuOptions) -> Result<wgpu::Adapter> {
    let mut adapters = all().await?;
    let names: Vec<String> = adapters.iter().map(describe).collect();
    let infos: Vec<wgpu::AdapterInfo> = adapters.iter().map(wgpu::Adapter::get_info).collect();
    match pick(&infos, options) {
        Some(at) => Ok(adapters.swap_remove(at)),
        None => Err(Error::Device { reason: absent(&names, options) }),
    }
}

/// The place of the wanted adapter among all of them, best first.
fn pick(infos: &[wgpu::AdapterInfo], options: &GpuOptions) -> Option<usize> {
    let fits = |at: &usize| wanted(*at, &infos[*at], options);
    match options.adapter.as_deref() {
        // The weakest of those that are no software.
        Some("low-power") => (0..infos.len()).filter(fits).min_by_key(|at| match infos[*at].device_type {
            wgpu::DeviceType::IntegratedGpu => 0,
            wgpu::DeviceType::Cpu => 2,
            _ => 1,
        }),
        _ => (0..infos.len()).find(fits),
    }
}

/// Name, kind and interface, for people.
pub fn describe(adapter: &wgpu::Adapter) -> String {
    let info = adapter.get_info();
    let software = if info.device_type == wgpu::DeviceType::Cpu { ", software" } else { "" };
    // Browsers keep the name to themselves.
    let name = if info.name.is_empty() { "the browser's adapter" } else { &info.name };
    format!("{name} ({}{software})", info.backend)
}

fn wanted(index: usize, info: &wgpu::AdapterInfo, options: &GpuOptions) -> bool {
    let named = match options.adapter.as_deref() {
        None | Some("low-power" | "high-performance") => true,
        Some(number) if number.parse::<usize>().is_ok_and(|n| n == index) => true,
        Some(part) => {
            part.parse::<usize>().is_err() && info.name.to_lowercase().contains(&part.to_lowercase())
        }
    };
    named && (options.allow_software || info.device_type != wgpu::DeviceType::Cpu)
}

fn rank(kind: wgpu::DeviceType) -> u8 {
    match kind {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    }
}

fn absent(names: &[String], options: &GpuOptions) -> String {
    let found = if names.is_empty() { "none".to_string() } else { names.join("; ") };
    let asked = match &options.adapter {
        Some(part) => format!("no GPU adapter named like {part:?}"),
        None => "no GPU adapter".to_string(),
    };
    let software = if options.allow_software { "" } else { " (software adapters were not asked for)" };
    format!("{asked}{software}; found: {found}; the CPU backend runs everywhere")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str, kind: wgpu::DeviceType) -> wgpu::AdapterInfo {
        let mut info = wgpu::AdapterInfo::new(kind, wgpu::Backend::Vulkan);
        info.name = name.into();
        info
    }

    #[test]
    fn software_only_on_request_and_names_by_part() {
        // In the order of their rank.
        let infos = [
            info("NVIDIA H200", wgpu::DeviceType::DiscreteGpu),
            info("Some integrated GPU", wgpu::DeviceType::IntegratedGpu),
            info("llvmpipe (LLVM 15)", wgpu::DeviceType::Cpu),
        ];
        for (adapter, allow_software, want) in [
            (None, false, Some(0)),
            (None, true, Some(0)),
            (Some("h200"), true, Some(0)),
            (Some("LLVM"), true, Some(2)),
            (Some("llvm"), false, None),
            (Some("1"), false, Some(1)),
            (Some("2"), false, None),
            (Some("2"), true, Some(2)),
            (Some("7"), true, None),
            (Some("low-power"), true, Some(1)),
            (Some("high-performance"), true, Some(0)),
        ] {
            let options =
                GpuOptions { adapter: adapter.map(str::to_string), allow_software, ..Default::default() };
            assert_eq!(pick(&infos, &options), want, "{options:?}");
        }
    }
}
