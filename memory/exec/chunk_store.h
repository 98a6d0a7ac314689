// Where each chunk's bytes are, and which work must be over before they may be
// touched.
//
// Every chunk has a *home* for its payload in host memory and may have a block
// on the device. The optimizer states of a trainable chunk (memory/plan/
// state_layout.h) lie on one side: host memory, or a device block.
//
// With several ranks the home holds this rank's shard, as do the optimizer
// states; a block is always the whole payload. What a payload holds then
// decides what its copies are:
//
//   content      of a block                  fetch            copy back
//   parameters   the same on all ranks       shard + gather   shard, if the
//                                                             home is stale
//   local        some places taken over by   from its slot    to a slot of
//                this rank's own gradients                    shard_exchange.h
//   spent        reduced                     room alone       nothing
//
// Operators that write make it local. A reduce makes it parameters again on the
// host's side, where the home still has them, and spent on the device's, until
// they are restored or updated.
//
// A chunk on the host's side may have a *gradient block* too, which operators
// write to in the payload's stead. It is sent to the home, or to a slot, where
// the next reduce finds it; one that is not the last of its step leaves the
// home as the payload is. Where ranks share it, so may one on the device's
// side; the reduce reads it there, and the payload stays parameters. Its sum of
// gradients may be in a block on the device for a step, the *device sum*:
// AddToDeviceSum then adds to it what is in the gradient block, or for the last
// time what is in the payload, which is spent until it is dropped. The home
// keeps the parameters.
//
// A chunk on the host's side may have a *bank* too: host memory for a second
// set of its states, but for the sum of gradients, and, where there is no such
// sum, for the gradients. RunAhead updates into it, Commit makes it the chunk's
// states, and what these were the bank. In between the chunk is *uncommitted*:
// its home and its states are of use to that Commit alone.
//
// Invariants, checked by CheckConsistency:
//  1. A payload that is not resident has a valid home; a local one, a slot.
//  2. A clean resident payload equals its home, unless gradients were sent
//     there and not reduced yet.
//  3. A chunk has optimizer states on exactly its side; a frozen one has none.
//  4. Only a host-side chunk has a bank; none is uncommitted between steps.
//
// Every method queues its work and returns at once, unless it says otherwise.
// Ordering between streams is by fences: of the device blocks (arena.h) and of
// the host blocks (here).
#ifndef CASTOR_MEMORY_EXEC_CHUNK_STORE_H_
#define CASTOR_MEMORY_EXEC_CHUNK_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/device.h"
#include "memory/exec/arena.h"
#include "memory/exec/host_memory.h"
#include "memory/exec/shard_exchange.h"
#include "memory/exec/state_view.h"
#include "memory/plan/chunk_layout.h"
#include "memory/plan/plan.h"
#include "memory/plan/state_layout.h"
#include "tracer/work_tag.h"

namespace castor {

class ChunkStore {
 public:
  // All arguments outlive the store; `exchange` is null on one rank. Homes and
  // states are allocated, states on the sides given (indexed by chunk); nothing
  // is initialised.
  // ResourceExhausted: the host's or the device's budget.
  static absl::StatusOr<std::unique_ptr<ChunkStore>> Create(
      Device* device, Arena* arena, HostMemory* host, const ChunkLayout* layout,
      bool accumulate, std::vector<Side> sides,
      ShardExchange* exchange = nullptr);

  const ChunkLayout& layout() const { return *layout_; }
  Arena& arena() const { return *arena_; }
  // Where a resident payload lies in the arena.
  int64_t offset(ChunkId chunk) const {
    return arena_->Offset(at(chunk).block);
  }
  bool sharded() const { return exchange_ != nullptr; }
  // From now on the moments of tags are those of `step`, which outlives the
  // store.
  void BeginStep(const StepTrace* step) {
    if (sharded()) exchange_->BeginStep(step);
  }
  bool resident(ChunkId chunk) const { return at(chunk).block.valid(); }
  bool dirty(ChunkId chunk) const { return at(chunk).dirty; }
  Side side(ChunkId chunk) const { return at(chunk).side; }

