//! Choosing an adapter: by what it is and by name, never by a timing run.

use super::GpuOptions;
use crate::error::{Error, Result};

/// The adapter that the options ask for.
pub async fn choose(options: &GpuOptions) -> Result<wgpu::Adapter> {
    if wgpu::Instance::enabled_backend_features().is_empty() {
        return Err(Error::Device { reason: "this build has no GPU interface for this target".into() });
    }
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    // An embedded engine loads no validation layers unless the environment asks for them.
    descriptor.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(descriptor.with_env());
    let mut adapters = instance.enumerate_adapters(wgpu::Backends::all().with_env()).await;
    let names: Vec<String> = adapters.iter().map(describe).collect();
    adapters.retain(|a| wanted(&a.get_info(), options));
    adapters.sort_by_key(|a| rank(a.get_info().device_type));
    adapters.into_iter().next().ok_or_else(|| Error::Device { reason: absent(&names, options) })
}

/// Name, kind and interface, for people.
pub fn describe(adapter: &wgpu::Adapter) -> String {
    let info = adapter.get_info();
    let software = if info.device_type == wgpu::DeviceType::Cpu { ", software" } else { "" };
    format!("{} ({}{software})", info.name, info.backend)
}

fn wanted(info: &wgpu::AdapterInfo, options: &GpuOptions) -> bool {
    let named = match &options.adapter {
        Some(part) => info.name.to_lowercase().contains(&part.to_lowercase()),
        None => true,
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
        let llvmpipe = info("llvmpipe (LLVM 15)", wgpu::DeviceType::Cpu);
        let h200 = info("NVIDIA H200", wgpu::DeviceType::DiscreteGpu);
        for (adapter, allow_software, want) in [
            (None, false, [false, true]),
            (None, true, [true, true]),
            (Some("h200"), true, [false, true]),
            (Some("LLVM"), true, [true, false]),
            (Some("llvm"), false, [false, false]),
        ] {
            let options =
                GpuOptions { adapter: adapter.map(str::to_string), allow_software, ..Default::default() };
            assert_eq!([wanted(&llvmpipe, &options), wanted(&h200, &options)], want, "{options:?}");
        }
    }
}
