// The plan of a step: for each moment the chunks to fetch, to copy back and to
// drop.
//
// Words. A chunk's *payload* is its parameters in the compute type; in backward
// their gradients take over their places. Its *home* is the block of host
// memory for the payload, or with several ranks for this rank's shard of it;
// every chunk has one. A payload is *resident* when it has a block on the
// device, always as a whole. Its *side* is where its optimizer states live and
// its update runs, for the whole step. Frozen chunks have no optimizer states.
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
// Gradients of a micro batch that is not the last may get a *gradient block*, a
// separate buffer as large as the payload. The payload then stays clean and may
// stay resident while the host adds the gradients up; the gradient block is
// sent to the home in its place. The plan decides this for each chunk and micro
// batch.
//
//   moment    ... b ....... r ....... d ... f ...
//   payload     [parameters                     ]
//   block       [gradients             ]
//   action      Make       Send       Drop
//   host                    reduce(c)
//
// Where there is room the gradient block is dropped only when its copy should
// be over, so that no other block takes its place and waits for the copy.
//
// On several ranks a chunk on the device's side may have a gradient block, too.
// It is not sent: the reduce on the device reads it, and the payload need not
// be restored and gathered from all ranks for the next micro batch.
//
// For a chunk on the host's side the sum of several micro batches' gradients
// may have a block on the device for one step, the *device sum*. The device
// adds the gradients of all micro batches to it, and it is sent to the host
// once, to the chunk's other optimizer states. Gradients of a micro batch that
// is not the last then come from a gradient block, which is not sent; those of
// the last one lie in the payload, whose content is not needed from then on.
//
//   moment    ... b .. r ......... b' .. r' .... d ... u
//   payload     [parameters       ][gradients]          [parameters
//   block       [gradients]
//   sum              [                        ]
//   action      Make  Drop               Send, Drop
//   device           reduce(c)           reduce(c)
//   host                                               update(c)
//
// Where gradients are clipped by their norm, or a step may be skipped (fp16),
// an update on the host may run before that is known, as a *speculative
// update*: from the chunk's states into a second set of them, its *bank*, as if
// nothing were clipped or skipped. It is committed at its kUpdate. On a *miss*
// (something was clipped or skipped) the update first runs again, from the
// unchanged states into the bank. Then bank and states exchange their roles, on
// a miss or not, so that queued work need not know which it was.
//
//   moment    ... r ............ n ...... u ...... f
//   host      reduce(c)  update(c)  norm  (again)
//   action              Speculate                  Fetch
//
// Addresses may be planned too: since the blocks' lifetimes are known, each
// gets an offset that no other block has while it lives. Nothing is moved then,
// and a block waits only for the blocks that had its bytes last.
//
// A plan is cyclic: the chunks resident after its last action are those that it
// starts with, so that it can be repeated step after step.
//
// Accounting is logical, in the order in which the host thread issues work:
// Drop makes room for all work issued after it. The work that takes that room
// waits, on its own stream, for the fence of the dropped block
// (memory/exec/arena.h), so the sum of bytes never exceeds the budget at any
// instant.
#ifndef CASTOR_MEMORY_PLAN_PLAN_H_
#define CASTOR_MEMORY_PLAN_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/ids.h"
#include "base/units.h"
#include "tracer/action_kinds.h"
#include "tracer/step_trace.h"

namespace castor {

struct PlacementPolicy;  // memory/plan/policy/policies.h

// Bytes to which each block counts as rounded up, on the device and the host.
inline constexpr int64_t kBlockAlignment = 256;

struct Action {
  ActionKind kind;  // tracer/action_kinds.h says what each needs and leaves
  ChunkId chunk;
  // The reason, for the viewer: the moment of the operator that needs the
  // chunk, or that the action makes room for (in this step, or minus ops.size()
  // in the next one); invalid where there is none.
  Moment because;