  // The three actions of a plan. FailedPrecondition where plan.h says illegal.
  // CopyBack of a clean payload does nothing. `at`, here and below: the block's
  // planned place in the arena.
  absl::Status Fetch(ChunkId chunk, WorkTag tag, int64_t at = Arena::kAnywhere);
  absl::Status CopyBack(ChunkId chunk, WorkTag tag);
  absl::Status Drop(ChunkId chunk);
  // The other three, for gradients beside a payload. FailedPrecondition as
  // above, ResourceExhausted: the arena has no room.
  absl::Status MakeGradients(ChunkId chunk, int64_t at = Arena::kAnywhere);
  absl::Status SendGradients(ChunkId chunk, WorkTag tag);
  absl::Status DropGradients(ChunkId chunk);
  // The last three, for a sum of gradients on the device. Errors as above.
  absl::Status MakeSum(ChunkId chunk, int64_t at = Arena::kAnywhere);
  absl::Status SendSum(ChunkId chunk, WorkTag tag);
  absl::Status DropSum(ChunkId chunk);
  bool has_gradient_block(ChunkId chunk) const {
    return at(chunk).gradients.valid();
  }
  bool has_device_sum(ChunkId chunk) const {
    return at(chunk).device_sum.valid();
  }
  // Frees a gradient block and a device sum, if there are any, whatever is in
  // them. For whoever gives a step up.
  void ForgetGradients(ChunkId chunk);
  // Sends a device sum, if there is one that was not sent, and frees it: for
  // whoever goes on with the step in another way between two micro batches.
  absl::Status BringSumHome(ChunkId chunk, WorkTag tag);

  // Work on the compute stream waits for this fence, uses the addresses (valid
  // until the arena's next Allocate), then notes the use. `writes`: gradients,
  // which go to gradients(): the gradient block, or else the payload itself.
  Fence WaitToUsePayload(ChunkId chunk, bool writes) const;
  std::byte* payload(ChunkId chunk) const;
  std::byte* gradients(ChunkId chunk) const;
  void NotePayloadUse(ChunkId chunk, const Fence& done, bool writes);
  // A resident payload stays at its address from Hold to LetGo (arena.h).
  void Hold(ChunkId chunk) { arena_->Hold(at(chunk).block); }
  void LetGo(ChunkId chunk) {
    if (resident(chunk)) arena_->LetGo(at(chunk).block);
  }
  Fence WaitToUseOptimizer(ChunkId chunk) const;  // device side only
  StateView optimizer_on_device(ChunkId chunk) const;
  void NoteOptimizerUse(ChunkId chunk, const Fence& done);
  // The statistics are told that `bytes` more of the payload are gradients
  // (unless they are in a gradient block, which counts as such from the start),
  // and that all of it holds parameters again.
  void AddGradientBytes(ChunkId chunk, int64_t bytes);
  void HoldsParameters(ChunkId chunk);

