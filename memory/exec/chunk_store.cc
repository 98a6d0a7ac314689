#include "memory/exec/chunk_store.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/state_format.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace castor {

std::string ChunkStore::ChunkName(ChunkId chunk) {
  return absl::StrCat("chunk ", chunk.value);
}

absl::StatusOr<std::unique_ptr<ChunkStore>> ChunkStore::Create(
    Device* device, Arena* arena, HostMemory* host, const ChunkLayout* layout,
    bool accumulate, std::vector<Side> sides, ShardExchange* exchange) {
  CASTOR_CHECK(static_cast<int64_t>(sides.size()) == layout->num_chunks());
  CASTOR_CHECK((exchange != nullptr) == (layout->world_size > 1));
  std::unique_ptr<ChunkStore> store(
      new ChunkStore(device, arena, host, layout, accumulate, exchange));
  store->chunks_.resize(layout->num_chunks());
  // Homes are allocated first, so that they get the pinned memory: they cross
  // the bus most.
  for (int64_t i = 0; i < layout->num_chunks(); ++i) {
    const ChunkId id(i);
    CASTOR_ASSIGN_OR_RETURN(
        store->chunks_[i].home,
        host->Allocate(layout->shard_bytes(id), Category::kParameters,
                       ChunkName(id)));
  }
  for (int64_t i = 0; i < layout->num_chunks(); ++i) {
    const ChunkId id(i);
    Chunk& chunk = store->chunks_[i];
    chunk.side = sides[i];
    const int64_t states = store->states_bytes(id);
    if (states == 0) continue;
    if (sides[i] == Side::kHost) {
      CASTOR_ASSIGN_OR_RETURN(
          chunk.host_states,
          host->Allocate(states, Category::kOptimizerStates, ChunkName(id)));
    } else {
      CASTOR_ASSIGN_OR_RETURN(
          chunk.device_states,
          arena->Allocate(states, Category::kOptimizerStates, End::kLow,
                          ChunkName(id)));
    }
  }
  if (const int64_t margins = layout->num_margins(); margins > 0) {
    CASTOR_ASSIGN_OR_RETURN(
        store->margins_,
        host->Allocate(margins * static_cast<int64_t>(sizeof(float)),
                       Category::kOptimizerStates, "rows and columns"));
  }
  int64_t begin = 0;
  for (size_t i = 0; i < layout->parameters.size(); ++i) {
    store->margins_begin_.push_back(begin);
    begin += layout->num_margins(ParamId(static_cast<int64_t>(i)));
  }
  return store;
}

absl::Span<float> ChunkStore::margins(ParamId parameter) const {
  const size_t count = static_cast<size_t>(layout_->num_margins(parameter));
  if (count == 0) return {};
  return {reinterpret_cast<float*>(margins_.data()) +
              margins_begin_[parameter.value],
          count};
}

absl::Status ChunkStore::Illegal(ChunkId chunk, absl::string_view what) const {
  return absl::FailedPreconditionError(absl::StrCat(
      what, " of ", ChunkName(chunk), ", which is ",
      !resident(chunk) ? "not on the device"
      : dirty(chunk)   ? "dirty on the device"
                       : "clean on the device",
      ", its home ", at(chunk).home_state == Home::kStale ? "stale" : "valid",
      at(chunk).uncommitted ? ", its update not committed" : ""));
}

absl::Status ChunkStore::Fetch(ChunkId id, WorkTag tag, int64_t at_offset) {
  Chunk& chunk = at(id);
  if (resident(id) || !IsSaved(chunk) || chunk.home_state == Home::kGradients ||
      chunk.uncommitted) {
    return Illegal(id, "fetch");
  }
  CASTOR_ASSIGN_OR_RETURN(
      chunk.block,
      arena_->Allocate(layout_->payload_bytes(id), Category::kParameters,
                       End::kLow, ChunkName(id), at_offset));
  TellCategories(id);
  if (chunk.payload == Payload::kSpent) return absl::OkStatus();
  const bool local = chunk.payload == Payload::kInSlot;
  const int64_t bytes =
      local ? layout_->payload_bytes(id) : layout_->shard_bytes(id);
  const std::byte* from = chunk.home.data();
  Fence ready = arena_->WaitToWrite(chunk.block);
  if (local) {
    from = exchange_->slot(chunk.slot).block.data();
    ready.Add(exchange_->slot(chunk.slot).used);
  } else {
    ready.Add(chunk.home_written);
  }
  device_->Wait(StreamId::kHostToDevice, ready, tag.Pack());
  std::byte* const to = payload(id) + (local ? 0 : shard_offset(id));
  const Fence done =
      device_->Copy(StreamId::kHostToDevice, tag.Pack(), to, from, bytes);
  arena_->NoteWrite(chunk.block, done);
  h2d_bytes_ += bytes;
  if (local) {
    exchange_->slot(chunk.slot).used.Add(done);
    return absl::OkStatus();
  }
  chunk.home_used.Add(done);
  return sharded() ? exchange_->Gather(id, chunk.block, tag) : absl::OkStatus();
}

