#include "insight/notes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/units.h"
#include "insight/cause_texts.h"
#include "memory/plan/policy/policies.h"

namespace castor {
namespace {

// Returns true if the CPU emulates the device, its streams being threads.
bool OnTheHost(const TraceIndex& index) {
  return index.contents().run.has_value() &&
         index.contents().run->device == "host";
}

absl::string_view PauseNote(WorkKind kind) {
  switch (kind) {
    case WorkKind::kPlanning:
      return "The program makes a plan for the steps after it, from what was "
             "measured in those before; it queues no step meanwhile.";
    case WorkKind::kResizing:
      return "The device's memory becomes larger or smaller: the program makes "
             "a plan for it and moves what no longer fits to the host; it "
             "queues no step meanwhile.";
    default:
      return "The program writes a checkpoint; it queues no step meanwhile.";
  }
}

class Writer {
 public:
  Writer(const TraceIndex& index, const WaitCauses& causes, SpanList& list,
         StringTable& strings, const Peers& peers)
      : index_(index),
        causes_(causes),
        list_(list),
        strings_(strings),
        peers_(peers) {}

  void Write() {
    const int64_t before = strings_.bytes();
    for (int64_t i = 0; i < static_cast<int64_t>(list_.spans.size()); ++i) {
      const bool full = strings_.bytes() - before > kMostNoteBytes;
      if (list_.spans[i].kind < 0) {
        WriteWait(i, full);
      } else if (IsPause(list_.links.kind[i])) {
        list_.spans[i].note =
            strings_.Add(std::string(PauseNote(list_.links.kind[i])));
      } else if (!full) {
        WriteCopy(i);
      }
    }
  }

 private:
  const TraceView::Span& span(int64_t i) const { return list_.spans[i]; }

  void WriteCopy(int64_t i) {
    TraceView::Span& copy = list_.spans[i];
    const CopyDirection direction = DirectionOf(copy);
    const int64_t plan = index_.PlanOfStep(copy.step);
    if (IsBlockMove(index_, copy)) {
      const auto [note, is_new] =
          move_notes_.try_emplace(std::make_pair(plan, copy.because), 0);
      if (is_new) note->second = strings_.Add(MoveNote(i));
      copy.note = note->second;
      return;
    }
    if (direction == CopyDirection::kNone) return;
    const auto [note, is_new] = copy_notes_.try_emplace(
        std::make_tuple(plan, copy.kind, copy.moment, copy.chunk), 0);
    if (is_new) {
      note->second = strings_.Add(direction == CopyDirection::kToDevice
                                      ? FetchNote(plan, i)
                                      : CopyBackNote(plan, i));
    }
    copy.note = note->second;
  }

  // "for operator X, 3 operators ahead"
  std::string FetchNote(int64_t plan, int64_t i) const {
    const TraceView::Span& fetch = span(i);
    const int64_t program = list_.links.program[i];
    std::string text = absl::StrCat(
        "Brings ", ChunkText(index_, program, fetch.chunk), " to the device");
    if (plan < 0) {
      return absl::StrCat(text,
                          ", before the step, as the plan starts with it "
                          "there.");
    }
    if (fetch.because >= 0) {
      absl::StrAppend(&text, " for ",
                      OperatorText(index_, program, fetch.because),
                      Ahead(program, fetch.moment, fetch.because));
    }
    return absl::StrCat(text, ".", LeftText(plan, program, fetch));
  }

  std::string MoveNote(int64_t i) const {
    const TraceView::Span& move = span(i);
    const PlanRecord* const plan = index_.PlanRecordOfStep(move.step);
    const bool unplanned =
        plan != nullptr && plan->planned_addresses == std::optional(false);
    return absl::StrCat(
        "Moves a block, to make one hole of several for what ",
        OperatorText(index_, list_.links.program[i], move.because), " needs.",
        unplanned ? " The plan has no addresses: blocks get theirs when work "
                    "is issued."
                  : "");
  }

