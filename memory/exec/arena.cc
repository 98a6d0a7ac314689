#include "memory/exec/arena.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "memory/plan/addresses/compaction.h"
#include "memory/plan/plan.h"

namespace castor {
namespace {

// A BlockId is a slot and the number of times that it was taken.
constexpr int64_t kSlotBits = 24;
constexpr int64_t kMaxSlots = int64_t{1} << kSlotBits;

// With more free ranges than this, neighbours are merged and wait for the union
// of their fences, since many ranges cost time.
constexpr int64_t kManyFreeRanges = 512;

}  // namespace

absl::StatusOr<std::unique_ptr<Arena>> Arena::Create(
    Device* device, const ArenaOptions& options) {
  if (device == nullptr) {
    return absl::InvalidArgumentError("arena: needs a device");
  }
  return std::unique_ptr<Arena>(new Arena(device, options));
}

Arena::Arena(Device* device, const ArenaOptions& options)
    : device_(device),
      options_(options),
      memory_(device->memory()),
      capacity_bytes_(device->memory_bytes() / kBlockAlignment *
                      kBlockAlignment),
      most_capacity_bytes_(capacity_bytes_) {
  if (capacity_bytes_ == 0) return;
  Give(0, capacity_bytes_,
       options_.scribble_freed ? Scribble(0, capacity_bytes_, Fence())
                               : Fence());
}

const Arena::Block& Arena::Get(BlockId block) const {
  const int64_t slot = block.value & (kMaxSlots - 1);
  CASTOR_CHECK(block.valid() && slot < static_cast<int64_t>(slots_.size()));
  const Block& found = slots_[slot];
  CASTOR_CHECK(found.bytes > 0 && found.generation == block.value >> kSlotBits);
  return found;
}

Arena::Block& Arena::Get(BlockId block) {
  return const_cast<Block&>(std::as_const(*this).Get(block));
}

int64_t Arena::TakeSlot() {
  if (empty_slots_.empty()) {
    CASTOR_CHECK(static_cast<int64_t>(slots_.size()) < kMaxSlots);
    slots_.emplace_back();
    return slots_.size() - 1;
  }
  const int64_t slot = empty_slots_.back();
  empty_slots_.pop_back();
  return slot;
}

absl::StatusOr<BlockId> Arena::Allocate(int64_t bytes, Category category,
                                        End end, absl::string_view owner,
                                        int64_t at) {
  if (bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "arena: ", owner, " asks for ", bytes, " bytes; a size is at least 0"));
  }
  // Nothing that is larger fits, and rounding it could overflow.
  bytes = std::min(bytes, kUnlimitedBytes);
  const int64_t wanted =
      std::max<int64_t>(kBlockAlignment, RoundUp(bytes, kBlockAlignment));
  if (wanted > free_bytes()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "device memory: ", owner, " (", CategoryName(category), ") wants ",
        wanted, " bytes (", FormatBytes(wanted), "); free ", free_bytes(),
        " of ", capacity_bytes_, ", largest hole ", LargestHoleBytes(),
        "; in use: ", stats_.used.ToString(),
        "; it takes a memory.device_memory of at least ",
        wanted + stats_.used_bytes, " bytes"));
  }
  int64_t offset = at;
  if (at != kAnywhere) {
    const bool free = free_.Holds(at, wanted);
    ++(free ? stats_.placed_as_planned : stats_.misplaced);
    if (!free) offset = -1;
  }
  if (offset < 0) offset = FindFit(wanted, end, /*only_cheap=*/true);
  if (offset < 0) offset = FindFit(wanted, end, /*only_cheap=*/false);
  if (offset < 0) {
    Compact(wanted);
    ++stats_.compactions;
    offset = FindFit(wanted, end, /*only_cheap=*/false);
    CASTOR_CHECK(offset >= 0);
  }
  const int64_t slot = TakeSlot();
  Block& block = slots_[slot];
  block.offset = offset;
  block.bytes = wanted;
  ++block.generation;
  block.end = end;
  block.a = block.b = category;
  block.bytes_of_b = 0;
  block.written = block.held = false;
  block.ready = Fence();
  block.last_use = Take(offset, wanted);
  block.owner.assign(owner.data(), owner.size());
  blocks_.emplace(offset, slot);
  Account(block, 1);
  UpdatePeaks();
  return BlockId(block.generation << kSlotBits | slot);
}

