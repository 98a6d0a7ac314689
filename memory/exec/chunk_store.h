// Keeps track of where each chunk's bytes are and of which work must be over
// before they may be touched.
//
// Every chunk has a *home* for its payload in host memory and may have a block
// on the device. The optimizer states of a trainable chunk (memory/plan/
// state_layout.h) lie on one side: host memory, or a device block.
//
// With several ranks the home and the optimizer states hold this rank's shard;
// a block always holds the whole payload. States of a payload:
//
//   payload    its block, if any, holds     fetch            copy back
//   saved      parameters, as the home      shard + gather   nothing
//   changed    parameters; the home may     -                shard, if the home
//              be stale                                      is stale -> saved
//   local      some places taken over by    -                to a slot of
//              this rank's own gradients                     shard_exchange.h
//                                                            -> in slot
//   in slot    the same, as the slot        from the slot    nothing
//   reduced    nothing of use               -                nothing -> spent
//   spent      nothing of use               room alone       nothing
//
// Changed, local and reduced payloads are *dirty*: resident, and not to be
// dropped. Operators that write gradients make the payload local, or on one
// rank changed, with the home stale. After a reduce on the host the payload is
// saved again, since the home still has the parameters. On the device's side it
// is reduced, until the parameters are restored or updated.
//
// The home is *current*, *stale*, or has *gradients*: a gradient block was sent
// to it or to a slot, and is not reduced yet.
//
// A chunk on the host's side may also have a *gradient block*, a separate
// buffer on the device that operators write to in the payload's stead. It is
// *open* until it was *sent* to the home, or to a slot, for the next reduce, or
// *added* to a sum; then it may be dropped. Every reduce but the step's last
// one leaves the home equal to the payload. Where ranks share the chunks, a
// chunk on the device's side may have a gradient block, too; the reduce reads
// it there, and the payload keeps its parameters. The sum of a host-side
// chunk's gradients may be in a block on the device for a step, the *device
// sum*, which is open until it was sent: AddToDeviceSum adds to it the
// gradients in the gradient block, or those of the last micro batch in the
// payload, which is then spent until it is dropped. The home keeps the
// parameters.
//
// A chunk on the host's side may also have a *bank*: host memory for a second
// set of its states without the sum of gradients and, where there is no such
// sum, for the gradients. RunAhead updates into the bank; Commit exchanges the
// roles of the bank and the states. In between the chunk is *uncommitted*: only
// that Commit may use its home and its states.
//
// Invariants, checked by CheckConsistency:
//  1. A payload that is not resident is saved, in a slot, or spent.
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
#include "absl/types/span.h"
#include "device/device.h"
#include "memory/exec/arena.h"
#include "memory/exec/host_memory.h"
#include "memory/exec/shard_exchange.h"
#include "memory/exec/state_view.h"
#include "memory/plan/layout/chunk_layout.h"
#include "memory/plan/layout/state_layout.h"
#include "memory/plan/plan.h"
#include "tracer/work_tag.h"

namespace castor {

class ChunkStore {
 public:
  // Allocates homes, and states on the sides given (indexed by chunk);
  // initialises nothing. All arguments outlive the store; `exchange` is null on
  // one rank. ResourceExhausted: the host's or the device's budget has no room.
  static absl::StatusOr<std::unique_ptr<ChunkStore>> Create(
      Device* device, Arena* arena, HostMemory* host, const ChunkLayout* layout,
      bool accumulate, std::vector<Side> sides,
      ShardExchange* exchange = nullptr);

  const ChunkLayout& layout() const { return *layout_; }
  Arena& arena() const { return *arena_; }
  // Returns the offset of a resident payload in the arena.
  int64_t offset(ChunkId chunk) const {
    return arena_->Offset(at(chunk).block);
  }
  bool sharded() const { return exchange_ != nullptr; }
  // Says that the moments of tags are those of `step` from now on, which
  // outlives the store.
  void BeginStep(const StepTrace* step) {
    if (sharded()) exchange_->BeginStep(step);
  }
  bool resident(ChunkId chunk) const { return at(chunk).block.valid(); }
  bool dirty(ChunkId chunk) const { return IsDirty(at(chunk).payload); }
  Side side(ChunkId chunk) const { return at(chunk).side; }