  std::string Ahead(int64_t program, int64_t moment, int64_t because) const {
    const StepTrace* const trace = index_.Trace(program);
    const bool next_step = because < moment;
    const int64_t moments =
        trace == nullptr ? 0 : static_cast<int64_t>(trace->ops.size());
    const int64_t ahead = because - moment + (next_step ? moments : 0);
    if (ahead < 0) return "";
    return absl::StrCat(next_step ? " of the next step, " : ", ",
                        ahead == 0   ? "only when it comes up"
                        : ahead == 1 ? "1 operator ahead"
                                     : absl::StrCat(ahead, " operators ahead"));
  }

  // Says why the chunk was not there.
  std::string LeftText(int64_t plan, int64_t program,
                       const TraceView::Span& fetch) const {
    const ActionRecord* const drop =
        index_.DropBefore(plan, fetch.chunk, fetch.moment);
    if (drop == nullptr) return "";
    const OpRecord* const op = index_.Op(program, drop->because.value);
    if (op == nullptr) {
      return absl::StrCat(" It had left before ",
                          OperatorText(index_, program, drop->moment.value),
                          ", after its last use until then.");
    }
    if (IsForThe(*op, fetch.chunk)) {
      return absl::StrCat(
          " It had left because the CPU ",
          op->kind == OpKind::kReduce ? "adds up its gradients" : "updates it",
          ".");
    }
    return absl::StrCat(" It had left to make room for ",
                        OperatorText(index_, program, drop->because.value),
                        ".");
  }

  // Returns true if the operator is the chunk's reduce or update.
  static bool IsForThe(const OpRecord& op, int64_t chunk) {
    return op.kind != OpKind::kCompute && op.chunks.size() == 1 &&
           op.chunks[0].chunk.value == chunk;
  }

  // Returns true if the fetch brings back a chunk that the CPU had to work on.
  bool ComesFromTheCpu(int64_t i) const {
    if (i < 0 ||
        RowOf(list_.links.kind[i]).direction != CopyDirection::kToDevice) {
      return false;
    }
    const ActionRecord* const drop = index_.DropBefore(
        index_.PlanOfStep(span(i).step), span(i).chunk, span(i).moment);
    const OpRecord* const op =
        drop == nullptr
            ? nullptr
            : index_.Op(list_.links.program[i], drop->because.value);
    return op != nullptr && IsForThe(*op, span(i).chunk);
  }

  std::string CopyBackNote(int64_t plan, int64_t i) const {
    const TraceView::Span& copy = span(i);
    const int64_t program = list_.links.program[i];
    const std::string chunk = ChunkText(index_, program, copy.chunk);
    if (plan < 0) {
      return absl::StrCat("Copies ", chunk,
                          " to its home: the next plan does "
                          "not start with it on the device.");
    }
    if (index_.Copy(plan, ChunkBlock::kSum, CopyDirection::kToHost, copy.moment,
                    copy.chunk) != nullptr) {
      return absl::StrCat("Copies the sum of the gradients of ", chunk,
                          ", which the device made, to the host: the CPU "
                          "updates it.");
    }
    const OpRecord* const op = index_.Op(program, copy.because);
    const ChunkInfo* const info = index_.Chunk(program, copy.chunk);
    const bool activations = info != nullptr && info->holds_activations();
    std::string text =
        absl::StrCat(activations ? "Copies a tensor of "
                                 : "Copies what operators wrote into ",
                     chunk, " to the host",
                     activations ? " until backward comes to the block" : "");
    if (op == nullptr) return absl::StrCat(text, ".");
    if (op->kind == OpKind::kReduce) {
      return absl::StrCat(text, ": the CPU adds up its gradients.");
    }
    if (op->kind == OpKind::kUpdate) {
      return absl::StrCat(text, ": the CPU updates it.");
    }
    return absl::StrCat(text, ", to make room for ",
                        OperatorText(index_, program, copy.because), ".");
  }