void Arena::Free(BlockId id) {
  Block& block = Get(id);
  Account(block, -1);
  blocks_.erase(block.offset);
  Give(block.offset, block.bytes,
       options_.scribble_freed
           ? Scribble(block.offset, block.bytes, block.last_use)
           : block.last_use);
  block.bytes = 0;
  empty_slots_.push_back(id.value & (kMaxSlots - 1));
}

bool Arena::Claim(int64_t bytes) {
  CASTOR_CHECK(bytes >= 0);
  if (bytes > free_bytes()) return false;
  claimed_bytes_ += bytes;
  AccountActivations(bytes);
  return true;
}

void Arena::Unclaim(int64_t bytes) {
  CASTOR_CHECK(bytes >= 0 && bytes <= claimed_bytes_);
  claimed_bytes_ -= bytes;
  AccountActivations(-bytes);
}

absl::StatusOr<Fence> Arena::GrowTop(int64_t bytes) {
  const int64_t more = bytes - top_bytes_;
  CASTOR_CHECK(more > 0 && more % kBlockAlignment == 0);
  if (more > free_bytes()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "device memory: a client wants ", more, " bytes more; free ",
        free_bytes(), " of ", capacity_bytes_));
  }
  // Find the window below the top that has enough free bytes.
  int64_t begin = capacity_bytes_ - top_bytes_, free = 0;
  for (auto it = free_.end(); free < more;) {
    --it;
    begin = it->first;
    free += it->second.bytes;
  }
  for (auto it = blocks_.lower_bound(begin); it != blocks_.end(); ++it) {
    const Block& block = slots_[it->second];
    if (!block.held) continue;
    return absl::UnavailableError(
        absl::StrCat("device memory: ", block.owner,
                     ", which an operator uses, is where a client's block of ",
                     more, " bytes would have to be"));
  }
  MoveDown(begin);
  const Fence ready = Take(capacity_bytes_ - bytes, more);
  top_bytes_ = bytes;
  AccountActivations(more);
  return ready;
}

void Arena::ShrinkTop(int64_t bytes, const Fence& last_use) {
  const int64_t less = top_bytes_ - bytes;
  CASTOR_CHECK(bytes >= 0 && less >= 0 && less % kBlockAlignment == 0);
  if (less == 0) return;
  const int64_t begin = capacity_bytes_ - top_bytes_;
  top_bytes_ = bytes;
  AccountActivations(-less);
  Give(begin, less,
       options_.scribble_freed ? Scribble(begin, less, last_use) : last_use);
}

absl::Status Arena::Resize(int64_t bytes) {
  const int64_t before = capacity_bytes_;
  const int64_t after = bytes / kBlockAlignment * kBlockAlignment;
  if (top_bytes_ > 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "device memory: its end cannot move, since a client has the last ",
        top_bytes_, " bytes"));
  }
  if (after < stats_.used_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("device memory: ", stats_.used_bytes,
                     " bytes are in use, more than ", bytes));
  }
  if (!blocks_.empty()) {
    const Block& last = slots_[blocks_.rbegin()->second];
    if (last.offset + last.bytes > after) MoveDown();
  }
  CASTOR_RETURN_IF_ERROR(device_->Synchronize(device_->NowAll()));
  CASTOR_RETURN_IF_ERROR(device_->Resize(bytes));
  if (after < before) Take(after, before - after);
  capacity_bytes_ = after;
  most_capacity_bytes_ = std::max(most_capacity_bytes_, after);
  stats_.peak_in_budget = stats_.used_bytes;
  if (after > before) {
    Give(before, after - before,
         options_.scribble_freed ? Scribble(before, after - before, Fence())
                                 : Fence());
  }
  return absl::OkStatus();
}

void Arena::MoveDown() {
  if (free_.size() > 0) MoveDown(free_.begin()->first);
}

void Arena::MoveDown(int64_t begin) {
  std::vector<int64_t> inside;  // slots
  for (auto it = blocks_.lower_bound(begin); it != blocks_.end(); ++it) {
    inside.push_back(it->second);
  }
  for (const int64_t slot : inside) {
    Move(slot, begin);
    begin += slots_[slot].bytes;
  }
}

Fence Arena::WaitToRead(BlockId id) const {
  const Block& block = Get(id);
  return block.written ? block.ready : block.last_use;
}

