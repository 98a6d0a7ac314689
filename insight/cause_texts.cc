#include "insight/cause_texts.h"

#include <iterator>

namespace castor {
namespace {

constexpr absl::string_view kWaitedForRoot = "{who} had to wait for {root}.";

constexpr CauseRow kRows[] = {
    {.cause = WaitCause::kUnknown,
     .title = "Work from before the trace's window",
     .text = kWaitedForRoot},
    {.cause = WaitCause::kBus,
     .title = "The bus to the device: a chunk was still on its way",
     .text = "{needs}, which was still on its way: its copy takes longer than "
             "the operators beside it ran.",
     .back_to_back =
         "{needs}, which was still on its way: the copies before it and its "
         "own kept the bus busy longer than the operators beside them ran.",
     .decision = TellsDecision::kAlways,
     .remedy = "Would have helped: {memory}{bus}{batch}"},
    {.cause = WaitCause::kIssuedLate,
     .title = "A fetch was queued late: the host thread waited for the step "
              "before",
     .text = "{needs}, whose copy the host thread queued late: it was still "
             "waiting for the step before.",
     .decision = TellsDecision::kAlways,
     .remedy = "Would have helped: more work per step (a larger "
               "train_batch_size), so that the pause between steps weighs "
               "less."},
    {.cause = WaitCause::kRoomOperator,
     .title = "Room on the device: a fetch takes bytes that an operator still "
              "used",
     .text = "{subject} could start only when {root} was over: it takes bytes "
             "that the operator still used.",
     .decision = TellsDecision::kForFetches,
     .remedy = "Would have helped: {memory}{batch}"},
    {.cause = WaitCause::kRoomCopyBack,
     .title = "Room on the device: a fetch takes bytes that were still being "
              "copied back",
     .text = "{subject} could start only when {root} was over, whose bytes on "
             "the device it takes.",
     .decision = TellsDecision::kForFetches,
     .remedy = "Would have helped: {memory}{bus}{batch}"},
    {.cause = WaitCause::kOperatorRoom,
     .title = "Room on the device: an operator takes bytes that a copy still "
              "used",
     .text = "{who} needs bytes of device memory that {root} still used.",
     .remedy = "Would have helped: more memory.device_memory; a smaller micro "
               "batch, whose operators take less room."},
    {.cause = WaitCause::kHostUpdate,
     .title = "The CPU optimizer: a chunk was not updated yet",
     .text = "{subject} had to wait until the CPU had done {root}.",
     .decision = TellsDecision::kForFetches,
     .remedy = "Would have helped: {threads}{states}more tokens per step, so "
               "that updates are rarer."},
    {.cause = WaitCause::kHostReduce,
     .title = "The CPU optimizer: a chunk's gradients were not added up yet",
     .text = "{subject} had to wait until the CPU had done {root}.",
     .decision = TellsDecision::kForFetches,
     .remedy = "Would have helped: {threads}{states}{batch}"},
    {.cause = WaitCause::kGradientNorm,
     .title = "Gradient clipping: updates wait for the norm of all gradients",
     .text = "{who} had to wait for the norm of all gradients, by which they "
             "are clipped: it is known when the last gradient is{ending}",
     .remedy = "Would have helped: {states}gradient_clipping 0 (and no "
               "on_nonfinite_undo), if training is "
               "stable without it."},
    {.cause = WaitCause::kGradientsCopied,
     .title = "Gradients were still on their way to the host",
     .text = "{subject} had to wait until {root} had brought its gradients to "
             "the host.",
     .remedy = "Would have helped: {states}{bus}{batch}"},
    {.cause = WaitCause::kOperator,
     .title = "The operator that makes what is copied or reduced",
     .text = "{who} had to wait for {root}, which makes what it works on."},
    {.cause = WaitCause::kEarlierCopy,
     .title = "An earlier copy of the same chunk",
     .text = kWaitedForRoot,
     .remedy = "Would have helped: {memory}{bus}{batch}"},
    {.cause = WaitCause::kInput,
     .title = "The copy of the loss to the host",
     .text = "{who} takes bytes that the copy of the loss to the host still "
             "read.",
     .remedy = "Would have helped: a little more memory.device_memory, so that "
               "bytes need not be taken again at once."},
    {.cause = WaitCause::kPlanChange,
     .title = "Optimizer states change sides for a new plan",
     .text = "{who} had to wait for {root}, as the plan changed.",
     .remedy = "Nothing to do: it happens once for each new plan."},
    {.cause = WaitCause::kWokenLate,
     .title = "A stream went on late, after what it waited for was over",
     .text = "{subject} waited for {root}, and went on long after that was "
             "over{ending}",
     .remedy = "Would have helped: CPUs that nothing else uses, or fewer "
               "threads (device.threads): the device's streams are threads of "
               "this machine.",
     .host_only = true},
    {.cause = WaitCause::kBlocksMove,
     .title = "Blocks that move within the device's memory",
     .text = kWaitedForRoot,
     .remedy = "Would have helped: a little more memory.device_memory, so that "
               "bytes need not be taken again at once."},
    {.cause = WaitCause::kNetwork,
     .title = "The network: parts of a chunk were still on their way",
     .text = "{who} had to wait for {root}: its parts took longer to cross the "
             "network than the operators beside it ran.",
     .back_to_back =
         "{who} had to wait for {root}: what crossed the network before it and "
         "its own parts took longer than the operators beside them.",
     .remedy = "Would have helped: {memory}{network}{batch}"},
    {.cause = WaitCause::kLateRank,
     .title = "Rank {rank} was late for what all ranks do together",
     // Notes tell of each late rank in words of its own.
     .text = kWaitedForRoot,
     .remedy = "Look at rank {rank}: it is slower, has more to do, or shares "
               "its machine; its own lanes show what it waited for."},
    {.cause = WaitCause::kOther, .title = "Other work", .text = kWaitedForRoot},
};
static_assert(std::size(kRows) == kNumWaitCauses);

constexpr bool InOrder() {
  for (int i = 0; i < kNumWaitCauses; ++i) {
    if (static_cast<int>(kRows[i].cause) != i) return false;
  }
  return true;
}
static_assert(InOrder());

}  // namespace

const CauseRow& RowOf(WaitCause cause) {
  return kRows[static_cast<int>(cause)];
}

}  // namespace castor