  // Only where ranks share the chunk. The gradients of all ranks are complete,
  // in the payload on the device or in the gradient block or, of a host-side
  // chunk, in its slot: adds them to the sum of the shard, or stores them. On
  // the device's side a payload that held them is spent then, until Share; what
  // changes it in between goes on the network's stream, behind the sum.
  absl::Status Reduce(ChunkId chunk, WorkTag tag, bool assign);
  // The gradients of a chunk with a device sum are complete, in its gradient
  // block, or in its resident payload, which is spent then: adds them, or
  // stores them if `assign`. Queues `work` on the compute stream, with the
  // gradients and the sum; where ranks share the chunk, adds all ranks' up
  // instead, on the network's.
  using SumWork = absl::AnyInvocable<absl::Status(
      std::byte* gradients, float* sum, const ExecContext&)>;
  absl::Status AddToDeviceSum(ChunkId chunk, WorkTag tag, bool assign,
                              SumWork work);
  // The own shard of the resident payload holds parameters: the others' come.
  // `changed`: its home is stale.
  absl::Status Share(ChunkId chunk, WorkTag tag, bool changed);
  // Two for whoever writes gradients elsewhere than in a payload, or gives a
  // step up. This rank's gradients of the whole payload, which is not resident,
  // of a chunk on the host's side: `fill` writes them where the next Reduce
  // finds them. Blocks.
  absl::Status PutGradients(ChunkId chunk,
                            absl::FunctionRef<void(std::byte* to)> fill);
  // Forgets a payload of a trainable chunk, wherever it is and whatever is in
  // it. It is spent then on the device's side; on the host's the home is to be
  // written anew (RunOnHost). Call when all work is over.
  void Forfeit(ChunkId chunk);
  // Work on the own shard of a resident payload, before Share.
  void NoteShardUse(ChunkId chunk, const Fence& done);

  // Queues `work` on the host's compute stream, after all that touches the
  // chunk's home and host-side states. The payload must not be resident, unless
  // the work is on gradients that were sent from beside it, or it is spent.
  using HostWork = absl::AnyInvocable<absl::Status(
      std::byte* home, const StateView& states, const ExecContext&)>;
  absl::Status RunOnHost(ChunkId chunk, WorkTag tag, HostWork work);

  // Makes a bank, if there is none. FailedPrecondition: not on the host's side;
  // ResourceExhausted: the host's budget.
  absl::Status MakeBank(ChunkId chunk);
  bool has_bank(ChunkId chunk) const {
    return at(chunk).bank.data() != nullptr;
  }
  // Frees it, if there is one. Blocks until the states are elsewhere.
  absl::Status DropBank(ChunkId chunk);
  struct BankView {
    StateView states;                // without a sum
    std::byte* gradients = nullptr;  // of the shard; null where there is a sum
  };
  using BankWork = absl::AnyInvocable<absl::Status(
      std::byte* home, const StateView& states, const BankView& bank,
      const ExecContext&)>;
  // As RunOnHost: the first queues work that leaves the states as they are,
  // and the chunk uncommitted, the second what makes the bank right.
  absl::Status RunAhead(ChunkId chunk, WorkTag tag, BankWork work);
  absl::Status Commit(ChunkId chunk, WorkTag tag, BankWork work);
  bool uncommitted(ChunkId chunk) const { return at(chunk).uncommitted; }
  // Forgets what ran ahead: the states are what they were before, and the home
  // is to be written anew (RunOnHost). Call when all work is over.
  void ForgetAhead(ChunkId chunk) { at(chunk).uncommitted = false; }

  // Brings the states to the other side. Blocks until they are there.
  absl::Status MoveOptimizer(ChunkId chunk, Side side,
                             int64_t at = Arena::kAnywhere);

  // Initialisation and restoring call these two, which block. Fill fills home
  // and states (null view for a frozen chunk), each of this rank's shard, in
  // host memory, then puts the states where they belong. The payload must not
  // be resident.
  absl::Status Fill(
      ChunkId chunk,
      absl::FunctionRef<absl::Status(std::byte* home, const StateView& states)>
          fill);
  // Saving calls these two, which block. They read a range of elements of one
  // part of the states, or of the payload's home (which must be valid), in its
  // own type. Elements are the chunk's, within this rank's shard.
  absl::Status ReadState(ChunkId chunk, StatePart part, int64_t begin,
                         int64_t end, void* out);
  // The same values where they lie, until the chunk is used again; null where
  // that is the device.
  absl::StatusOr<const std::byte*> StateOnHost(ChunkId chunk, StatePart part,
                                               int64_t begin, int64_t end);
  absl::Status ReadHome(ChunkId chunk, int64_t begin, int64_t end, void* out);

  absl::Status CheckConsistency() const;