  // Carry out a plan's actions on payloads. FailedPrecondition: plan.h says
  // that the action is illegal. CopyBack of a clean payload does nothing. `at`,
  // here and below, is the block's planned offset in the arena.
  absl::Status Fetch(ChunkId chunk, WorkTag tag, int64_t at = Arena::kAnywhere);
  absl::Status CopyBack(ChunkId chunk, WorkTag tag);
  absl::Status Drop(ChunkId chunk);
  // Carry out a plan's actions on gradient blocks. FailedPrecondition as above.
  // ResourceExhausted: the arena has no room.
  absl::Status MakeGradients(ChunkId chunk, int64_t at = Arena::kAnywhere);
  absl::Status SendGradients(ChunkId chunk, WorkTag tag);
  absl::Status DropGradients(ChunkId chunk);
  // Carry out a plan's actions on device sums. Errors as above.
  absl::Status MakeSum(ChunkId chunk, int64_t at = Arena::kAnywhere);
  absl::Status SendSum(ChunkId chunk, WorkTag tag);
  absl::Status DropSum(ChunkId chunk);
  bool has_gradient_block(ChunkId chunk) const {
    return at(chunk).gradients.state != Beside::kNone;
  }
  bool has_device_sum(ChunkId chunk) const {
    return at(chunk).sum.state != Beside::kNone;
  }
  // Frees the gradient block and the device sum, if any, whatever they hold:
  // for a caller that abandons a step.
  void ForgetGradients(ChunkId chunk);
  // Sends the device sum to the host, if there is one that was not sent, and
  // frees it: for a caller that continues the step on another plan after some
  // micro batch.
  absl::Status BringSumHome(ChunkId chunk, WorkTag tag);

  // An operator on the compute stream waits for this fence, uses the addresses
  // (valid until the arena's next Allocate), then notes the use. With `writes`
  // it writes gradients, to gradients(): the gradient block if there is one,
  // else the payload.
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
  // Tell the statistics that `bytes` more of the payload are gradients (a
  // gradient block counts as gradients from the start), and that all of the
  // payload holds parameters again.
  void AddGradientBytes(ChunkId chunk, int64_t bytes);
  void HoldsParameters(ChunkId chunk);

  // Adds the complete gradients of all ranks to the shard's sum, or stores them
  // there if `assign`. They are in the payload on the device, in the gradient
  // block or, for a host-side chunk, in its slot. Only where ranks share the
  // chunk. On the device's side a payload that held them is spent until Share;
  // work that changes it in between is queued on the network's stream, behind
  // the sum.
  absl::Status Reduce(ChunkId chunk, WorkTag tag, bool assign);
  // Adds the complete gradients of a chunk to its device sum, or stores them
  // there if `assign`. They are in its gradient block, or in its resident
  // payload, which is spent then. Queues `work` on the compute stream with the
  // gradients and the sum; where ranks share the chunk, the sum over all ranks
  // runs instead, on the network's stream.
  using SumWork = absl::AnyInvocable<absl::Status(
      std::byte* gradients, float* sum, const ExecContext&)>;
  absl::Status AddToDeviceSum(ChunkId chunk, WorkTag tag, bool assign,
                              SumWork work);
  // Gathers the other ranks' shards of a resident payload, in which this rank's
  // shard holds parameters. `changed`: the home is stale.
  absl::Status Share(ChunkId chunk, WorkTag tag, bool changed);
  // Has `fill` write this rank's gradients of the whole payload where the next
  // Reduce finds them: for a caller that makes gradients elsewhere than in a
  // payload. The chunk is on the host's side and its payload is not resident.
  // Blocks.
  absl::Status PutGradients(ChunkId chunk,
                            absl::FunctionRef<void(std::byte* to)> fill);
  // Discards the payload of a trainable chunk, wherever it is and whatever it
  // holds: for a caller that abandons a step. On the device's side it is spent
  // then; on the host's side the home must be written anew (RunOnHost). All
  // work must be over.
  void Forfeit(ChunkId chunk);
  // Notes work on this rank's shard of a resident payload, before Share.
  void NoteShardUse(ChunkId chunk, const Fence& done);

  // Queues `work` on the host's compute stream, after all work on the chunk's
  // home and host-side states. The payload must not be resident, unless it is
  // spent or the work is on gradients that a gradient block brought.
  using HostWork = absl::AnyInvocable<absl::Status(
      std::byte* home, const StateView& states, const ExecContext&)>;
  absl::Status RunOnHost(ChunkId chunk, WorkTag tag, HostWork work);

  // Makes a bank, if there is none. FailedPrecondition: the chunk is not on the
  // host's side. ResourceExhausted: the host's budget has no room.
  absl::Status MakeBank(ChunkId chunk);
  bool has_bank(ChunkId chunk) const {
    return at(chunk).bank.data() != nullptr;
  }
  // Frees the bank, if there is one. Blocks until the states have left it.
  absl::Status DropBank(ChunkId chunk);
  struct BankView {
    StateView states;                // without a sum
    std::byte* gradients = nullptr;  // of the shard; null where there is a sum
  };
  using BankWork = absl::AnyInvocable<absl::Status(
      std::byte* home, const StateView& states, const BankView& bank,
      const ExecContext&)>;
  // Queue work as RunOnHost does. RunAhead's work writes the bank, leaves the
  // states as they are and makes the chunk uncommitted; Commit's work makes the
  // bank right, if it is not.
  absl::Status RunAhead(ChunkId chunk, WorkTag tag, BankWork work);
  absl::Status Commit(ChunkId chunk, WorkTag tag, BankWork work);
  bool uncommitted(ChunkId chunk) const { return at(chunk).uncommitted; }
  // Forgets what ran ahead: the states are what they were before, and the home
  // is to be written anew (RunOnHost). Call when all work is over.
  void ForgetAhead(ChunkId chunk) { at(chunk).uncommitted = false; }