  void WriteWait(int64_t i, bool full) {
    TraceView::Span& wait = list_.spans[i];
    const WaitFinding& finding = causes_.findings[i];
    const int64_t plan = index_.PlanOfStep(wait.step);
    const int64_t awaited = wait.cause;
    if (finding.cause == WaitCause::kLateRank) {
      // The rank's work meanwhile differs from one wait to the next.
      wait.note = strings_.Add(absl::StrCat(
          full ? absl::StrCat(CauseText(finding), ".") : LateText(i), " ",
          RemedyText(index_, finding, index_.PlanRecordOfStep(wait.step),
                     list_.links.program[i], nullptr, /*at_the_cpu=*/false)));
      return;
    }
    const auto [note, is_new] = wait_notes_.try_emplace(
        std::make_tuple(
            static_cast<int64_t>(finding.cause) * 2 + finding.back_to_back,
            static_cast<int64_t>(finding.exposure), wait.stream,
            full ? -1 : plan, full ? -1 : wait.moment, full ? -1 : wait.chunk,
            full || awaited < 0 ? -1 : span(awaited).label,
            full || finding.root < 0 ? -1 : span(finding.root).label),
        0);
    if (is_new) {
      const int64_t program = list_.links.program[i];
      note->second = strings_.Add(absl::StrCat(
          full ? absl::StrCat(CauseText(finding), ".") : WaitText(i), " ",
          RemedyText(index_, finding, index_.PlanRecordOfStep(wait.step),
                     program,
                     full ? nullptr : index_.Chunk(program, AwaitedChunk(i)),
                     !full && ComesFromTheCpu(awaited))));
    }
    wait.note = note->second;
  }

  int64_t AwaitedChunk(int64_t i) const {
    const TraceView::Span& wait = span(i);
    if (wait.chunk >= 0) return wait.chunk;
    return wait.cause < 0 ? -1 : span(wait.cause).chunk;
  }

  std::string Named(int64_t i) const {
    const TraceView::Span& work = span(i);
    const int64_t program = list_.links.program[i];
    switch (list_.links.kind[i]) {
      case WorkKind::kOperator:
        return OperatorText(index_, program, work.moment);
      case WorkKind::kReduce:
        return absl::StrCat("the sum of the gradients of ",
                            ChunkText(index_, program, work.chunk));
      case WorkKind::kClip:
        return "the gradient norm";
      case WorkKind::kInput:
        return "an input or the loss";
      case WorkKind::kMove:
        return "optimizer states that change sides";
      case WorkKind::kExchange:
        return absl::StrCat("the exchange of the gradients of ",
                            ChunkText(index_, program, work.chunk));
      case WorkKind::kPlanning:
        return "planning";
      case WorkKind::kSaving:
        return "a checkpoint that was saved";
      case WorkKind::kResizing:
        return "a change of the device's memory";
      case WorkKind::kOther:
        return work.stream >= 0 && work.stream == index_.network()
                   ? "a word among all ranks"
                   : "moves of blocks within the device's memory";
      default:
        return absl::StrCat("the ", WorkText(list_.links.kind[i]), " of ",
                            ChunkText(index_, program, work.chunk));
    }
  }

  // Describes a wait most of which was for a rank.
  std::string LateText(int64_t i) const {
    const WaitFinding& finding = causes_.findings[i];
    const TraceView::Span& late = span(finding.root);
    const std::string rank = absl::StrCat("rank ", finding.rank);
    const std::string doing =
        peers_.Doing(finding.rank, late.start_ns, late.end_ns);
    const std::string meanwhile =
        doing.empty() ? "" : absl::StrCat(" Meanwhile it ran ", doing, ".");
    const std::string by = FormatNs(late.end_ns - late.start_ns);
    const std::string what = Named(finding.root);
    if (finding.root == i) {
      return absl::StrCat(Upper(rank), " came ", by,
                          " later than this rank to ", what,
                          ", which needs all ranks.", meanwhile);
    }
    return absl::StrCat(WaiterText(i), " waited for ", rank, ", which came ",
                        by, " later than this rank to ", what,
                        ", which needs all ranks.", meanwhile);
  }

