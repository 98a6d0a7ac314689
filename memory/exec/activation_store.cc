#include "memory/exec/activation_store.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace castor {

void ActivationStore::BeginStep(const StepTrace& step) {
  taken_bytes_ = 0;
  for (auto& [storage, place] : places_) place.chunk = -1;
  for (Chunk& chunk : chunks_) {
    chunk.state = State::kNone;
    chunk.pieces.clear();
  }
  if (!step.training) return;
  int64_t first = static_cast<int64_t>(step.chunks.size());
  while (first > 0 && step.chunks[first - 1].holds_activations()) --first;
  first_ = first;
  const size_t count = step.chunks.size() - static_cast<size_t>(first);
  // Surplus homes go in DropHomes, with those of the wrong size.
  if (chunks_.size() < count) chunks_.resize(count);
  for (size_t i = 0; i < chunks_.size(); ++i) {
    const bool wanted = i < count;
    chunks_[i].block = wanted ? step.chunks[first_ + i].block : -1;
    chunks_[i].bytes = wanted ? step.chunks[first_ + i].payload_bytes : 0;
  }
}

bool ActivationStore::NeedsHomes() const {
  for (const Chunk& chunk : chunks_) {
    if (chunk.home.size() != chunk.bytes) return true;
  }
  return false;
}

absl::Status ActivationStore::DropHomes() {
  for (Chunk& chunk : chunks_) {
    if (chunk.home.data() == nullptr || chunk.home.size() == chunk.bytes) {
      continue;
    }
    CASTOR_RETURN_IF_ERROR(device_->Synchronize(chunk.home_used));
    chunk.home = HostBlock();
  }
  while (!chunks_.empty() && chunks_.back().bytes == 0) chunks_.pop_back();
  return absl::OkStatus();
}

absl::Status ActivationStore::MakeHomes() {
  CASTOR_RETURN_IF_ERROR(DropHomes());
  for (Chunk& chunk : chunks_) {
    if (chunk.home.size() == chunk.bytes) continue;
    CASTOR_ASSIGN_OR_RETURN(
        chunk.home,
        host_->Allocate(chunk.bytes, Category::kActivations,
                        absl::StrCat("activations of block ", chunk.block)));
    chunk.home_written = chunk.home_used = Fence();
  }
  return absl::OkStatus();
}

ChunkId ActivationStore::ChunkOfBlock(int64_t block) const {
  for (size_t i = 0; i < chunks_.size(); ++i) {
    if (chunks_[i].bytes > 0 && chunks_[i].block == block) {
      return ChunkId(first_ + static_cast<int64_t>(i));
    }
  }
  return ChunkId();
}

absl::Status ActivationStore::Illegal(ChunkId chunk,
                                      absl::string_view what) const {
  constexpr absl::string_view kStates[] = {
      "not made", "offered", "on the device", "on the host", "used"};
  return absl::FailedPreconditionError(
      absl::StrCat(what, " of chunk ", chunk.value,
                   ", the activations of block ", at(chunk).block,
                   ", which are ", kStates[static_cast<int>(at(chunk).state)]));
}

ActivationStore::Place* ActivationStore::Find(const Piece& piece,
                                              ChunkId chunk) {
  const auto place = places_.find(piece.storage);
  if (place == places_.end() || place->second.chunk != chunk.value) {
    return nullptr;
  }
  return &place->second;
}

absl::Status ActivationStore::Offer(ChunkId id,
                                    const std::vector<int64_t>& storages) {
  Chunk& chunk = at(id);
  if (chunk.state != State::kNone) return Illegal(id, "a second making");
  chunk.pieces.clear();
  int64_t bytes = 0;
  for (const int64_t storage : storages) {
    const int64_t size = arena_->Bytes(BlockId(storage));
    chunk.pieces.push_back({storage, bytes});
    places_[storage] = {BlockId(storage), size, id.value};
    bytes += size;
  }
  if (bytes != chunk.bytes) {
    return absl::InternalError(absl::StrCat(
        "block ", chunk.block, " keeps ", bytes,
        " bytes for its backward alone, its trace says ", chunk.bytes));
  }
  chunk.state = State::kOffered;
  return absl::OkStatus();
}

