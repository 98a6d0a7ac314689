// Other systems' ways to place chunks, as policies to compare auto with. The
// product does not have them.
//
// Each decides as its public code does, for what there is here: chunks of the
// trace's layout, one device and one host, and an executor that copies in both
// directions beside compute. It knows the exact non-model bytes of each moment,
// as after a warm-up without error, may use the whole budget, and runs at every
// budget at which auto runs. A chunk leaves right after its last use, where
// these systems wait until its room is wanted; a clean one takes no copy. Knobs
// that they leave to their users have the setting whose simulated step is the
// fastest (baseline_search.h).
//
// gemini: Colossal-AI's auto placement (hpcaitech/ColossalAI, version 0.5.0,
// April 2026, commit 4f9953b, colossalai/zero/gemini).
//   Who leaves, and that nobody does while there is room in
//     steady_cuda_cap_ratio of the memory: AutoPlacementPolicy.evict_tensors
//     (placement_policy.py), which GeminiManager.adjust_layout calls before
//     each operator. Tried: 0.9, its default, and 1.
//   What is prefetched: AutoPlacementPolicy.get_prefetch_chunks, called by
//     GeminiZeROHook.pre_op (gemini_hook.py). Tried for max_prefetch: 0, its
//     default, to 16.
//   The first chunks have their states on the device, in gpu_margin_mem_ratio
//     of what the warm-up left: GeminiOptimizer._maybe_move_fp32_params
//     (gemini_optimizer.py). Tried: nine shares from 0, its default, to 1 of
//     the room that no moment needs, as a warm-up leaves it in which chunks
//     have the least (warmup_non_model_data_ratio).
//   More generous here: a fetch waits for its room and the bus alone, while a
//     prefetch there waits for all operators queued before it. States count as
//     many bytes as they have, there a third more. Sums of micro batches are
//     made on the host; there they are fetched for each one and sent back
//     (ChunkManager.rearrange_accumulated_grad_chunk).
//   Left out: its search for a chunk size; its static placement, whose
//     fractions its user gives.
//
// patrickstar: PatrickStar (Tencent/PatrickStar, after version 0.4.6, commit
// 2384535, folder patrickstar; arXiv 2108.05818).
//   Who leaves: LatestAccessChunkEvictionPolicy (core/eviction_policy.py), by
//     ChunkList.prepare_device (core/chunk_list.py) when a chunk is accessed.
//     Nothing is prefetched.
//   The first chunks have their states on the device, in margin_use_ratio of
//     what is left beside the greatest non-model bytes and all payloads:
//     RuntimeMemTracer.update_margin_mem (core/memtracer/memtracer.py) and
//     FP32ChunkReadBuffer (ops/chunk_io_buff.py). Tried: nine shares from 0 to
//     1; its default is 0.8.
//   More generous here: copies run beside compute, where its host waits for
//     each. It has all of the budget, not 0.8 less two chunks. Parameters that
//     the host has updated go up in 16 bits, there in 32 to payloads that
//     stayed.
//   Left out: states are chunks like all others there, so that those on the
//     device may leave in forward and backward and come back for the update.
//     It has no gradient accumulation.
//
// protrain: ProTrain (arXiv 2406.08334, version 2). We know of no code by its
// authors and have the paper's abstract alone; the rest is from a
// reimplementation that others made of the paper for Axolotl and whose comments
// name its sections (thad0ctor/axolotl, 2026,
// src/axolotl/integrations/protrain).
//   All of the four numbers are tried: search/exhaustive.py. Of persistent
//     chunks, which are the first ones: 17 counts, up to all that fit. Of
//     buffers: the most that fit, the best number there for each of these.
//   What forward left in the buffers backward uses again: chunk/buffer_pool.py.
//     What comes ahead: runtime/scheduler.py.
//   Which blocks are swapped or recomputed: block/layout_rules.py. Policies do
//     not choose that; protrain_blocks.h does.
//   More generous here: buffers are what each moment leaves, there what the
//     worst one does, less a tenth for fragmentation. Out of them goes the
//     chunk with the farthest next use, there the one used longest ago. A chunk
//     comes as soon as there is a buffer, there one block ahead. A swapped
//     block's activations stay if nothing wants their room. Each setting is
//     simulated, where the paper has formulas.
//   Not known: what it does about several micro batches. It may have gradients
//     beside payloads, as auto may.
#ifndef CASTOR_RESEARCH_BASELINE_POLICIES_H_
#define CASTOR_RESEARCH_BASELINE_POLICIES_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "memory/plan/policy/policies.h"

namespace castor {

absl::Span<const PlacementPolicy> BaselinePolicies();

// Returns the baseline of that name, or null if there is none.
const PlacementPolicy* FindBaseline(absl::string_view name);

}  // namespace castor

#endif  // CASTOR_RESEARCH_BASELINE_POLICIES_H_
