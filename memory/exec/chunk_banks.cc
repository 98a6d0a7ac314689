// Banks: the second set of a chunk's states, into which speculative updates
// write.
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "memory/exec/chunk_store.h"
#include "memory/plan/layout/state_layout.h"

namespace castor {

absl::Status ChunkStore::MakeBank(ChunkId id) {
  Chunk& chunk = at(id);
  if (has_bank(id)) return absl::OkStatus();
  if (chunk.side != Side::kHost || states_bytes(id) == 0) {
    return Illegal(id, "a bank");
  }
  const int64_t gradients = accumulate_ ? 0 : layout_->shard_bytes(id);
  CASTOR_ASSIGN_OR_RETURN(
      chunk.bank,
      host_->Allocate(
          layout_->state_bytes(id, /*accumulate=*/false) + gradients,
          Category::kOptimizerStates, ChunkName(id)));
  return absl::OkStatus();
}

absl::Status ChunkStore::DropBank(ChunkId id) {
  Chunk& chunk = at(id);
  if (!has_bank(id)) return absl::OkStatus();
  if (chunk.uncommitted) return Illegal(id, "dropping the bank");
  CASTOR_RETURN_IF_ERROR(device_->Synchronize(chunk.states_used));
  if (chunk.in_bank) {
    std::memcpy(chunk.host_states.data(), chunk.bank.data(),
                layout_->state_bytes(id, /*accumulate=*/false));
  }
  chunk.bank = HostBlock();
  chunk.in_bank = false;
  return absl::OkStatus();
}

StateView ChunkStore::HostView(ChunkId id) const {
  const Chunk& chunk = at(id);
  StateView view = ViewOf(id, chunk.host_states.data());
  if (!chunk.in_bank) return view;
  float* const sum = view.sum;
  view = ViewOf(id, chunk.bank.data());
  view.sum = sum;
  return view;
}

ChunkStore::BankView ChunkStore::BankOf(ChunkId id) const {
  const Chunk& chunk = at(id);
  CASTOR_CHECK(has_bank(id));
  BankView bank = {.states = ViewOf(id, chunk.in_bank ? chunk.host_states.data()
                                                      : chunk.bank.data())};
  bank.states.sum = nullptr;
  if (!accumulate_) {
    bank.gradients =
        chunk.bank.data() + layout_->state_bytes(id, /*accumulate=*/false);
  }
  return bank;
}

absl::Status ChunkStore::RunAhead(ChunkId id, WorkTag tag, BankWork work) {
  Chunk& chunk = at(id);
  if (!HostMayWork(id) || !has_bank(id) || chunk.uncommitted) {
    return Illegal(id, "an update ahead");
  }
  QueueOnHost(
      id, tag,
      [work = std::move(work), states = HostView(id), bank = BankOf(id)](
          std::byte* home, const ExecContext& context) mutable {
        return work(home, states, bank, context);
      });
  chunk.uncommitted = true;
  return absl::OkStatus();
}

absl::Status ChunkStore::Commit(ChunkId id, WorkTag tag, BankWork work) {
  Chunk& chunk = at(id);
  if (!HostMayWork(id) || !chunk.uncommitted) return Illegal(id, "a commit");
  QueueOnHost(
      id, tag,
      [work = std::move(work), states = HostView(id), bank = BankOf(id)](
          std::byte* home, const ExecContext& context) mutable {
        return work(home, states, bank, context);
      });
  chunk.uncommitted = false;
  chunk.in_bank = !chunk.in_bank;
  return absl::OkStatus();
}

}  // namespace castor