  // Says which stream waits, and for what.
  std::string WaiterText(int64_t i) const {
    const TraceView::Span& wait = span(i);
    const int64_t program = list_.links.program[i];
    if (wait.stream == index_.compute()) {
      const WorkKind kind = list_.links.kind[i];
      if (kind == WorkKind::kOther) {
        return "A move of blocks, to make one hole of several,";
      }
      const bool of_chunk =
          kind == WorkKind::kReduce || kind == WorkKind::kUpdate;
      return of_chunk ? Upper(Named(i))
                      : Upper(OperatorText(index_, program, wait.moment));
    }
    return Upper(Named(i));
  }

  static std::string Upper(std::string text) {
    if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] -= 'a' - 'A';
    return text;
  }

  std::string WaitText(int64_t i) const {
    const TraceView::Span& wait = span(i);
    const WaitFinding& finding = causes_.findings[i];
    const std::string who = WaiterText(i);
    if (wait.cause < 0 || finding.root < 0) {
      return absl::StrCat(who,
                          " waited for work that the trace does not hold: "
                          "it was queued before the window.");
    }
    const CauseRow& row = RowOf(finding.cause);
    const std::string root = Named(finding.root);
    // A fetch that compute waited for, held up by something further back.
    const bool indirect =
        wait.stream == index_.compute() && finding.root != wait.cause;
    const std::string needs = absl::StrCat(
        who, " needs ",
        ChunkText(index_, list_.links.program[i], AwaitedChunk(i)));
    const bool back_to_back = finding.back_to_back && !row.back_to_back.empty();
    const std::string text = absl::StrReplaceAll(
        back_to_back ? row.back_to_back : row.text,
        {{"{who}", who},
         {"{root}", root},
         {"{needs}", needs},
         {"{subject}", indirect ? absl::StrCat(needs, ", whose fetch") : who},
         {"{ending}", Ending(finding, root)}});
    const bool decision =
        row.decision == TellsDecision::kAlways ||
        (row.decision == TellsDecision::kForFetches && indirect);
    return absl::StrCat(text, decision ? Decision(wait.cause) : "");
  }

  std::string Ending(const WaitFinding& finding,
                     const std::string& root) const {
    if (finding.cause == WaitCause::kWokenLate) {
      return OnTheHost(index_) ? ": the stream's thread got no CPU." : ".";
    }
    return list_.links.kind[finding.root] == WorkKind::kClip
               ? "."
               : absl::StrCat(", here with ", root, ".");
  }

  // Says what the plan decided about the fetch that was waited for.
  std::string Decision(int64_t fetch) const {
    const TraceView::Span& copy = span(fetch);
    const int64_t plan = index_.PlanOfStep(copy.step);
    if (DirectionOf(copy) != CopyDirection::kToDevice || plan < 0) return "";
    const int64_t program = list_.links.program[fetch];
    std::string text;
    if (copy.because >= 0) {
      const std::string ahead = Ahead(program, copy.moment, copy.because);
      text =
          absl::StrCat(" The plan fetches it for ",
                       OperatorText(index_, program, copy.because), ahead, ".");
    }
    return absl::StrCat(text, LeftText(plan, program, copy));
  }

  const TraceIndex& index_;
  const WaitCauses& causes_;
  SpanList& list_;
  StringTable& strings_;
  const Peers& peers_;
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, int64_t> copy_notes_;
  std::map<std::pair<int64_t, int64_t>, int64_t> move_notes_;
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                      int64_t, int64_t>,
           int64_t>
      wait_notes_;
};

}  // namespace

std::string CauseText(const WaitFinding& finding) {
  return absl::StrReplaceAll(RowOf(finding.cause).title,
                             {{"{rank}", absl::StrCat(finding.rank)}});
}

namespace {

// Returns true if all chunks that have optimizer states have them on the
// device.
bool AllStatesOnDevice(const TraceIndex& index, const PlanRecord& plan,
                       int64_t program) {
  return index.Trace(program) != nullptr &&
         static_cast<int64_t>(plan.device_side.size()) >=
             index.ChunksWithStates(program);
}

}  // namespace

bool LeavesStatesToTheHost(const PlanRecord& plan) {
  const PlacementPolicy* const policy = FindPolicy(plan.policy);
  return policy != nullptr && policy->admission.sides == SideChoice::kHost;
}