  // Since creation, payloads and states.
  int64_t h2d_bytes() const { return h2d_bytes_; }
  int64_t d2h_bytes() const { return d2h_bytes_; }
  // From other ranks.
  int64_t network_bytes() const {
    return sharded() ? exchange_->received_bytes() : 0;
  }

 private:
  enum class Content : uint8_t { kParameters, kLocal, kSpent };
  struct Chunk {
    HostBlock home;
    BlockId block;  // the payload's, on the device
    bool dirty = false;
    bool home_valid = true;
    BlockId gradients;            // beside the payload, on the device
    bool block_sent = false;      // which may be dropped
    bool gradients_sent = false;  // from there, and not reduced yet
    bool block_added = false;     // to a sum on the device: it may be dropped
    BlockId device_sum;
    bool sum_sent = false;  // which may be dropped
    Content content = Content::kParameters;
    int slot = -1;               // holds, or held, the local payload
    int64_t gradient_bytes = 0;  // of the payload, wherever it is
    Fence home_written;          // after the last write to the home
    Fence home_used;             // after all work on it
    Side side = Side::kHost;
    HostBlock host_states;
    BlockId device_states;
    Fence states_used;  // host side: after all work on them
    HostBlock bank;
    // The states but for their sum are in `bank`, and `host_states` serves as
    // the bank.
    bool in_bank = false;
    bool uncommitted = false;
  };

  ChunkStore(Device* device, Arena* arena, HostMemory* host,
             const ChunkLayout* layout, bool accumulate,
             ShardExchange* exchange)
      : device_(device),
        arena_(arena),
        host_(host),
        layout_(layout),
        accumulate_(accumulate),
        exchange_(exchange) {}

  Chunk& at(ChunkId chunk) { return chunks_[chunk.value]; }
  const Chunk& at(ChunkId chunk) const { return chunks_[chunk.value]; }
  // A range of bytes within the states of a chunk.
  struct StateBytes {
    int64_t from = 0;
    int64_t bytes = 0;
  };
  StateBytes BytesOf(ChunkId chunk, StatePart part, int64_t begin,
                     int64_t end) const;
  int64_t states_bytes(ChunkId chunk) const {
    return layout_->state_bytes(chunk, accumulate_);
  }
  // Whether the payload can be fetched: its bytes are where its content says.
  bool saved(const Chunk& chunk) const {
    return chunk.content == Content::kParameters ? chunk.home_valid
           : chunk.content == Content::kLocal    ? chunk.slot >= 0
                                                 : true;
  }
  int64_t shard_offset(ChunkId chunk) const {  // in the payload's bytes
    return layout_->shard_begin(chunk) * SizeOf(layout_->dtype);
  }
  absl::Status CopyToSlot(ChunkId chunk, BlockId block, WorkTag tag);
  absl::Status ReduceOnDevice(ChunkId chunk, WorkTag tag, bool assign);
  void GiveSlotBack(Chunk& chunk);
  StateView ViewOf(ChunkId chunk, std::byte* base) const;
  StateView HostView(ChunkId chunk) const;
  BankView BankOf(ChunkId chunk) const;
  // Whether the host may work on the home and the states.
  bool HostMayWork(ChunkId chunk) const;
  // Behind all that touches them.
  void QueueOnHost(
      ChunkId chunk, WorkTag tag,
      absl::AnyInvocable<absl::Status(std::byte* home, const ExecContext&)>
          work);
  void TellCategories(ChunkId chunk);
  static std::string ChunkName(ChunkId chunk);
  absl::Status Illegal(ChunkId chunk, absl::string_view what) const;

  Device* const device_;
  Arena* const arena_;
  HostMemory* const host_;
  const ChunkLayout* const layout_;
  const bool accumulate_;
  ShardExchange* const exchange_;
  std::vector<Chunk> chunks_;
  int64_t h2d_bytes_ = 0;
  int64_t d2h_bytes_ = 0;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_EXEC_CHUNK_STORE_H_