void Arena::NoteRead(BlockId id, const Fence& fence) {
  Get(id).last_use.Add(fence);
}

void Arena::NoteWrite(BlockId id, const Fence& fence) {
  Block& block = Get(id);
  block.written = true;
  // A union, not a replacement: parts may be written on different streams.
  block.ready.Add(fence);
  block.last_use.Add(fence);
}

void Arena::SetSplit(BlockId id, Category a, Category b, int64_t bytes_of_b) {
  Block& block = Get(id);
  CASTOR_CHECK(bytes_of_b >= 0 && bytes_of_b <= block.bytes);
  Account(block, -1);
  block.a = a;
  block.b = b;
  block.bytes_of_b = bytes_of_b;
  Account(block, 1);
  UpdatePeaks();
}

bool Arena::CheapToTake(const Fence& fence, End end) const {
  // Blocks at the high end belong to operators, which run on the compute stream
  // and follow that stream's earlier work anyway.
  for (int i = 0; i < kNumStreams; ++i) {
    const StreamId stream = static_cast<StreamId>(i);
    const int64_t count = fence.count(stream);
    if (count == 0 || (end == End::kHigh && stream == StreamId::kCompute)) {
      continue;
    }
    if (!device_->Reached(Fence(stream, count))) return false;
  }
  return true;
}

int64_t Arena::FindFit(int64_t bytes, End end, bool only_cheap) const {
  const auto usable = [&](const Fence& fence) {
    return !only_cheap || CheapToTake(fence, end);
  };
  return end == End::kLow ? free_.FitLow(bytes, usable)
                          : free_.FitHigh(bytes, usable);
}

Fence Arena::Take(int64_t offset, int64_t bytes) {
  Fence fences;
  free_.Take(offset, bytes, [&](const Fence& fence) { fences.Add(fence); });
  return fences;
}

void Arena::Give(int64_t offset, int64_t bytes, const Fence& fence) {
  const bool many = free_.size() > kManyFreeRanges;
  // Neighbouring ranges are merged where that loses nothing: with equal fences,
  // or with both over. Where there are very many ranges they are merged always,
  // though a later block may then wait longer than it must.
  free_.Give(offset, bytes, fence, [&](Fence& into, const Fence& other) {
    if (!many && into != other &&
        !(device_->Reached(into) && device_->Reached(other))) {
      return false;
    }
    into.Add(other);
    return true;
  });
}

void Arena::Compact(int64_t wanted) {
  const AddressRange best = CheapestWindow(free_, wanted);
  // Up to the last block that came from the low end blocks slide down, the
  // others slide up.
  std::vector<int64_t> inside;  // slots
  size_t down = 0;
  for (auto it = blocks_.lower_bound(best.begin);
       it != blocks_.end() && it->first < best.end; ++it) {
    inside.push_back(it->second);
    if (slots_[it->second].end == End::kLow) down = inside.size();
  }
  int64_t low = best.begin;
  for (size_t i = 0; i < down; ++i) {
    Move(inside[i], low);
    low += slots_[inside[i]].bytes;
  }
  int64_t high = best.end;
  for (size_t i = inside.size(); i-- > down;) {
    high -= slots_[inside[i]].bytes;
    Move(inside[i], high);
  }
}

void Arena::Move(int64_t slot, int64_t to) {
  Block& block = slots_[slot];
  const int64_t from = block.offset;
  const int64_t bytes = block.bytes;
  if (from == to) return;
  CASTOR_CHECK(!block.held);
  // The parts of the destination that are not the block's own: they are free,
  // as the block slides within the hole beside it.
  const int64_t begin = to < from ? to : std::max(to, from + bytes);
  const int64_t end = to < from ? std::min(to + bytes, from) : to + bytes;
  const int64_t vacated = to < from ? std::max(from, to + bytes) : from;
  const int64_t vacated_bytes = end - begin;
  block.last_use.Add(Take(begin, end - begin));
  device_->Wait(StreamId::kCompute, block.last_use, options_.tag);
  // The moves run in order on one stream, since a later move may take bytes
  // that an earlier one has left.
  const Fence moved = device_->Copy(StreamId::kCompute, options_.tag,
                                    memory_ + to, memory_ + from, bytes);
  blocks_.erase(from);
  blocks_.emplace(to, slot);
  block.offset = to;
  block.ready = block.last_use = moved;
  block.written = true;
  Give(vacated, vacated_bytes,
       options_.scribble_freed ? Scribble(vacated, vacated_bytes, moved)
                               : moved);
  stats_.moved_bytes += bytes;
}

