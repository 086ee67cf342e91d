#include "kernels/cuda/runtime/stream.h"

#include <cuda_runtime_api.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace folio::kernels::cuda {
namespace {

absl::Status Missing(absl::string_view what) { return absl::FailedPreconditionError(what); }

absl::StatusOr<int> CountDevices() {
  int devices = 0;
  const cudaError_t found = cudaGetDeviceCount(&devices);
  if (found == cudaSuccess && devices > 0) return devices;
  cudaGetLastError();  // clears the error, which later work must not report
  if (found == cudaSuccess || found == cudaErrorNoDevice) {
    return Missing("the CUDA driver sees no GPU here");
  }
  int driver = 0;
  int runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return Missing("there is no CUDA driver here");
  }
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess || driver >= runtime) {
    return Missing(absl::StrCat("the CUDA driver does not start: ", cudaGetErrorString(found)));
  }
  const auto version = [](int number) {
    return absl::StrCat(number / 1000, ".", number % 1000 / 10);
  };
  return Missing(absl::StrCat("the CUDA driver here is too old: it is of CUDA ", version(driver),
                              " and this program was built with ", version(runtime)));
}

absl::StatusOr<cudaDeviceProp> PropertiesOf(int ordinal) {
  cudaDeviceProp properties;
  absl::Status status =
      CudaStatus(absl::StrCat("GPU ", ordinal), cudaGetDeviceProperties(&properties, ordinal));
  if (!status.ok()) return status;
  return properties;
}

// Written as nvidia-smi writes it.
std::string UuidOf(const cudaDeviceProp& properties) {
  std::string hex = absl::BytesToHexString({properties.uuid.bytes, sizeof(properties.uuid.bytes)});
  for (const size_t at : {20, 16, 12, 8}) hex.insert(at, 1, '-');
  return absl::StrCat("GPU-", hex);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> DeviceUuids() {
  const auto devices = CountDevices();
  if (!devices.ok()) return devices.status();
  std::vector<std::string> uuids;
  for (int ordinal = 0; ordinal < *devices; ++ordinal) {
    const auto properties = PropertiesOf(ordinal);
    if (!properties.ok()) return properties.status();
    uuids.push_back(UuidOf(*properties));
  }
  return uuids;
}

absl::StatusOr<DeviceInfo> UseDevice(int ordinal) {
  const auto devices = CountDevices();
  if (!devices.ok()) return devices.status();
  if (ordinal < 0 || ordinal >= *devices) {
    return Missing(
        absl::StrCat("there is no GPU ", ordinal, "; GPUs here are numbered 0 to ", *devices - 1));
  }
  const auto properties = PropertiesOf(ordinal);
  if (!properties.ok()) return properties.status();
  DeviceInfo info = {ordinal,           UuidOf(*properties),
                     properties->name,  properties->major,
                     properties->minor, static_cast<uint32_t>(properties->multiProcessorCount)};
  if (info.major < kMinMajor) {
    return Missing(absl::StrCat("GPU ", ordinal, " (", info.name, ") has compute capability ",
                                info.major, ".", info.minor, "; ", kMinMajor,
                                ".0 or newer is needed"));
  }
  absl::Status status = BindDevice(ordinal);
  if (!status.ok()) return status;
  status = CudaStatus("its memory", cudaMemGetInfo(&info.free_bytes, &info.total_bytes));
  if (!status.ok()) return status;
  return info;
}

int CurrentDevice() {
  int ordinal = 0;
  return cudaGetDevice(&ordinal) == cudaSuccess ? ordinal : 0;
}

absl::Status BindDevice(int ordinal) {
  return CudaStatus(absl::StrCat("GPU ", ordinal), cudaSetDevice(ordinal));
}

absl::StatusOr<OwnedStream> OwnedStream::Create() {
  cudaStream_t stream = nullptr;
  const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return CudaStatus("cannot make a stream", error);
  return OwnedStream(stream);
}

OwnedStream::~OwnedStream() {
  if (stream_ == nullptr) return;
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

absl::Status RunAll(std::initializer_list<absl::FunctionRef<absl::Status()>> works) {
  for (const auto& work : works) {
    if (absl::Status status = work(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status WaitFor(Stream stream) {
  return CudaStatus("the device failed", cudaStreamSynchronize(stream));
}

absl::StatusOr<Event> Event::Create() {
  cudaEvent_t event = nullptr;
  const cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (error != cudaSuccess) return CudaStatus("cannot make an event", error);
  return Event(event);
}

Event::~Event() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

absl::Status Event::Record(Stream stream) {
  return CudaStatus("cannot record an event", cudaEventRecord(event_, stream));
}

absl::Status Event::Wait() const {
  return CudaStatus("the device failed", cudaEventSynchronize(event_));
}

absl::Status CopyToDevice(Stream stream, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return CudaStatus("a copy to the device was not enqueued",
                    cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
}

absl::Status CopyToHost(Stream stream, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return CudaStatus("a copy from the device was not enqueued",
                    cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
}

absl::Status CopyRows(Stream stream, void* to, size_t to_stride, const void* from,
                      size_t from_stride, size_t row_bytes, size_t rows) {
  if (row_bytes == 0 || rows == 0) return absl::OkStatus();
  return CudaStatus("a copy on the device was not enqueued",
                    cudaMemcpy2DAsync(to, to_stride, from, from_stride, row_bytes, rows,
                                      cudaMemcpyDeviceToDevice, stream));
}

}  // namespace folio::kernels::cuda