  // The values that the optimizer keeps of a parameter's margins, on all ranks
  // alike, in host memory (memory/plan/layout/margins.h). Only work on the
  // host's compute stream, or a caller when all work is over, may use them.
  absl::Span<float> margins(ParamId parameter) const;

  // Moves the states to `side`. Blocks until they are there.
  absl::Status MoveOptimizer(ChunkId chunk, Side side,
                             int64_t at = Arena::kAnywhere);

  // Has `fill` write the home and the states of this rank's shard (a null view
  // for a frozen chunk) in host memory, then moves the states to their side:
  // for initialisation and restoring. What it does not write stays. The payload
  // must not be resident. Blocks.
  absl::Status Fill(
      ChunkId chunk,
      absl::FunctionRef<absl::Status(std::byte* home, const StateView& states)>
          fill);
  // ReadState and ReadHome copy a range of elements of one part of the states,
  // or of the payload's home (which must be valid), in its own type: for
  // saving. Elements are counted in the chunk, and lie within this rank's
  // shard. They block. A format with a second part (base/state_format.h) is
  // read from a tile's begin, as an array of the elements of as many whole
  // tiles.
  absl::Status ReadState(ChunkId chunk, StatePart part, int64_t begin,
                         int64_t end, void* out);
  // Returns the address of the same values, valid until the chunk is used
  // again; null where they are on the device.
  absl::StatusOr<const std::byte*> StateOnHost(ChunkId chunk, StatePart part,
                                               int64_t begin, int64_t end);
  absl::Status ReadHome(ChunkId chunk, int64_t begin, int64_t end, void* out);

  absl::Status CheckConsistency() const;

  // Bytes of payloads and states copied since creation.
  int64_t h2d_bytes() const { return h2d_bytes_; }
  int64_t d2h_bytes() const { return d2h_bytes_; }
  // Bytes received from other ranks since creation.
  int64_t network_bytes() const {
    return sharded() ? exchange_->received_bytes() : 0;
  }

 private:
  // The states in the tables above.
  enum class Payload : uint8_t {
    kSaved,
    kChanged,
    kLocal,
    kInSlot,
    kReduced,
    kSpent
  };
  enum class Home : uint8_t { kCurrent, kStale, kGradients };
  enum class Beside : uint8_t { kNone, kOpen, kSent, kAdded };
  // A separate buffer on the device, valid unless its state is kNone.
  struct BlockBeside {
    BlockId block;
    Beside state = Beside::kNone;
  };
  struct Chunk {
    Payload payload = Payload::kSaved;
    BlockId block;  // the payload's, on the device
    HostBlock home;
    Home home_state = Home::kCurrent;
    BlockBeside gradients;
    BlockBeside sum;
    int slot = -1;               // has, or had, local gradients
    int64_t gradient_bytes = 0;  // of the payload, wherever it is
    Fence home_written;          // after the last write to the home
    Fence home_used;             // after all work on it
    Side side = Side::kHost;
    HostBlock host_states;
    BlockId device_states;
    Fence states_used;  // host side: after all work on them
    HostBlock bank;
    // True if the states without their sum are in `bank`, and `host_states`
    // serves as the bank.
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
  // Ranges of bytes within the states of a chunk, and where they are copied to.
  struct StateRange {
    int64_t from = 0;
    int64_t to = 0;
    int64_t bytes = 0;
  };
  // The elements', and where the format has any their scales'.
  std::vector<StateRange> RangesOf(ChunkId chunk, StatePart part, int64_t begin,
                                   int64_t end) const;
  int64_t states_bytes(ChunkId chunk) const {
    return layout_->state_bytes(chunk, accumulate_);
  }
  static bool IsDirty(Payload payload) {
    return payload == Payload::kChanged || payload == Payload::kLocal ||
           payload == Payload::kReduced;
  }
  // Returns true if a payload that is not dirty is where its state says.
  static bool IsSaved(const Chunk& chunk) {
    switch (chunk.payload) {
      case Payload::kSaved:
        return chunk.home_state != Home::kStale;
      case Payload::kInSlot:
        return chunk.slot >= 0;
      case Payload::kSpent:
        return true;
      default:
        return false;
    }
  }
  absl::Status MakeBeside(ChunkId chunk, int64_t bytes, int64_t at_offset,
                          BlockBeside& beside);
  void DropBeside(BlockBeside& beside) {
    arena_->Free(beside.block);
    beside = BlockBeside();
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
  // Returns true if the host may work on the home and the states.
  bool HostMayWork(ChunkId chunk) const;
  // Queues `work` behind all work on the home and the states.
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
  HostBlock margins_;                   // all parameters'
  std::vector<int64_t> margins_begin_;  // [ParamId], in values
  int64_t h2d_bytes_ = 0;
  int64_t d2h_bytes_ = 0;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_EXEC_CHUNK_STORE_H_
