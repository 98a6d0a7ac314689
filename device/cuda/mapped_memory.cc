#include "device/cuda/mapped_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace castor::cuda {

absl::StatusOr<std::unique_ptr<MappedMemory>> MappedMemory::Create(
    Api* api, int ordinal, int64_t bytes, int64_t most_bytes) {
  CASTOR_ASSIGN_OR_RETURN(const int64_t granularity,
                          api->MappingGranularity(ordinal));
  std::unique_ptr<MappedMemory> memory(
      new MappedMemory(api, ordinal, granularity));
  const int64_t kept = RoundUp(std::max(bytes, most_bytes), granularity);
  CASTOR_ASSIGN_OR_RETURN(void* const begin, api->ReserveAddresses(kept));
  memory->begin_ = static_cast<std::byte*>(begin);
  memory->kept_bytes_ = kept;
  CASTOR_RETURN_IF_ERROR(memory->Resize(bytes));
  return memory;
}

MappedMemory::~MappedMemory() {
  UnmapBehind(0);
  if (begin_ != nullptr) api_->FreeAddresses(begin_, kept_bytes_);
}

absl::Status MappedMemory::Resize(int64_t bytes) {
  if (bytes > kept_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no addresses for a block of ", bytes, " bytes: ", kept_bytes_,
        " are kept for it; ask for less, or for all that is of "
        "use (\"unlimited\")"));
  }
  const int64_t mapped = RoundUp(bytes, granularity_);
  const int64_t before = mapped_bytes();
  while (mapped_bytes() < mapped) {
    const int64_t begin = mapped_bytes();
    const int64_t piece =
        std::min(std::max(kPieceBytes, granularity_), mapped - begin);
    const absl::Status made = api_->MapMemory(ordinal_, begin_ + begin, piece);
    if (!made.ok()) {
      UnmapBehind(before);
      return made;
    }
    ends_.push_back(begin + piece);
  }
  UnmapBehind(mapped);
  return absl::OkStatus();
}

void MappedMemory::UnmapBehind(int64_t bytes) {
  while (!ends_.empty()) {
    const int64_t begin = ends_.size() > 1 ? ends_[ends_.size() - 2] : 0;
    if (begin < bytes) return;
    api_->UnmapMemory(begin_ + begin, ends_.back() - begin);
    ends_.pop_back();
  }
}

}  // namespace castor::cuda
