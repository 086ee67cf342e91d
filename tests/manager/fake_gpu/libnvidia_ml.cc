// A stand-in for libnvidia-ml.so.1, of the same devices as the libcuda.so.1 beside it. See knobs.h.
#include <array>
#include <cstdio>
#include <string>

#include "services/manager/memory/cuda_abi.h"
#include "tests/manager/fake_gpu/knobs.h"

struct folio::manager::abi::NvmlDeviceHandle {};

namespace {

using folio::manager::abi::NvmlDevice;
using folio::manager::abi::NvmlMemory;
using folio::manager::abi::NvmlResult;
using folio::testing::fake_gpu::Bytes;
using folio::testing::fake_gpu::Called;
using folio::testing::fake_gpu::Count;
using folio::testing::fake_gpu::Knob;
using folio::testing::fake_gpu::UuidByte;

constexpr NvmlResult kInvalidArgument = 2, kNotFound = 6;

std::string Uuid(int device) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char byte[4];
    std::snprintf(byte, sizeof(byte), "%02x", static_cast<unsigned char>(UuidByte(device, i)));
    text += std::string(i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + byte;
  }
  return text;
}

std::array<folio::manager::abi::NvmlDeviceHandle, 64> devices;

int NumberOf(NvmlDevice device) { return static_cast<int>(device - devices.data()); }
NvmlDevice Handle(int number) { return &devices.at(number); }

}  // namespace

extern "C" {

NvmlResult nvmlInit_v2() { return Called("nvmlInit_v2"); }
NvmlResult nvmlShutdown() { return Called("nvmlShutdown"); }

NvmlResult nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(Count());
  return Called("nvmlDeviceGetCount");
}

NvmlResult nvmlDeviceGetHandleByIndex_v2(unsigned index, NvmlDevice* device) {
  if (index >= static_cast<unsigned>(Count())) return kInvalidArgument;
  *device = Handle(static_cast<int>(index));
  return Called("nvmlDeviceGetHandleByIndex");
}

NvmlResult nvmlDeviceGetHandleByUUID(const char* uuid, NvmlDevice* device) {
  for (int number = 0; number < Count(); ++number) {
    *device = Handle(number);
    if (Uuid(number) == uuid) return Called("nvmlDeviceGetHandleByUUID");
  }
  return kNotFound;
}

NvmlResult nvmlDeviceGetName(NvmlDevice device, char* name, unsigned length) {
  std::snprintf(name, length, "Fake H%d00", NumberOf(device) + 1);
  return Called("nvmlDeviceGetName");
}

NvmlResult nvmlDeviceGetMemoryInfo(NvmlDevice device, NvmlMemory* memory) {
  // Somebody else has 1 MiB of device 1.
  const unsigned long long used = static_cast<unsigned long long>(NumberOf(device)) << 20;
  *memory = {Bytes(), Bytes() - used, used};
  return Called("nvmlDeviceGetMemoryInfo");
}

NvmlResult nvmlDeviceGetMigMode(NvmlDevice device, unsigned* current, unsigned* pending) {
  const bool mig = NumberOf(device) == 0 && !Knob("FAKE_GPU_MIG").empty();
  *current = *pending = mig ? 1 : 0;
  return Called("nvmlDeviceGetMigMode");
}

}  // extern "C"