Fence Arena::Scribble(int64_t offset, int64_t bytes, const Fence& fence) {
  device_->Wait(StreamId::kCompute, fence, options_.tag);
  return device_->Fill(StreamId::kCompute, options_.tag, memory_ + offset, 0xFF,
                       bytes);
}

void Arena::Account(const Block& block, int sign) {
  const int64_t of_a = block.bytes - block.bytes_of_b;
  stats_.used[block.a] += sign * of_a;
  stats_.used[block.b] += sign * block.bytes_of_b;
  stats_.used_bytes += sign * block.bytes;
  if (IsTransient(block.a)) stats_.transient_bytes += sign * of_a;
  if (IsTransient(block.b)) stats_.transient_bytes += sign * block.bytes_of_b;
}

void Arena::AccountActivations(int64_t bytes) {
  stats_.used[Category::kActivations] += bytes;
  stats_.used_bytes += bytes;
  stats_.transient_bytes += bytes;
  UpdatePeaks();
}

void Arena::UpdatePeaks() {
  stats_.peak_in_budget = std::max(stats_.peak_in_budget, stats_.used_bytes);
  if (stats_.used_bytes > stats_.peak_bytes) {
    stats_.peak_bytes = stats_.used_bytes;
    stats_.used_at_peak = stats_.used;
  }
}

absl::Status Arena::CheckConsistency() const {
  const auto broken = [](auto&&... parts) {
    return absl::InternalError(absl::StrCat("arena: ", parts...));
  };
  // Walk both maps as one sequence of segments.
  auto block_it = blocks_.begin();
  auto free_it = free_.begin();
  const int64_t others = claimed_bytes_ + top_bytes_;
  int64_t at = 0, used_sum = others, transient = others;
  BytesByCategory used;
  used[Category::kActivations] = others;
  while (block_it != blocks_.end() || free_it != free_.end()) {
    if (free_it != free_.end() && free_it->first == at) {
      if (free_it->second.bytes <= 0 ||
          free_it->second.bytes % kBlockAlignment != 0) {
        return broken("free segment at ", at, " of ", free_it->second.bytes);
      }
      at += free_it->second.bytes;
      ++free_it;
      continue;
    }
    if (block_it == blocks_.end() || block_it->first != at) {
      return broken("no segment starts at ", at);
    }
    const Block& block = slots_[block_it->second];
    if (block.offset != at || block.bytes <= 0 ||
        block.bytes % kBlockAlignment != 0) {
      return broken("block of ", block.owner, " at ", at, " has offset ",
                    block.offset, " and ", block.bytes, " bytes");
    }
    const int64_t of_a = block.bytes - block.bytes_of_b;
    used[block.a] += of_a;
    used[block.b] += block.bytes_of_b;
    used_sum += block.bytes;
    if (IsTransient(block.a)) transient += of_a;
    if (IsTransient(block.b)) transient += block.bytes_of_b;
    at += block.bytes;
    ++block_it;
  }
  if (at != capacity_bytes_ - top_bytes_ || at > device_->memory_bytes()) {
    return broken("segments end at ", at, " of ", capacity_bytes_,
                  ", of which the top is ", top_bytes_);
  }
  if (!(used == stats_.used) || used_sum != stats_.used_bytes ||
      used.Sum() != used_sum || transient != stats_.transient_bytes) {
    return broken("in use: ", used.ToString(),
                  "; counted: ", stats_.used.ToString());
  }
  if (stats_.peak_in_budget < used_sum ||
      stats_.peak_in_budget > capacity_bytes_ ||
      stats_.peak_bytes < stats_.peak_in_budget ||
      stats_.peak_bytes > most_capacity_bytes_ ||
      stats_.used_at_peak.Sum() != stats_.peak_bytes) {
    return broken("peak ", stats_.peak_bytes, ", ", stats_.peak_in_budget,
                  " in this budget, with ", used_sum, " of ", capacity_bytes_,
                  " in use");
  }
  if (slots_.size() - empty_slots_.size() != blocks_.size()) {
    return broken(slots_.size(), " slots, ", empty_slots_.size(), " empty, ",
                  blocks_.size(), " blocks");
  }
  return absl::OkStatus();
}

}  // namespace castor