absl::Status ActivationStore::Fetch(ChunkId id, WorkTag tag,
                                    NextPlace next_place) {
  Chunk& chunk = at(id);
  if (chunk.state == State::kOffered) {
    for (const Piece& piece : chunk.pieces) {
      if (const Place* place = Find(piece, id)) taken_bytes_ += place->bytes;
    }
    chunk.state = State::kThere;
    chunk.dirty = true;
    return absl::OkStatus();
  }
  if (chunk.state != State::kAway) return Illegal(id, "fetch");
  // All blocks come first: allocating one may move others.
  for (const Piece& piece : chunk.pieces) {
    Place* const place = Find(piece, id);
    if (place == nullptr) continue;
    CASTOR_ASSIGN_OR_RETURN(
        place->block,
        arena_->Allocate(place->bytes, Category::kActivations, End::kHigh,
                         absl::StrCat("activations of block ", chunk.block),
                         next_place()));
  }
  for (const Piece& piece : chunk.pieces) {
    const Place* const place = Find(piece, id);
    if (place == nullptr) continue;
    Fence ready = arena_->WaitToWrite(place->block);
    ready.Add(chunk.home_written);
    device_->Wait(StreamId::kHostToDevice, ready, tag.Pack());
    const Fence done = device_->Copy(
        StreamId::kHostToDevice, tag.Pack(), arena_->Pointer(place->block),
        chunk.home.data() + piece.offset, place->bytes);
    arena_->NoteWrite(place->block, done);
    chunk.home_used.Add(done);
    h2d_bytes_ += place->bytes;
  }
  chunk.state = State::kThere;
  return absl::OkStatus();
}

absl::Status ActivationStore::CopyBack(ChunkId id, WorkTag tag) {
  Chunk& chunk = at(id);
  if (chunk.state != State::kThere) return Illegal(id, "write back");
  if (!std::exchange(chunk.dirty, false)) return absl::OkStatus();
  const Fence before = chunk.home_used;
  chunk.home_written = Fence();
  for (const Piece& piece : chunk.pieces) {
    const Place* const place = Find(piece, id);
    if (place == nullptr) continue;
    Fence ready = arena_->WaitToRead(place->block);
    ready.Add(before);
    device_->Wait(StreamId::kDeviceToHost, ready, tag.Pack());
    const Fence done = device_->Copy(
        StreamId::kDeviceToHost, tag.Pack(), chunk.home.data() + piece.offset,
        arena_->Pointer(place->block), place->bytes);
    arena_->NoteRead(place->block, done);
    chunk.home_written.Add(done);
    d2h_bytes_ += place->bytes;
  }
  chunk.home_used.Add(chunk.home_written);
  return absl::OkStatus();
}

absl::Status ActivationStore::Drop(ChunkId id) {
  Chunk& chunk = at(id);
  const bool used = chunk.state == State::kUsed;
  if (!used && (chunk.state != State::kThere || chunk.dirty)) {
    return Illegal(id, "drop");
  }
  for (const Piece& piece : chunk.pieces) {
    Place* const place = Find(piece, id);
    if (place == nullptr) continue;
    if (used) {
      taken_bytes_ -= place->bytes;
      place->chunk = -1;
    } else {
      arena_->Free(place->block);
      place->block = BlockId();
    }
  }
  chunk.state = used ? State::kNone : State::kAway;
  return absl::OkStatus();
}

absl::StatusOr<Fence> ActivationStore::WaitToUse(ChunkId id) const {
  const Chunk& chunk = at(id);
  if (chunk.state != State::kThere) return Illegal(id, "use");
  Fence ready;
  for (const Piece& piece : chunk.pieces) {
    const auto place = places_.find(piece.storage);
    if (place == places_.end() || place->second.chunk != id.value) continue;
    ready.Add(arena_->WaitToRead(place->second.block));
  }
  return ready;
}

absl::Status ActivationStore::Used(ChunkId id) {
  if (at(id).state != State::kThere) return Illegal(id, "use");
  at(id).state = State::kUsed;
  return absl::OkStatus();
}

BlockId ActivationStore::PlaceOf(int64_t storage) const {
  if (places_.empty()) return BlockId(storage);
  const auto place = places_.find(storage);
  return place == places_.end() ? BlockId(storage) : place->second.block;
}

int64_t ActivationStore::BytesOf(int64_t storage) const {
  const auto place = places_.find(storage);
  return place == places_.end() ? arena_->Bytes(BlockId(storage))
                                : place->second.bytes;
}

void ActivationStore::Release(int64_t storage) {
  const BlockId block = PlaceOf(storage);
  if (const auto place = places_.find(storage); place != places_.end()) {
    const int64_t c = place->second.chunk;
    if (c >= 0 && at(ChunkId(c)).state != State::kOffered) {
      taken_bytes_ -= place->second.bytes;
    }
    places_.erase(place);
  }
  if (block.valid()) arena_->Free(block);
}

}  // namespace castor
