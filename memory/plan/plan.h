// The plan of a step: for each moment the chunks to fetch, to copy back and to
// drop.
//
// Words. A chunk's *payload* is its parameters in the compute type, whose place
// their gradients take over in backward. Its *home* is its payload's block in
// host memory; every chunk has one: with several ranks, of this rank's shard. A
// payload is *resident* when it has a block on the device, always for all of
// it. Its *side* is where its optimizer states live and its update runs, for
// the whole step. Frozen chunks have no optimizer states.
//
//   one chunk on the host's side, one micro batch, the device's view:
//
//   moment    0 .. f ...... b ........ r ........ u ........ T
//   payload      [parameters ][gradients]           [parameters (next step)
//   action    Fetch          |          |           Fetch
//                      operators        CopyBack,
//                      write            Drop
//                      gradients
//   host                                reduce(c)  update(c)
//
// Gradients of a micro batch that is not the last may get a *gradient block*
// beside their payload, which then stays clean and may stay resident while the
// host adds the gradients up. The plan chooses so for each chunk and micro
// batch; the block is as large as the payload and goes home in its place.
//
//   moment    ... b ....... r ....... d ... f ...
//   payload     [parameters                     ]
//   block       [gradients             ]
//   action      Make       Send       Drop
//   host                    reduce(c)
//
// Where there is room it is dropped only when its copy should be over, so that
// nothing else takes its place and waits for it.
//
// On several ranks a chunk on the device's side may have one, too: its reduce,
// on the device, reads the block, which is not sent, and the payload need not
// be put back and gathered from all ranks for the next micro batch.
//
// The sum of several micro batches' gradients of a chunk on the host's side may
// have a block on the device too, the *device sum*, for one step: the device
// adds the gradients of all its micro batches to it, and it goes to the host
// once, to the chunk's other optimizer states. Gradients of a micro batch that
// is not the last then come from a gradient block, which is not sent; those of
// the last one lie in the payload, which is worth nothing from then on.
//
//   moment    ... b .. r ......... b' .. r' .... d ... u
//   payload     [parameters       ][gradients]          [parameters
//   block       [gradients]
//   sum              [                        ]
//   action      Make  Drop               Send, Drop
//   device           reduce(c)           reduce(c)
//   host                                               update(c)
//
// Where gradients are clipped by their norm, or may be skipped (fp16), an
// update on the host may run before that is known, as a *speculative update*:
// from the chunk's states into a second set of them, its *bank*, as if nothing
// were clipped or skipped. At its kUpdate it is committed: if that was so, bank
// and states exchange their roles, else, on a *miss*, the update runs again,
// from the states that are as they were, into the bank, and then they do.
// Whoever queues work needs not know which: states are in the bank afterwards.
//
//   moment    ... r ............ n ...... u ...... f
//   host      reduce(c)  update(c)  norm  (again)
//   action              Speculate                  Fetch
//
// Addresses may be planned too: blocks' lifetimes are known, so an offset is
// found for each of them that no other one has while it lives. Nothing is moved
// then, and a block waits only for those that had its bytes last.
//
// A plan is cyclic: what is resident after its last action is what it starts
// with, so that it can be repeated step after step.
//
// Accounting is logical, in the order in which the host thread issues work:
// Drop makes room for what is issued after it. Whoever takes that room waits,
// on its own stream, for the fence of the block it takes (memory/exec/arena.h),
// so the sum of bytes never exceeds the budget at any instant.
#ifndef CASTOR_MEMORY_PLAN_PLAN_H_
#define CASTOR_MEMORY_PLAN_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/ids.h"
#include "base/units.h"
#include "tracer/plan_record.h"
#include "tracer/step_trace.h"

namespace castor {

struct PlacementPolicy;  // memory/plan/policy/policies.h

// Every block of the device's and of the host's memory counts as rounded up to
// this.
inline constexpr int64_t kBlockAlignment = 256;

struct Action {
  ActionKind kind;  // tracer/plan_record.h says what each needs and leaves
  ChunkId chunk;
  // Why, for the viewer: the operator that needs it, or what it makes room for.
  // The moment of the use (in this step, or minus ops.size() in the next one)
  // that the decision looked at; invalid where there is none.
  Moment because;