absl::Status ChunkStore::CopyBack(ChunkId id, WorkTag tag) {
  Chunk& chunk = at(id);
  if (!resident(id)) return Illegal(id, "write back");
  switch (chunk.payload) {
    case Payload::kSaved:
    case Payload::kInSlot:
    case Payload::kSpent:
      return absl::OkStatus();
    case Payload::kReduced:
      chunk.payload = Payload::kSpent;
      return absl::OkStatus();
    case Payload::kLocal:
      chunk.payload = Payload::kInSlot;
      return CopyToSlot(id, chunk.block, tag);
    case Payload::kChanged:
      chunk.payload = Payload::kSaved;
      if (chunk.home_state != Home::kStale) return absl::OkStatus();
      break;
  }
  const int64_t bytes = layout_->shard_bytes(id);
  Fence ready = arena_->WaitToRead(chunk.block);
  ready.Add(chunk.home_used);
  device_->Wait(StreamId::kDeviceToHost, ready, tag.Pack());
  const Fence done =
      device_->Copy(StreamId::kDeviceToHost, tag.Pack(), chunk.home.data(),
                    payload(id) + shard_offset(id), bytes);
  arena_->NoteRead(chunk.block, done);
  chunk.home_written = done;
  chunk.home_used.Add(done);
  chunk.home_state = Home::kCurrent;
  d2h_bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status ChunkStore::CopyToSlot(ChunkId id, BlockId block, WorkTag tag) {
  Chunk& chunk = at(id);
  if (chunk.slot < 0) chunk.slot = exchange_->TakeSlot();
  ShardExchange::Slot& slot = exchange_->slot(chunk.slot);
  const int64_t bytes = layout_->payload_bytes(id);
  Fence ready = arena_->WaitToRead(block);
  ready.Add(slot.used);
  device_->Wait(StreamId::kDeviceToHost, ready, tag.Pack());
  const Fence done =
      device_->Copy(StreamId::kDeviceToHost, tag.Pack(), slot.block.data(),
                    arena_->Pointer(block), bytes);
  arena_->NoteRead(block, done);
  slot.used = done;
  d2h_bytes_ += bytes;
  return absl::OkStatus();
}

void ChunkStore::GiveSlotBack(Chunk& chunk) {
  if (chunk.slot < 0) return;
  exchange_->GiveSlot(chunk.slot);
  chunk.slot = -1;
}

void ChunkStore::Forfeit(ChunkId id) {
  Chunk& chunk = at(id);
  ForgetGradients(id);
  if (resident(id)) arena_->Free(chunk.block);
  chunk.block = BlockId();
  GiveSlotBack(chunk);
  chunk.home_state = Home::kCurrent;
  chunk.payload =
      chunk.side == Side::kDevice ? Payload::kSpent : Payload::kSaved;
}

void ChunkStore::NoteShardUse(ChunkId id, const Fence& done) {
  arena_->NoteWrite(at(id).block, done);
}

absl::Status ChunkStore::Share(ChunkId id, WorkTag tag, bool changed) {
  Chunk& chunk = at(id);
  if (!resident(id)) return Illegal(id, "sharing");
  chunk.payload = Payload::kChanged;
  if (changed) chunk.home_state = Home::kStale;
  return exchange_->Gather(id, chunk.block, tag);
}

absl::Status ChunkStore::Drop(ChunkId id) {
  Chunk& chunk = at(id);
  if (!resident(id) || dirty(id)) return Illegal(id, "drop");
  arena_->Free(chunk.block);
  chunk.block = BlockId();
  // The home still has the parameters.
  if (chunk.side == Side::kHost && chunk.payload == Payload::kSpent) {
    chunk.payload = Payload::kSaved;
  }
  return absl::OkStatus();
}

Fence ChunkStore::WaitToUsePayload(ChunkId id, bool writes) const {
  const Chunk& chunk = at(id);
  if (!writes) return arena_->WaitToRead(chunk.block);
  if (!has_gradient_block(id)) return arena_->WaitToWrite(chunk.block);
  Fence ready = arena_->WaitToRead(chunk.block);
  ready.Add(arena_->WaitToWrite(chunk.gradients.block));
  return ready;
}

std::byte* ChunkStore::payload(ChunkId id) const {
  CASTOR_CHECK(resident(id));
  return static_cast<std::byte*>(arena_->Pointer(at(id).block));
}

void ChunkStore::NotePayloadUse(ChunkId id, const Fence& done, bool writes) {
  Chunk& chunk = at(id);
  if (writes && has_gradient_block(id)) {
    arena_->NoteRead(chunk.block, done);
    arena_->NoteWrite(chunk.gradients.block, done);
  } else if (writes) {
    arena_->NoteWrite(chunk.block, done);
    chunk.payload = sharded() ? Payload::kLocal : Payload::kChanged;
    if (!sharded()) chunk.home_state = Home::kStale;
  } else {
    arena_->NoteRead(chunk.block, done);
  }
}

Fence ChunkStore::WaitToUseOptimizer(ChunkId id) const {
  return arena_->WaitToWrite(at(id).device_states);
}

StateView ChunkStore::optimizer_on_device(ChunkId id) const {
  CASTOR_CHECK(side(id) == Side::kDevice);
  return ViewOf(id,
                static_cast<std::byte*>(arena_->Pointer(at(id).device_states)));
}

void ChunkStore::NoteOptimizerUse(ChunkId id, const Fence& done) {
  arena_->NoteWrite(at(id).device_states, done);
}

void ChunkStore::TellCategories(ChunkId id) {
  if (!resident(id)) return;
  arena_->SetSplit(at(id).block, Category::kParameters, Category::kGradients,
                   at(id).gradient_bytes);
}

void ChunkStore::HoldsParameters(ChunkId id) {
  at(id).gradient_bytes = 0;
  TellCategories(id);
}

StateView ChunkStore::ViewOf(ChunkId id, std::byte* base) const {
  if (base == nullptr) return {};
  const StateLayout& states = layout_->states;
  const int64_t n = layout_->shard_elements(id);
  const auto array = [&](StatePart part) {
    return base + states.BytesBefore(part, n);
  };
  StateView view = {
      .master = base, .elements = n, .begin = layout_->shard_begin(id)};
  const int end = states.num_parts();
  for (int i = 1; i < end; ++i) {
    view.slots[StatePart(i).slot()] = array(StatePart(i));
  }
  if (accumulate_) view.sum = reinterpret_cast<float*>(array(StatePart(end)));
  return view;
}

bool ChunkStore::HostMayWork(ChunkId id) const {
  const Chunk& chunk = at(id);
  return (!resident(id) || chunk.home_state == Home::kGradients ||
          chunk.payload == Payload::kSpent) &&
         chunk.home_state != Home::kStale && chunk.side == Side::kHost;
}

void ChunkStore::QueueOnHost(
    ChunkId id, WorkTag tag,
    absl::AnyInvocable<absl::Status(std::byte*, const ExecContext&)> work) {
  Chunk& chunk = at(id);
  chunk.home_state = Home::kCurrent;
  Fence ready = chunk.home_used;
  ready.Add(chunk.states_used);
  device_->Wait(StreamId::kHostCompute, ready, tag.Pack());
  const Fence done = device_->Enqueue(
      StreamId::kHostCompute, tag.Pack(),
      [work = std::move(work), home = chunk.home.data()](
          const ExecContext& context) mutable { return work(home, context); });
  chunk.home_written = done;
  chunk.home_used.Add(done);
  chunk.states_used = done;
}

absl::Status ChunkStore::RunOnHost(ChunkId id, WorkTag tag, HostWork work) {
  if (!HostMayWork(id) || at(id).uncommitted) return Illegal(id, "host work");
  QueueOnHost(id, tag,
              [work = std::move(work), states = HostView(id)](
                  std::byte* home, const ExecContext& context) mutable {
                return work(home, states, context);
              });
  return absl::OkStatus();
}

absl::Status ChunkStore::MoveOptimizer(ChunkId id, Side side,
                                       int64_t at_offset) {
  Chunk& chunk = at(id);
  const int64_t bytes = states_bytes(id);
  if (chunk.side == side || bytes == 0) return absl::OkStatus();
  CASTOR_RETURN_IF_ERROR(DropBank(id));
  const int64_t tag =
      WorkTag{.kind = WorkKind::kMove, .chunk = id.value}.Pack();
  if (side == Side::kDevice) {
    CASTOR_ASSIGN_OR_RETURN(
        chunk.device_states,
        arena_->Allocate(bytes, Category::kOptimizerStates, End::kLow,
                         ChunkName(id), at_offset));
    Fence ready = arena_->WaitToWrite(chunk.device_states);
    ready.Add(chunk.states_used);
    device_->Wait(StreamId::kHostToDevice, ready, tag);
    const Fence done = device_->Copy(StreamId::kHostToDevice, tag,
                                     arena_->Pointer(chunk.device_states),
                                     chunk.host_states.data(), bytes);
    arena_->NoteWrite(chunk.device_states, done);
    h2d_bytes_ += bytes;
    CASTOR_RETURN_IF_ERROR(device_->Synchronize(done));
    chunk.host_states = HostBlock();
  } else {
    CASTOR_ASSIGN_OR_RETURN(
        chunk.host_states,
        host_->Allocate(bytes, Category::kOptimizerStates, ChunkName(id)));
    device_->Wait(StreamId::kDeviceToHost,
                  arena_->WaitToRead(chunk.device_states), tag);
    const Fence done =
        device_->Copy(StreamId::kDeviceToHost, tag, chunk.host_states.data(),
                      arena_->Pointer(chunk.device_states), bytes);
    arena_->NoteRead(chunk.device_states, done);
    d2h_bytes_ += bytes;
    CASTOR_RETURN_IF_ERROR(device_->Synchronize(done));
    arena_->Free(chunk.device_states);
    chunk.device_states = BlockId();
    chunk.states_used = done;
  }
  chunk.side = side;
  return absl::OkStatus();
}

absl::Status ChunkStore::Fill(
    ChunkId id,
    absl::FunctionRef<absl::Status(std::byte*, const StateView&)> fill) {
  Chunk& chunk = at(id);
  if (resident(id) || chunk.uncommitted) return Illegal(id, "filling");
  Fence idle = chunk.home_used;
  idle.Add(chunk.states_used);
  CASTOR_RETURN_IF_ERROR(device_->Synchronize(idle));
  chunk.home_state = Home::kCurrent;
  chunk.payload = Payload::kSaved;
  if (chunk.side == Side::kHost || states_bytes(id) == 0) {
    return fill(chunk.home.data(), HostView(id));
  }
  CASTOR_ASSIGN_OR_RETURN(
      HostBlock staging,
      host_->Allocate(states_bytes(id), Category::kStaging, ChunkName(id)));
  const int64_t tag =
      WorkTag{.kind = WorkKind::kMove, .chunk = id.value}.Pack();
  device_->Wait(StreamId::kDeviceToHost,
                arena_->WaitToRead(chunk.device_states), tag);
  const Fence read =
      device_->Copy(StreamId::kDeviceToHost, tag, staging.data(),
                    arena_->Pointer(chunk.device_states), states_bytes(id));
  arena_->NoteRead(chunk.device_states, read);
  CASTOR_RETURN_IF_ERROR(device_->Synchronize(read));
  CASTOR_RETURN_IF_ERROR(fill(chunk.home.data(), ViewOf(id, staging.data())));
  device_->Wait(StreamId::kHostToDevice,
                arena_->WaitToWrite(chunk.device_states), tag);
  const Fence done = device_->Copy(StreamId::kHostToDevice, tag,
                                   arena_->Pointer(chunk.device_states),
                                   staging.data(), states_bytes(id));
  arena_->NoteWrite(chunk.device_states, done);
  return device_->Synchronize(done);
}

std::vector<ChunkStore::StateRange> ChunkStore::RangesOf(ChunkId id,
                                                         StatePart part,
                                                         int64_t begin,
                                                         int64_t end) const {
  const StateLayout& states = layout_->states;
  CASTOR_CHECK(states_bytes(id) > 0 && part.index() < states.num_parts());
  const int64_t n = layout_->shard_elements(id);
  begin -= layout_->shard_begin(id);
  end -= layout_->shard_begin(id);
  CASTOR_CHECK(begin >= 0 && end <= n);
  const StateFormat format = states.format(part);
  const int64_t size = ElementBytes(format);
  const int64_t array = states.BytesBefore(part, n);
  std::vector<StateRange> ranges = {
      {.from = array + begin * size, .bytes = (end - begin) * size}};
  const int64_t padded = RoundUp(end - begin, kStateTile);
  if (const int64_t bytes = SecondBytes(format, padded); bytes > 0) {
    CASTOR_CHECK(begin % kStateTile == 0);
    ranges.push_back({.from = array + n * size + SecondBytes(format, begin),
                      .to = padded * size,
                      .bytes = bytes});
  }
  return ranges;
}

absl::StatusOr<const std::byte*> ChunkStore::StateOnHost(ChunkId id,
                                                         StatePart part,
                                                         int64_t begin,
                                                         int64_t end) {
  const Chunk& chunk = at(id);
  if (chunk.side != Side::kHost) return nullptr;
  if (chunk.uncommitted) return Illegal(id, "reading states");
  CASTOR_RETURN_IF_ERROR(device_->Synchronize(chunk.states_used));
  const HostBlock& block = chunk.in_bank ? chunk.bank : chunk.host_states;
  return block.data() + RangesOf(id, part, begin, end)[0].from;
}

absl::Status ChunkStore::ReadState(ChunkId id, StatePart part, int64_t begin,
                                   int64_t end, void* out) {
  const std::vector<StateRange> ranges = RangesOf(id, part, begin, end);
  std::byte* const to = static_cast<std::byte*>(out);
  CASTOR_ASSIGN_OR_RETURN(const std::byte* const on_host,
                          StateOnHost(id, part, begin, end));
  if (on_host != nullptr) {
    for (const StateRange& range : ranges) {
      std::memcpy(to + range.to, on_host + (range.from - ranges[0].from),
                  range.bytes);
    }
    return absl::OkStatus();
  }
  Chunk& chunk = at(id);
  const int64_t tag =
      WorkTag{.kind = WorkKind::kMove, .chunk = id.value}.Pack();
  device_->Wait(StreamId::kDeviceToHost,
                arena_->WaitToRead(chunk.device_states), tag);
  Fence done;
  for (const StateRange& range : ranges) {
    done = device_->Copy(
        StreamId::kDeviceToHost, tag, to + range.to,
        static_cast<std::byte*>(arena_->Pointer(chunk.device_states)) +
            range.from,
        range.bytes);
  }
  arena_->NoteRead(chunk.device_states, done);
  return device_->Synchronize(done);
}

absl::Status ChunkStore::ReadHome(ChunkId id, int64_t begin, int64_t end,
                                  void* out) {
  const Chunk& chunk = at(id);
  if (chunk.home_state == Home::kStale || chunk.uncommitted) {
    return Illegal(id, "reading the home");
  }
  CASTOR_RETURN_IF_ERROR(device_->Synchronize(chunk.home_written));
  const int64_t size = SizeOf(layout_->dtype);
  begin -= layout_->shard_begin(id);
  end -= layout_->shard_begin(id);
  CASTOR_CHECK(begin >= 0 && end <= layout_->shard_elements(id));
  std::memcpy(out, chunk.home.data() + begin * size, (end - begin) * size);
  return absl::OkStatus();
}

absl::Status ChunkStore::CheckConsistency() const {
  for (int64_t i = 0; i < layout_->num_chunks(); ++i) {
    const Chunk& chunk = chunks_[i];
    const bool has_states = states_bytes(ChunkId(i)) > 0;
    const bool on_host = chunk.host_states.data() != nullptr;
    const bool on_device = chunk.device_states.valid();
    if ((dirty(ChunkId(i)) ? !resident(ChunkId(i)) : !IsSaved(chunk)) ||
        chunk.uncommitted || (has_bank(ChunkId(i)) && !on_host) ||
        on_host != (has_states && chunk.side == Side::kHost) ||
        on_device != (has_states && chunk.side == Side::kDevice)) {
      return Illegal(ChunkId(i), "inconsistent bookkeeping");
    }
  }
  return absl::OkStatus();
}

}  // namespace castor
