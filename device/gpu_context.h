// What a piece of work finds when it runs on a GPU's stream.
//
// A Work on such a stream runs on the stream's launching thread: it queues
// kernels on `stream` and returns. It neither waits for them nor reads or
// writes device memory itself. (One that exchanges host memory with other
// processes has its turn come first, by finish_earlier.)
//
// No header of CUDA is included here, so that all layers may pass it on.
#ifndef CASTOR_DEVICE_GPU_CONTEXT_H_
#define CASTOR_DEVICE_GPU_CONTEXT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace castor {

namespace kernels {
struct KernelTable;  // kernels/kernel_table.h
}  // namespace kernels

// What a kernel found wrong with its input (an index out of range): a piece of
// work has one, in host memory that kernels may write. The first one counts: a
// thread that takes `code` from 0 by a compare-and-swap fills in the rest. It
// is looked at when the work is over, and becomes the stream's failure by
// KernelTable::describe_fault.
struct GpuFault {
  uint32_t code = 0;  // 0: none; else as kernels/ numbers them
  uint32_t pad = 0;
  int64_t detail[3] = {};
};

// The name of a piece of work, for failures that show after it was queued. What
// is too long loses its beginning. No allocation.
class WorkName {
 public:
  void Set(absl::string_view name) {
    name.remove_prefix(name.size() - std::min(name.size(), sizeof(text_)));
    std::memcpy(text_, name.data(), name.size());
    size_ = static_cast<uint8_t>(name.size());
  }
  absl::string_view get() const { return {text_, size_}; }

 private:
  char text_[63];
  uint8_t size_ = 0;
};

struct GpuContext {
  void* stream = nullptr;  // cudaStream_t
  const kernels::KernelTable* kernels = nullptr;
  int multiprocessors = 0;
  int compute_capability = 0;  // 10 * major + minor: 80, 90
  GpuFault* fault = nullptr;   // as the GPU sees it
  // The kernels' own state of this stream (library handles, plans). Empty at
  // first; whoever needs it fills it. Used by the stream's launching thread
  // alone; destroyed with the device, after all work is over.
  std::shared_ptr<void>* library_state = nullptr;
  WorkName* name = nullptr;  // of the work at hand
  // Shows the rest of the work at hand to a profiler; null where none is asked.
  const absl::FunctionRef<void(const char*)>* begin_range = nullptr;
  // Returns when the driver's queue has room for so many launches more
  // (device/cuda/queue_room.h); null where nobody counts.
  const absl::FunctionRef<void(int64_t)>* before_launches = nullptr;
  // Returns when what was queued on this stream before, waits included, is
  // over. By the work alone, while it runs.
  const absl::FunctionRef<void()>* finish_earlier = nullptr;

  // The work at hand calls it before it queues anything, to say what it is
  // called in messages and by profilers.
  void SetName(const std::string& what) const {
    name->Set(what);
    if (begin_range != nullptr) (*begin_range)(what.c_str());
  }
  // Whoever queues kernels, copies or events on the stream calls it first, with
  // how many.
  void BeforeLaunches(int64_t count) const {
    if (before_launches != nullptr) (*before_launches)(count);
  }
};

}  // namespace castor

#endif  // CASTOR_DEVICE_GPU_CONTEXT_H_
