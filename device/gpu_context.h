// The context of a piece of work on a GPU's stream.
//
// A Work on such a stream runs on the stream's launching thread: it queues
// kernels on `stream` and returns. It neither waits for them nor reads or
// writes device memory itself. (A work that exchanges host memory with other
// processes first waits for the stream's earlier work, by finish_earlier.)
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

// An error that a kernel finds in its input (an index out of range). Each piece
// of work has one, in host memory that kernels may write. The first error
// counts: the thread that changes `code` from 0 by a compare-and-swap fills in
// the rest. When the work is over the fault is read, and
// KernelTable::describe_fault makes it the stream's failure.
struct GpuFault {
  uint32_t code = 0;  // 0: none; else a code of kernels/
  uint32_t pad = 0;
  int64_t detail[3] = {};
};

// The name of a piece of work, for failures that show after it was queued. A
// name that is too long loses its beginning. Does not allocate.
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
  GpuFault* fault = nullptr;   // GPU address
  // The kernels' own state of this stream (library handles, plans). Empty at
  // first; the first work that needs it fills it. Only the stream's launching
  // thread uses it; destroyed with the device, after all work is over.
  std::shared_ptr<void>* library_state = nullptr;
  WorkName* name = nullptr;  // of the running work
  // Begins a profiler's range for the rest of the running work; null without a
  // profiler.
  const absl::FunctionRef<void(const char*)>* begin_range = nullptr;
  // Returns when the driver's queue has room for that many more launches
  // (device/cuda/queue_room.h); null if launches are not counted.
  const absl::FunctionRef<void(int64_t)>* before_launches = nullptr;
  // Returns when all that was queued on this stream before, waits included, is
  // over. Only the running work may call it.
  const absl::FunctionRef<void()>* finish_earlier = nullptr;

  // Sets the running work's name for messages and profilers; the work calls it
  // before it queues anything.
  void SetName(const std::string& what) const {
    name->Set(what);
    if (begin_range != nullptr) (*begin_range)(what.c_str());
  }
  // Waits for room; must be called before `count` kernels, copies or events are
  // queued on the stream.
  void BeforeLaunches(int64_t count) const {
    if (before_launches != nullptr) (*before_launches)(count);
  }
};

}  // namespace castor

#endif  // CASTOR_DEVICE_GPU_CONTEXT_H_