  friend bool operator==(const Action&, const Action&) = default;
};

enum class Side : uint8_t { kHost, kDevice };

struct ResidentChunk {
  ChunkId chunk;
  bool dirty = false;
  friend bool operator==(const ResidentChunk&, const ResidentChunk&) = default;
};

// Where each block of a step lies on the device, the same in every step. Blocks
// are named by the order in which they are made.
struct Addresses {
  // Below it lies what stays through all steps: reserved bytes and the
  // optimizer states of the device's side, in any order.
  int64_t begin = 0;
  std::vector<int64_t> initial;  // the payloads of Plan::initial, in its order
  // What kFetch, kMakeGradients and kMakeSum make; of activations that come
  // from the host each tensor, in the order in which they were made.
  std::vector<int64_t> actions;
  struct Block {
    int64_t offset = 0;
    int64_t bytes = 0;
    friend bool operator==(const Block&, const Block&) = default;
  };
  // StepTrace::tensors, and after an operator's own its workspace, if any.
  std::vector<Block> non_model;

  friend bool operator==(const Addresses&, const Addresses&) = default;
};

// Immutable once the checker has passed it.
struct Plan {
  const PlacementPolicy* policy = nullptr;  // whose it is
  std::string signature;                    // the trace's
  // Indexed by ChunkId. Frozen chunks: kHost.
  std::vector<Side> side;
  // Resident before moment 0 and after the last action, by ascending chunk.
  std::vector<ResidentChunk> initial;
  // actions[t], t in [0, T): issued before operator t allocates, in order.
  // actions[T]: after the last operator. Size T + 1.
  std::vector<std::vector<Action>> actions;
  // Empty, or why this is the one-operator-ahead plan in place of the policy's
  // own: how that one failed its proof.
  std::string instead_of_unproven = {};
  // Absent: blocks get their addresses when work is issued, where they fit then
  // (memory/exec/arena.h), and are moved together where they do not.
  std::optional<Addresses> addresses = {};
};

// Copies run at once in the two directions, each one after the other, and
// beside them collectives on the network between ranks. Speeds are greater than
// 0.
struct BusModel {
  double h2d_bytes_per_s = 8e9;
  double d2h_bytes_per_s = 8e9;
  int64_t latency_ns = 0;            // per copy
  double network_bytes_per_s = 4e9;  // that one rank receives
};

// What speculative updates may have.
struct SpeculationRequest {
  // The most bytes of the host in all, banks included, beside the host's own
  // budget. 0: no update may run before the norm is known.
  int64_t host_bytes = 0;
  // The share of the steps in which they are expected to be in vain.
  double miss_rate = 0;
  // The least part of a step that they are to save. Negative: there are as many
  // as fit, whatever they save (tests).
  double least_gain = 0.01;
};

struct PlanRequest {
  const StepTrace* trace = nullptr;  // not null; outlives the call
  int64_t device_budget_bytes = kUnlimitedBytes;
  int64_t host_budget_bytes = kUnlimitedBytes;
  // Device bytes that are always taken (scalars, staging), not in the trace.
  int64_t device_reserved_bytes = 0;
  // Host bytes that are always taken (staging, buffers), not in the trace.
  int64_t host_reserved_bytes = 0;
  BusModel bus;
  bool prefetch = true;
  // The share of the device bytes that no moment needs which may hold optimizer
  // states, in [0, 1].
  double gpu_margin_mem_ratio = 1.0;
  // Empty: the policy chooses. Otherwise the sides to plan with, indexed by
  // ChunkId: evaluation between training steps keeps those of the training
  // plan. In an evaluation trace nothing changes a payload, and the payload of
  // a device-side chunk may differ from its home since its last update, so such
  // a chunk stays resident and dirty throughout, used or not.
  std::vector<Side> fixed_side = {};
  SpeculationRequest speculation = {};
  // Ranks that share the chunks, the trace being one of them's. All of them
  // must ask for the same: their plans order the collectives.
  int world_size = 1;
};

// Why a request cannot be planned. Everything a user needs to mend it.
struct Refusal {
  std::string tier;  // "device", "host", or "machine": both in one memory
  std::string op;    // the operator at the worst moment
  Moment moment;
  int64_t peak_bytes = 0;      // non-model bytes of that operator
  int64_t resident_bytes = 0;  // chunks that must be there, and reserved bytes
  int64_t smallest_device_budget_bytes = 0;  // the least that would do
  int64_t smallest_host_budget_bytes = 0;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_PLAN_H_
