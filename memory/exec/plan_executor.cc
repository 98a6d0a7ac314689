#include "memory/exec/plan_executor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace castor {

absl::Status PlanExecutor::Adopt(std::shared_ptr<const Plan> plan) {
  Arena& arena = store_->arena();
  follows_addresses_ &= arena.stats().misplaced == misplaced_before_;
  if (plan == plan_) return absl::OkStatus();
  // Another plan with the same decisions finds everything in its place.
  const bool in_place =
      follows_addresses_ && plan_->addresses == plan->addresses &&
      plan_->initial == plan->initial && plan_->side == plan->side;
  const bool places = !in_place && plan->addresses.has_value() &&
                      arena.claimed_bytes() == 0 && arena.top_bytes() == 0;
  const int64_t chunks = store_->layout().num_chunks();
  CASTOR_CHECK(static_cast<int64_t>(plan->side.size()) == chunks ||
               (static_cast<int64_t>(plan->side.size()) > chunks &&
                activations_ != nullptr));
  std::vector<const ResidentChunk*> wanted(chunks, nullptr);
  for (const ResidentChunk& start : plan->initial) {
    wanted[start.chunk.value] = &start;
  }
  auto tag = [](WorkKind kind, ChunkId chunk) {
    return WorkTag{.kind = kind, .chunk = chunk.value};
  };

  for (int64_t i = 0; i < chunks; ++i) {
    const ChunkId id(i);
    if (!store_->resident(id)) continue;
    const bool leaves = wanted[i] == nullptr || places;
    if (leaves || !wanted[i]->dirty) {
      CASTOR_RETURN_IF_ERROR(
          store_->CopyBack(id, tag(WorkKind::kCopyBack, id)));
    }
    if (leaves) CASTOR_RETURN_IF_ERROR(store_->Drop(id));
  }
  std::vector<bool> banks(chunks, false);
  for (const std::vector<Action>& actions : plan->actions) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::kSpeculate) {
        banks[action.chunk.value] = true;
      }
    }
  }
  CASTOR_RETURN_IF_ERROR(DropBanks(*plan, banks));
  if (activations_ != nullptr) {
    CASTOR_RETURN_IF_ERROR(activations_->DropHomes());
  }
  CASTOR_RETURN_IF_ERROR(MoveOptimizers(*plan, Side::kHost, false));
  if (places) arena.MoveDown();
  CASTOR_RETURN_IF_ERROR(MoveOptimizers(*plan, Side::kDevice, places));
  // Only after states have left the host may there be room for activations.
  if (activations_ != nullptr) {
    CASTOR_RETURN_IF_ERROR(activations_->MakeHomes());
  }
  if (!in_place) {
    follows_addresses_ =
        places && arena.stats().used_bytes <= plan->addresses->begin;
    misplaced_before_ = arena.stats().misplaced;
  }
  for (size_t i = 0; i < plan->initial.size(); ++i) {
    const ChunkId id = plan->initial[i].chunk;
    if (store_->resident(id)) continue;
    CASTOR_RETURN_IF_ERROR(store_->Fetch(
        id, tag(WorkKind::kFetch, id),
        follows_addresses_ ? plan->addresses->initial[i] : Arena::kAnywhere));
  }
  for (int64_t i = 0; i < chunks; ++i) {
    if (!banks[i]) continue;
    // The host may have less room than when the plan was made. A chunk without
    // a bank is updated when the norm is known.
    const absl::Status made = store_->MakeBank(ChunkId(i));
    if (absl::IsResourceExhausted(made)) break;
    CASTOR_RETURN_IF_ERROR(made);
  }
  plan_ = std::move(plan);
  return absl::OkStatus();
}

absl::Status PlanExecutor::MoveOptimizers(const Plan& plan, Side side,
                                          bool to_places) {
  for (int64_t i = 0; i < store_->layout().num_chunks(); ++i) {
    if (plan.side[i] != side || !store_->layout().chunk(ChunkId(i)).trainable) {
      continue;
    }
    // Blocks that stay lie side by side from the low end on.
    const int64_t at =
        to_places ? store_->arena().stats().used_bytes : Arena::kAnywhere;
    CASTOR_RETURN_IF_ERROR(store_->MoveOptimizer(ChunkId(i), side, at));
  }
  return absl::OkStatus();
}