  friend bool operator==(const Action&, const Action&) = default;
};

enum class Side : uint8_t { kHost, kDevice };

struct ResidentChunk {
  ChunkId chunk;
  bool dirty = false;
  friend bool operator==(const ResidentChunk&, const ResidentChunk&) = default;
};

// Offsets of a step's blocks on the device, the same in every step. Blocks are
// listed in the order in which they are made.
struct Addresses {
  // Below it lie the bytes that stay through all steps, in any order: reserved
  // bytes and the optimizer states of the device's side.
  int64_t begin = 0;
  std::vector<int64_t> initial;  // the payloads of Plan::initial, in its order
  // The blocks that kFetch, kMakeGradients and kMakeSum make; for activations
  // that come from the host one for each tensor, in the order in which they
  // were made.
  std::vector<int64_t> actions;
  struct Block {
    int64_t offset = 0;
    int64_t bytes = 0;
    friend bool operator==(const Block&, const Block&) = default;
  };
  // StepTrace::tensors, and after an operator's tensors its workspace, if any.
  std::vector<Block> non_model;

  friend bool operator==(const Addresses&, const Addresses&) = default;
};

// Immutable once the checker has passed it.
struct Plan {
  const PlacementPolicy* policy = nullptr;  // that made it
  std::string signature;                    // the trace's
  // Indexed by ChunkId. Frozen chunks: kHost.
  std::vector<Side> side;
  // Resident before moment 0 and after the last action, by ascending chunk.
  std::vector<ResidentChunk> initial;
  // actions[t], t in [0, T): issued before operator t allocates, in order.
  // actions[T]: after the last operator. Size T + 1.
  std::vector<std::vector<Action>> actions;
  // Empty, or the way in which the policy's own plan failed its proof, so that
  // this is the one-operator-ahead plan in its place.
  std::string instead_of_unproven = {};
  // Absent if blocks get their addresses when work is issued, where they fit
  // then (memory/exec/arena.h), and are moved together where they do not.
  std::optional<Addresses> addresses = {};
};

// Copies in the two directions run concurrently, those of one direction one
// after the other; collectives on the network run beside them. Speeds are
// greater than 0.
struct BusModel {
  double h2d_bytes_per_s = 8e9;
  double d2h_bytes_per_s = 8e9;
  int64_t latency_ns = 0;            // per copy
  double network_bytes_per_s = 4e9;  // that one rank receives
};

// Limits of speculative updates.
struct SpeculationRequest {
  // A limit, beside the host's budget, on the host bytes in all, banks
  // included. 0: no update may run before the norm is known.
  int64_t host_bytes = 0;
  // The expected share of steps in which speculative updates are in vain.
  double miss_rate = 0;
  // The least part of a step that they must save. Negative: as many are made as
  // fit, whatever they save (tests).
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
  // The share, in [0, 1], of the device bytes that no moment needs in which
  // optimizer states may lie.
  double gpu_margin_mem_ratio = 1.0;
  // The sides to plan with, indexed by ChunkId; empty: the policy chooses.
  // Evaluation between training steps keeps the sides of the training plan. In
  // an evaluation trace nothing changes a payload, and the payload of a
  // device-side chunk may differ from its home since its last update, so such a
  // chunk stays resident and dirty throughout, used or not.
  std::vector<Side> fixed_side = {};
  SpeculationRequest speculation = {};
  // The number of ranks that share the chunks; the trace is that of one rank.
  // All ranks must make equal requests, since plans order the collectives.
  int world_size = 1;
};

// The reason why a request cannot be planned, with all that a user needs to
// change it.
struct Refusal {
  std::string tier;  // "device", "host", or "machine": both in one memory
  std::string op;    // the operator at the worst moment
  Moment moment;
  int64_t peak_bytes = 0;      // non-model bytes of that operator
  int64_t resident_bytes = 0;  // chunks that must be there, and reserved bytes
  int64_t smallest_device_budget_bytes = 0;  // the smallest that fits
  int64_t smallest_host_budget_bytes = 0;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_PLAN_H_
