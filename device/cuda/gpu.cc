#include "device/cuda/gpu.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace castor::cuda {
namespace {

// Code of cuBLASLt's kernels (loaded lazily, some ten MiB) and CUDA's own
// buffers. Kept until a GPU has shown what it is:
// tools/gpu_check.sh prints what a run took beside its arena.
constexpr int64_t kMarginBytes = int64_t{512} << 20;
// The process's context with the code of our kernels, of a GPU that is not
// here: PyTorch's take 400 to 500 MiB.
constexpr int64_t kContextBytes = int64_t{512} << 20;

}  // namespace

std::string GpuMemory::ToString() const {
  return absl::StrCat(FormatBytes(usable_bytes()), " (free ",
                      FormatBytes(free_bytes), " of ", FormatBytes(total_bytes),
                      ", less ", FormatBytes(margin_bytes),
                      " for CUDA's own needs)");
}

absl::StatusOr<GpuMemory> MeasureMemory(Api* api, int ordinal,
                                        absl::Status (*load_kernels)()) {
  CASTOR_RETURN_IF_ERROR(api->CountDevices().status());
  CASTOR_RETURN_IF_ERROR(api->UseDevice(ordinal));
  // The context comes with the first stream at the latest.
  CASTOR_ASSIGN_OR_RETURN(const Api::Stream stream, api->CreateStream(false));
  api->DestroyStream(stream);
  CASTOR_RETURN_IF_ERROR(api->LoadMove());
  if (load_kernels != nullptr) CASTOR_RETURN_IF_ERROR(load_kernels());
  GpuMemory memory;
  CASTOR_RETURN_IF_ERROR(
      api->MemoryInfo(&memory.free_bytes, &memory.total_bytes));
  memory.margin_bytes = std::min(memory.free_bytes, kMarginBytes);
  return memory;
}

GpuMemory ExpectMemory(int64_t total_bytes) {
  GpuMemory memory;
  memory.total_bytes = total_bytes;
  memory.free_bytes = std::max<int64_t>(0, total_bytes - kContextBytes);
  memory.margin_bytes = std::min(memory.free_bytes, kMarginBytes);
  return memory;
}

}  // namespace castor::cuda
