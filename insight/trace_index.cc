#include "insight/trace_index.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "tracer/trace_names.h"

namespace castor {
namespace {

// The most streams that hand-made contents may have: the reader accepts fewer.
constexpr int64_t kMostStreams = 64;
constexpr const char* kUsualStreams[] = {"compute", "host_to_device",
                                         "device_to_host", "host_compute"};

template <typename List>
auto* At(List& list, int64_t index) {
  return index >= 0 && index < static_cast<int64_t>(list.size()) ? &list[index]
                                                                 : nullptr;
}

bool Holds(const std::vector<int64_t>& sorted, int64_t value) {
  return std::binary_search(sorted.begin(), sorted.end(), value);
}

std::vector<int64_t> Sorted(const std::vector<ChunkId>& chunks) {
  std::vector<int64_t> values;
  values.reserve(chunks.size());
  for (const ChunkId chunk : chunks) values.push_back(chunk.value);
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

TraceIndex::TraceIndex(const TraceContents& contents) : contents_(contents) {
  IndexStreams();
  IndexPrograms();
  IndexPlans();
  issues_.reserve(contents.issues.size());
  for (const IssueRecord& issue : contents.issues) {
    issues_.push_back({issue.step, issue.moment.value, issue.time_ns});
  }
  std::stable_sort(
      issues_.begin(), issues_.end(), [](const Issue& a, const Issue& b) {
        return std::tie(a.step, a.moment) < std::tie(b.step, b.moment);
      });
}

void TraceIndex::IndexStreams() {
  int64_t* const roles[] = {&compute_, &to_device_, &to_host_, &host_compute_};
  const bool named =
      contents_.run.has_value() && !contents_.run->streams.empty();
  for (int i = 0; i < 4; ++i) {
    if (!named) {
      *roles[i] = i;
      continue;
    }
    const auto& names = contents_.run->streams;
    const auto found = std::find(names.begin(), names.end(), kUsualStreams[i]);
    if (found != names.end()) *roles[i] = found - names.begin();
  }
  if (named) {
    const auto& names = contents_.run->streams;
    const auto found = std::find(names.begin(), names.end(), "network");
    if (found != names.end()) network_ = found - names.begin();
    const auto data =
        std::find(names.begin(), names.end(), trace_names::kDataStream);
    if (data != names.end()) data_ = data - names.begin();
  }
  for (const NetworkRecord& network : contents_.networks) {
    networks_.push_back(&network);
  }
  std::stable_sort(networks_.begin(), networks_.end(),
                   [](const NetworkRecord* a, const NetworkRecord* b) {
                     return std::tie(a->stream, a->count) <
                            std::tie(b->stream, b->count);
                   });
  num_streams_ = named ? contents_.run->streams.size() : 4;
  for (const WorkRecord& work : contents_.works) {
    num_streams_ = std::max(num_streams_, work.stream + 1);
  }
  for (const WaitRecord& wait : contents_.waits) {
    num_streams_ = std::max(num_streams_, wait.waiter.stream + 1);
  }
  num_streams_ = std::min(num_streams_, kMostStreams);
}

const NetworkRecord* TraceIndex::Network(int64_t stream, int64_t count) const {
  const auto at = std::partition_point(
      networks_.begin(), networks_.end(), [&](const NetworkRecord* network) {
        return std::tie(network->stream, network->count) <
               std::tie(stream, count);
      });
  return at == networks_.end() || (*at)->stream != stream ||
                 (*at)->count != count
             ? nullptr
             : *at;
}

void TraceIndex::IndexPrograms() {
  std::map<std::tuple<std::string, size_t, size_t>, int64_t> known;
  std::vector<int64_t> program_of_trace;
  for (size_t i = 0; i < contents_.step_traces.size(); ++i) {
    const StepTrace& trace = contents_.step_traces[i];
    const auto [at, is_new] = known.try_emplace(
        {trace.signature, trace.chunks.size(), trace.ops.size()},
        trace_of_program_.size());
    if (is_new) trace_of_program_.push_back(0);
    trace_of_program_[at->second] = i;
    program_of_trace.push_back(at->second);
  }
  programs_.resize(trace_of_program_.size());
  for (size_t p = 0; p < programs_.size(); ++p) {
    const StepTrace& trace = contents_.step_traces[trace_of_program_[p]];
    ProgramIndex& program = programs_[p];
    const int64_t chunks = trace.chunks.size();
    num_chunks_ = std::max(num_chunks_, chunks);
    program.uses.resize(chunks);
    program.last_reduce.assign(chunks, -1);
    for (const ChunkInfo& chunk : trace.chunks) {
      program.chunks_with_states += chunk.optimizer_bytes > 0;
    }
    for (size_t t = 0; t < trace.ops.size(); ++t) {
      for (const ChunkUse& use : trace.ops[t].chunks) {
        const int64_t c = use.chunk.value;
        if (c < 0 || c >= chunks) continue;
        program.uses[c].push_back(t);
        if (trace.ops[t].kind == OpKind::kReduce) program.last_reduce[c] = t;
      }
    }
    if (main_program_ < 0 && trace.training) main_program_ = p;
  }
  if (main_program_ < 0 && !programs_.empty()) main_program_ = 0;
  for (const PlanRecord& plan : contents_.plans) {
    const int64_t* const program = At(program_of_trace, plan.trace);
    program_of_plan_.push_back(program == nullptr ? -1 : *program);
  }
}

void TraceIndex::IndexPlans() {
  for (const PlanRecord& plan : contents_.plans) {
    PlanIndex& index = plans_.emplace_back();
    for (size_t i = 0; i < plan.actions.size(); ++i) {
      const ChunkBlock block = RowOf(plan.actions[i].kind).block;
      index.actions[static_cast<size_t>(block)].push_back(
          static_cast<int64_t>(i));
    }
    for (std::vector<int64_t>& actions : index.actions) {
      std::sort(actions.begin(), actions.end(), [&](int64_t a, int64_t b) {
        const ActionRecord& x = plan.actions[a];
        const ActionRecord& y = plan.actions[b];
        return std::tie(x.chunk.value, x.moment.value, a) <
               std::tie(y.chunk.value, y.moment.value, b);
      });
    }
    index.initial = Sorted(plan.initial);
    index.device_side = Sorted(plan.device_side);
  }
}

const StepTrace* TraceIndex::Trace(int64_t program) const {
  const int64_t* const trace = At(trace_of_program_, program);
  return trace == nullptr ? nullptr : &contents_.step_traces[*trace];
}

const OpRecord* TraceIndex::Op(int64_t program, int64_t moment) const {
  const StepTrace* const trace = Trace(program);
  return trace == nullptr ? nullptr : At(trace->ops, moment);
}

const ChunkInfo* TraceIndex::Chunk(int64_t program, int64_t chunk) const {
  const StepTrace* const trace = Trace(program);
  return trace == nullptr ? nullptr : At(trace->chunks, chunk);
}

int64_t TraceIndex::PlanOfStep(int64_t step) const {
  const StepRecord* const record = At(contents_.steps, step);
  return record == nullptr || At(plans_, record->plan) == nullptr
             ? -1
             : record->plan;
}

int64_t TraceIndex::ProgramOfPlan(int64_t plan) const {
  const int64_t* const program = At(program_of_plan_, plan);
  return program == nullptr ? -1 : *program;
}

int64_t TraceIndex::ProgramOfStep(int64_t step) const {
  return step < 0 ? main_program_ : ProgramOfPlan(PlanOfStep(step));
}

const PlanRecord* TraceIndex::Plan(int64_t plan) const {
  return At(contents_.plans, plan);
}

int64_t TraceIndex::ChunksWithStates(int64_t program) const {
  const ProgramIndex* const index = At(programs_, program);
  return index == nullptr ? 0 : index->chunks_with_states;
}

const std::vector<int64_t>& TraceIndex::Uses(int64_t program,
                                             int64_t chunk) const {
  static const std::vector<int64_t>& none = *new std::vector<int64_t>();
  const ProgramIndex* const index = At(programs_, program);
  const auto* const uses = index == nullptr ? nullptr : At(index->uses, chunk);
  return uses == nullptr ? none : *uses;
}

int64_t TraceIndex::NextUse(int64_t program, int64_t chunk,
                            int64_t after) const {
  const std::vector<int64_t>& uses = Uses(program, chunk);
  const auto next = std::upper_bound(uses.begin(), uses.end(), after);
  return next == uses.end() ? -1 : *next;
}

int64_t TraceIndex::LastReduce(int64_t program, int64_t chunk) const {
  const ProgramIndex* const index = At(programs_, program);
  const int64_t* const last =
      index == nullptr ? nullptr : At(index->last_reduce, chunk);
  return last == nullptr ? -1 : *last;
}

const std::vector<int64_t>& TraceIndex::ActionsOn(int64_t plan,
                                                  ChunkBlock block) const {
  static const std::vector<int64_t>& none = *new std::vector<int64_t>();
  const PlanIndex* const index = At(plans_, plan);
  return index == nullptr ? none : index->actions[static_cast<size_t>(block)];
}

std::pair<size_t, size_t> TraceIndex::PayloadActions(int64_t plan,
                                                     int64_t chunk) const {
  const std::vector<int64_t>& order = ActionsOn(plan, ChunkBlock::kPayload);
  if (order.empty()) return {0, 0};
  const auto& actions = contents_.plans[plan].actions;
  const auto begin = std::partition_point(
      order.begin(), order.end(),
      [&](int64_t a) { return actions[a].chunk.value < chunk; });
  const auto end = std::partition_point(begin, order.end(), [&](int64_t a) {
    return actions[a].chunk.value == chunk;
  });
  return {begin - order.begin(), end - order.begin()};
}

std::pair<size_t, size_t> TraceIndex::LatestOn(
    int64_t plan, const std::vector<int64_t>& order, int64_t moment,
    int64_t chunk) const {
  const auto& actions = contents_.plans[plan].actions;
  const auto place = [&](int64_t a) {
    return std::make_pair(actions[a].chunk.value, actions[a].moment.value);
  };
  const auto after = std::partition_point(
      order.begin(), order.end(),
      [&](int64_t a) { return place(a) <= std::make_pair(chunk, moment); });
  if (after == order.begin() || place(*std::prev(after)).first != chunk) {
    return {0, 0};
  }
  const auto begin = std::partition_point(order.begin(), after, [&](int64_t a) {
    return place(a) < place(*std::prev(after));
  });
  return {begin - order.begin(), after - order.begin()};
}

const ActionRecord* TraceIndex::Copy(int64_t plan, ChunkBlock block,
                                     CopyDirection direction, int64_t moment,
                                     int64_t chunk) const {
  const std::vector<int64_t>& order = ActionsOn(plan, block);
  if (order.empty()) return nullptr;
  const auto [begin, end] = LatestOn(plan, order, moment, chunk);
  // A plan has at most three actions on a block at a moment.
  for (size_t i = begin; i < std::min(end, begin + 4); ++i) {
    const ActionRecord& action = contents_.plans[plan].actions[order[i]];
    if (action.moment.value == moment &&
        RowOf(action.kind).direction() == direction) {
      return &action;
    }
  }
  return nullptr;
}

bool TraceIndex::HasGradientBlock(int64_t plan, int64_t moment,
                                  int64_t chunk) const {
  const std::vector<int64_t>& order = ActionsOn(plan, ChunkBlock::kGradients);
  if (order.empty()) return false;
  const auto [begin, end] = LatestOn(plan, order, moment, chunk);
  return begin < end &&
         RowOf(contents_.plans[plan].actions[order[end - 1]].kind).makes;
}

int64_t TraceIndex::NextDrop(int64_t plan, int64_t chunk, int64_t after) const {
  const auto [begin, end] = PayloadActions(plan, chunk);
  if (begin == end) return -1;
  const auto& actions = contents_.plans[plan].actions;
  const auto& order = ActionsOn(plan, ChunkBlock::kPayload);
  auto at = std::partition_point(
      order.begin() + begin, order.begin() + end,
      [&](int64_t a) { return actions[a].moment.value <= after; });
  // Actions on a chunk take turns: a drop is among the next three.
  for (int i = 0; i < 3 && at != order.begin() + end; ++i, ++at) {
    if (RowOf(actions[*at].kind).frees) return actions[*at].moment.value;
  }
  return -1;
}

const ActionRecord* TraceIndex::DropBefore(int64_t plan, int64_t chunk,
                                           int64_t moment) const {
  const auto [begin, end] = PayloadActions(plan, chunk);
  if (begin == end) return nullptr;
  const auto& actions = contents_.plans[plan].actions;
  const auto& order = ActionsOn(plan, ChunkBlock::kPayload);
  const size_t here =
      std::partition_point(
          order.begin() + begin, order.begin() + end,
          [&](int64_t a) { return actions[a].moment.value <= moment; }) -
      order.begin();
  // Backwards, once around the end of the step.
  size_t at = here;
  for (int i = 0; i < 6; ++i) {
    at = at == begin ? end - 1 : at - 1;
    const ActionRecord& action = actions[order[at]];
    if (RowOf(action.kind).frees) return &action;
    if (at == here) break;
  }
  return nullptr;
}

bool TraceIndex::StartsResident(int64_t plan, int64_t chunk) const {
  const PlanIndex* const index = At(plans_, plan);
  return index != nullptr && Holds(index->initial, chunk);
}

bool TraceIndex::OnDeviceSide(int64_t plan, int64_t chunk) const {
  const PlanIndex* const index = At(plans_, plan);
  return index != nullptr && Holds(index->device_side, chunk);
}

int64_t TraceIndex::IssuedNs(int64_t step, int64_t moment) const {
  const auto at = std::partition_point(
      issues_.begin(), issues_.end(), [&](const Issue& issue) {
        return std::tie(issue.step, issue.moment) < std::tie(step, moment);
      });
  return at == issues_.end() || at->step != step || at->moment != moment
             ? -1
             : at->time_ns;
}

}  // namespace castor