std::string RemedyText(const TraceIndex& index, const WaitFinding& finding,
                       const PlanRecord* plan, int64_t program,
                       const ChunkInfo* chunk, bool at_the_cpu) {
  if (finding.exposure == Exposure::kNone) {
    return "It cost no time: no operator waited for what came of it.";
  }
  if (finding.exposure == Exposure::kPassedOn) {
    return "A part of it was passed on to an operator: see compute's waits.";
  }
  if (plan != nullptr && plan->warmup &&
      finding.cause != WaitCause::kWokenLate &&
      finding.cause != WaitCause::kLateRank) {
    return "Nothing to do: this is a warm-up step, on the careful plan that "
           "comes before the one made from its measurements.";
  }
  const bool to_host = plan != nullptr && LeavesStatesToTheHost(*plan);
  const std::string default_policy = absl::StrCat(
      "memory.placement_policy \"", DefaultPolicy()->name, "\", which ");
  const auto more = [](int64_t bytes) {
    return bytes > 0 ? absl::StrCat(FormatBytes(bytes), " more of") : "more";
  };
  const std::string states =
      plan != nullptr && AllStatesOnDevice(index, *plan, program) ? ""
      : to_host
          ? absl::StrCat(default_policy,
                         "keeps optimizer states on the device where there is "
                         "room; ")
          : absl::StrCat(more(chunk == nullptr ? 0 : chunk->optimizer_bytes),
                         " memory.device_memory, so that optimizer states",
                         chunk == nullptr ? "" : " of the chunk",
                         " find room on the device; ");
  std::string memory =
      at_the_cpu && !states.empty() ? states
      : to_host
          ? absl::StrCat(default_policy,
                         "lets chunks stay on the device and fetches them "
                         "earlier, as far as memory.device_memory has room; ")
          : absl::StrCat(more(chunk == nullptr ? 0 : chunk->payload_bytes),
                         " memory.device_memory, so that the chunk can stay or "
                         "come earlier; ");
  if (plan != nullptr && !plan->prefetch) {
    memory =
        absl::StrCat("memory.prefetch true, which fetches ahead; ", memory);
  }
  const StepTrace* const trace = index.Trace(program);
  const std::string batch =
      trace != nullptr && trace->micro_batches > 1
          ? "fewer and larger micro batches, each of which needs all chunks "
            "again."
          : "a larger batch, which gives the device more to do per byte moved.";
  const std::string threads =
      absl::StrCat("more CPU threads (device.threads",
                   index.contents().run.has_value()
                       ? absl::StrCat(" is ", index.contents().run->threads)
                       : "",
                   "); ");
  const std::string bus =
      absl::StrCat("a faster bus",
                   plan != nullptr && plan->h2d_bytes_per_s >= 1
                       ? absl::StrCat(" (the plan counts on ",
                                      FormatBytes(static_cast<int64_t>(std::min(
                                          plan->h2d_bytes_per_s, 1e18))),
                                      "/s)")
                       : "",
                   "; ");
  const std::string network =
      absl::StrCat("a faster network",
                   plan != nullptr && plan->network_bytes_per_s >= 1
                       ? absl::StrCat(" (the plan counts on ",
                                      FormatBytes(static_cast<int64_t>(std::min(
                                          plan->network_bytes_per_s, 1e18))),
                                      "/s)")
                       : "",
                   "; ");
  const CauseRow& row = RowOf(finding.cause);
  if (row.remedy.empty() || (row.host_only && !OnTheHost(index))) {
    return "Nothing that this trace shows would have avoided it.";
  }
  return absl::StrReplaceAll(row.remedy,
                             {{"{rank}", absl::StrCat(finding.rank)},
                              {"{memory}", memory},
                              {"{states}", states},
                              {"{threads}", threads},
                              {"{bus}", bus},
                              {"{network}", network},
                              {"{batch}", batch}});
}

void WriteNotes(const TraceIndex& index, const WaitCauses& causes,
                SpanList& list, StringTable& strings, const Peers& peers) {
  Writer(index, causes, list, strings, peers).Write();
}

}  // namespace castor
