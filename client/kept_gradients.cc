#include "client/kept_gradients.h"

#include <cstdint>
#include <cstring>

#include "base/status_macros.h"
#include "kernels/add/add.h"
#include "kernels/run.h"

namespace castor {

void KeptGradients::Open(const ChunkLayout* layout, DType dtype,
                         HostMemory* host, ThreadPool* pool) {
  layout_ = layout;
  dtype_ = dtype;
  host_ = host;
  pool_ = pool;
  Clear();
}

absl::Status KeptGradients::Add(ParamId parameter, const std::byte* gradient) {
  const ChunkPlace place = layout_->place(parameter);
  const int64_t elements = layout_->parameter(parameter).elements;
  HostBlock& block = blocks_[place.chunk.value];
  if (block.data() == nullptr) {
    CASTOR_ASSIGN_OR_RETURN(
        block, host_->Allocate(layout_->payload_bytes(place.chunk),
                               Category::kGradients, "recorded gradients"));
  }
  std::byte* const to = block.data() + place.offset * SizeOf(dtype_);
  if (has_[parameter.value]) {
    return kernels::Run(ExecContext{.pool = pool_},
                        kernels::AddArgs{.dtype = dtype_,
                                         .size = elements,
                                         .a = to,
                                         .b = gradient,
                                         .y = to});
  }
  std::memcpy(to, gradient, elements * SizeOf(dtype_));
  has_[parameter.value] = true;
  return absl::OkStatus();
}

void KeptGradients::Clear() {
  blocks_.clear();
  blocks_.resize(layout_->num_chunks());
  has_.assign(layout_->parameters.size(), false);
}

}  // namespace castor