int64_t PlanExecutor::NextOfActions() {
  if (!follows_addresses_) return Arena::kAnywhere;
  const std::vector<int64_t>& planned = plan_->addresses->actions;
  return next_of_actions_ < planned.size() ? planned[next_of_actions_++]
                                           : Arena::kAnywhere;
}

int64_t PlanExecutor::NextNonModel(int64_t bytes) {
  if (!follows_addresses_) return Arena::kAnywhere;
  const std::vector<Addresses::Block>& planned = plan_->addresses->non_model;
  if (next_non_model_ >= planned.size()) return Arena::kAnywhere;
  const Addresses::Block& block = planned[next_non_model_];
  if (std::max(RoundUp(bytes, kBlockAlignment), kBlockAlignment) !=
      block.bytes) {
    next_non_model_ = planned.size();
    return Arena::kAnywhere;
  }
  ++next_non_model_;
  return block.offset;
}

absl::Status PlanExecutor::DropBanks(const Plan& next,
                                     const std::vector<bool>& wanted) {
  const int64_t chunks = store_->layout().num_chunks();
  bool drops = activations_ != nullptr && activations_->NeedsHomes();
  drops |= std::find(wanted.begin(), wanted.end(), true) != wanted.end();
  for (int64_t i = 0; i < chunks; ++i) {
    drops |= store_->layout().chunk(ChunkId(i)).trainable &&
             store_->side(ChunkId(i)) == Side::kDevice &&
             next.side[i] == Side::kHost;
  }
  for (int64_t i = 0; i < chunks && drops; ++i) {
    if (wanted[i]) continue;
    CASTOR_RETURN_IF_ERROR(store_->DropBank(ChunkId(i)));
  }
  return absl::OkStatus();
}

absl::Status PlanExecutor::ActOnActivations(const Action& action, WorkTag tag) {
  switch (action.kind) {
    case ActionKind::kFetch:
      return activations_->Fetch(action.chunk, tag,
                                 [this] { return NextOfActions(); });
    case ActionKind::kCopyBack:
      return activations_->CopyBack(action.chunk, tag);
    case ActionKind::kDrop:
      return activations_->Drop(action.chunk);
    default:
      CASTOR_CHECK(false);
  }
}

absl::Status PlanExecutor::ActOnChunk(const Action& action, WorkTag tag) {
  const ChunkId chunk = action.chunk;
  switch (action.kind) {
    case ActionKind::kFetch:
      return store_->Fetch(chunk, tag, NextOfActions());
    case ActionKind::kCopyBack:
      return store_->CopyBack(chunk, tag);
    case ActionKind::kDrop:
      return store_->Drop(chunk);
    case ActionKind::kMakeGradients:
      return store_->MakeGradients(chunk, NextOfActions());
    case ActionKind::kSendGradients:
      return store_->SendGradients(chunk, tag);
    case ActionKind::kDropGradients:
      return store_->DropGradients(chunk);
    case ActionKind::kMakeSum:
      return store_->MakeSum(chunk, NextOfActions());
    case ActionKind::kSendSum:
      return store_->SendSum(chunk, tag);
    case ActionKind::kDropSum:
      return store_->DropSum(chunk);
    case ActionKind::kSpeculate:
      return speculate_ ? speculate_(chunk) : absl::OkStatus();
  }
  CASTOR_CHECK(false);
}

absl::Status PlanExecutor::Act(Moment moment, uint16_t step) {
  CASTOR_CHECK(plan_ != nullptr);
  CASTOR_CHECK(moment.value < static_cast<int64_t>(plan_->actions.size()));
  if (moment.value == 0) next_of_actions_ = next_non_model_ = 0;
  for (const Action& action : plan_->actions[moment.value]) {
    const WorkTag tag = {.kind = RowOf(action.kind).copy,
                         .step = step,
                         .moment = moment.value,
                         .chunk = action.chunk.value};
    CASTOR_RETURN_IF_ERROR(action.chunk.value < store_->layout().num_chunks()
                               ? ActOnChunk(action, tag)
                               : ActOnActivations(action, tag));
  }
  return absl::OkStatus();
}

}  // namespace castor
