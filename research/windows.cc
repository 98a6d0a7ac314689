#include "research/windows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "benchmarks/linear_units.h"
#include "memory/plan/residency/use_index.h"

namespace castor {
namespace {

// Fetches long before their use are told apart only by groups of so many
// windows.
constexpr int64_t kGroup = 4;

constexpr double kNone = std::numeric_limits<double>::infinity();

using Terms = std::vector<std::pair<int64_t, double>>;

void Add(Terms* terms, int64_t variable, double factor) {
  if (variable >= 0) terms->push_back({variable, factor});
}
void Add(LinearProgram::Row* row, int64_t variable, double factor) {
  Add(&row->terms, variable, factor);
}

// The last operator of the model that writes gradients, where gradients are
// clipped and so no chunk is updated before it ends; or -1.
int64_t LastWriteBeforeUpdates(const PlanRequest& request) {
  const StepTrace& trace = *request.trace;
  if (!trace.global_norm || request.speculation.host_bytes > 0) return -1;
  std::vector<int64_t> written(trace.chunks.size(), -1);
  int64_t last = -1;
  bool updated = false;
  for (size_t t = 0; t < trace.ops.size(); ++t) {
    const OpRecord& op = trace.ops[t];
    updated |= op.kind == OpKind::kUpdate;
    if (op.kind == OpKind::kCompute) {
      for (const ChunkUse& use : op.chunks) {
        if (use.writes) written[use.chunk.value] = static_cast<int64_t>(t);
      }
    } else if (op.kind == OpKind::kReduce) {
      // A step that updates at once has no norm of them all.
      if (updated) return -1;
      last = std::max(last, written[op.chunks[0].chunk.value]);
    }
  }
  return last;
}

}  // namespace

TightBound::Windows::Windows(TightBound* bound)
    : bound_(*bound),
      request_(bound->request_),
      trace_(*request_.trace),
      program_(bound->program_),
      moments_(static_cast<int64_t>(trace_.ops.size())),
      last_write_(LastWriteBeforeUpdates(request_)),
      compute_ms_(moments_ + 1, 0),
      changes_(moments_ + 1) {
  for (int64_t t = 0; t < moments_; ++t) {
    const OpRecord& op = trace_.ops[t];
    compute_ms_[t + 1] =
        compute_ms_[t] +
        (op.kind == OpKind::kCompute ? Ms(op.duration_ns) : 0.0);
  }
  FindCopies();
  ChooseEnds();
  if (windows_.empty()) return;
  waits_.resize(windows());
  AddCompute();
  AddFetches();
  AddGradients();
  AddNorm();
  AddWaits();
  AddRoom();
  Row step;
  for (const Window& window : windows_) Add(&step, window.variable, 1);
  Add(&step, 0, -1);
  program_.rows.push_back(std::move(step));
}

int64_t TightBound::Windows::AddVariable(double at_most) {
  program_.variables.push_back({at_most, /*whole=*/false});
  return static_cast<int64_t>(program_.variables.size()) - 1;
}

double TightBound::Windows::FetchMs(int64_t chunk) const {
  return TransferMs(request_.bus, trace_.chunks[chunk].home_bytes(),
                    request_.bus.h2d_bytes_per_s);
}

double TightBound::Windows::GradientsMs(int64_t chunk) const {
  return TransferMs(request_.bus, trace_.chunks[chunk].payload_bytes,
                    request_.bus.d2h_bytes_per_s);
}

void TightBound::Windows::FindCopies() {
  const std::vector<Side> host(trace_.chunks.size(), Side::kHost);
  FindFetches(UseIndex(trace_, host, PossibleGradientBlocks(trace_, host)),
              Side::kHost);
  if (request_.world_size == 1) {
    std::vector<Side> device = host;
    for (size_t c = 0; c < device.size(); ++c) {
      if (bound_.on_device_[c] >= 0) device[c] = Side::kDevice;
    }
    FindFetches(UseIndex(trace_, device), Side::kDevice);
  }
  std::vector<int64_t> written(trace_.chunks.size(), -1);
  for (int64_t t = 0; t < moments_; ++t) {
    const OpRecord& op = trace_.ops[t];
    for (const ChunkUse& use : op.chunks) {
      const int64_t c = use.chunk.value;
      if (op.kind == OpKind::kCompute && use.writes) written[c] = t;
      if (op.kind != OpKind::kReduce || written[c] < 0) continue;
      gradients_.push_back({c, Side::kHost, written[c], t, GradientsMs(c)});
      gradients_.back().no_room = FirstWithoutRoom(c, written[c]);
      written[c] = -1;
    }
  }
}

void TightBound::Windows::FindFetches(const UseIndex& index, Side side) {
  for (const Gap& gap : index.gaps()) {
    const int64_t c = gap.chunk;
    if (gap.makes || trace_.chunks[c].holds_activations()) continue;
    if (side == Side::kDevice && bound_.on_device_[c] < 0) continue;
    Copy fetch = {c, side, gap.from, gap.to, FetchMs(c)};
    const int64_t work = gap.ready - 1;  // of the host, if the gap has any
    // Without a write at its beginning the host may have worked long before,
    // and on several ranks the home keeps the parameters while it reduces.
    if (side == Side::kHost && work > gap.from &&
        (!Writes(gap.from, c) ||
         (request_.world_size > 1 &&
          trace_.ops[work % moments_].kind == OpKind::kReduce))) {
      continue;
    }
    if (side == Side::kHost && work > gap.from && work < moments_ &&
        trace_.ops[work].kind == OpKind::kUpdate && last_write_ >= gap.from) {
      fetch.from = last_write_;
      fetch.update_ms = Ms(trace_.ops[work].host_duration_ns);
    }
    if (side == Side::kHost && work > gap.from) {
      fetch.gradients_ms = GradientsMs(c) + HostMs(c, gap.from, work);
      fetch.written = gap.from;
    }
    fetch.no_room = bound_.LastWithoutRoom(c, gap.from, gap.to);
    fetch.from = std::max(fetch.from, fetch.no_room);
    fetches_.push_back(std::move(fetch));
  }
}

bool TightBound::Windows::Writes(int64_t moment, int64_t chunk) const {
  const std::vector<ChunkUse>& uses = trace_.ops[moment].chunks;
  return std::any_of(uses.begin(), uses.end(), [&](const ChunkUse& use) {
    return use.writes && use.chunk.value == chunk;
  });
}

void TightBound::Windows::ChooseEnds() {
  std::vector<int64_t> operators;  // of the model
  for (int64_t t = 0; t < moments_; ++t) {
    if (trace_.ops[t].kind == OpKind::kCompute) operators.push_back(t);
  }
  if (operators.empty() || trace_.chunks.empty()) return;
  std::vector<bool> is_end(moments_, false);
  is_end[operators.back()] = true;
  AddEvenEnds(operators, &is_end);
  AddTightEnds(operators, &is_end);
  for (const int64_t t : operators) {
    if (is_end[t]) windows_.push_back({t, AddVariable(kNone)});
  }
}

int64_t TightBound::Windows::MostWindows() const {
  constexpr int64_t kMost = 32;
  constexpr int64_t kMostParts = 3200;
  const int64_t chunks = static_cast<int64_t>(trace_.chunks.size());
  return std::clamp<int64_t>(kMostParts / chunks, 8, kMost);
}

void TightBound::Windows::AddEvenEnds(const std::vector<int64_t>& operators,
                                      std::vector<bool>* is_end) const {
  const double number = static_cast<double>(
      std::max(MostWindows() / 2, 6 * trace_.micro_batches));
  double all_ms = 0;
  for (const int64_t t : operators) all_ms += Ms(trace_.ops[t].duration_ns);
  double ms = 0;
  for (const int64_t t : operators) {
    const double before = std::floor(ms / all_ms * number);
    ms += Ms(trace_.ops[t].duration_ns);
    if (std::floor(ms / all_ms * number) > before) (*is_end)[t] = true;
  }
}

// Where there is the least room the next copies have to wait, so windows end
// before these operators, after them, and between them before each that uses a
// chunk that may have to come.
void TightBound::Windows::AddTightEnds(const std::vector<int64_t>& operators,
                                       std::vector<bool>* is_end) const {
  std::vector<double> rooms;
  for (const int64_t t : operators) rooms.push_back(bound_.room_mib_[t]);
  std::sort(rooms.begin(), rooms.end());
  std::vector<int64_t> blocks;
  for (const ChunkInfo& chunk : trace_.chunks) {
    blocks.push_back(PayloadBlock(chunk));
  }
  std::sort(blocks.begin(), blocks.end());
  const size_t most =
      static_cast<size_t>(std::max(MostWindows(), 4 * trace_.micro_batches));
  const double tight_mib =
      std::min(rooms.front() + 2 * Mib(blocks[blocks.size() / 2]),
               rooms[std::min(rooms.size(), most) - 1]);
  std::vector<bool> after_gap(moments_, false);
  for (const Copy& fetch : fetches_) after_gap[fetch.to % moments_] = true;
  bool before = false;
  for (size_t i = 0; i < operators.size(); ++i) {
    const int64_t t = operators[i];
    const bool tight = bound_.room_mib_[t] <= tight_mib;
    if (i > 0 && (tight != before || (tight && after_gap[t]))) {
      (*is_end)[operators[i - 1]] = true;
    }
    before = tight;
  }
}

int64_t TightBound::Windows::WindowAt(int64_t moment) const {
  const auto at = std::lower_bound(
      windows_.begin(), windows_.end(), moment % moments_,
      [](const Window& window, int64_t t) { return window.end < t; });
  return moment / moments_ * windows() + (at - windows_.begin());
}

int64_t TightBound::Windows::EndOf(int64_t window) const {
  return windows_[window % windows()].end + window / windows() * moments_;
}

int64_t TightBound::Windows::GroupOf(int64_t window) const {
  const int64_t groups = (windows() + kGroup - 1) / kGroup;
  return window / windows() * groups + window % windows() / kGroup;
}

void TightBound::Windows::AddCompute() {
  Work work = {std::vector<Row>(windows()), {}};
  for (int64_t t = 0; t < moments_; ++t) {
    const OpRecord& op = trace_.ops[t];
    Row& row = work.windows[WindowAt(t) % windows()];
    const double ms = Ms(op.duration_ns);
    if (op.kind == OpKind::kCompute) {
      row.at_most -= ms;
      continue;
    }
    if (RunsOnNetwork(trace_, op)) continue;
    const int64_t c = op.chunks[0].chunk.value;
    Add(&row, bound_.on_device_[c], ms);
    if (op.kind == OpKind::kReduce) Add(&row, bound_.summed_[c], ms);
  }
  AddWork(std::move(work));
}

void TightBound::Windows::AddPart(const Part& part, double ms,
                                  Work* work) const {
  if (part.first == part.last) {
    Add(&work->windows[part.first % windows()], part.variable, ms);
  }
  Add(&work->groups[GroupOf(part.first % windows())], part.variable, ms);
}

void TightBound::Windows::AddWork(Work work) {
  for (int64_t w = 0; w < windows(); ++w) {
    Add(&work.windows[w], windows_[w].variable, -1);
    if (!work.groups.empty()) {
      Add(&work.groups[GroupOf(w)], windows_[w].variable, -1);
    }
  }
  for (std::vector<Row>* const rows : {&work.windows, &work.groups}) {
    program_.rows.insert(program_.rows.end(), rows->begin(), rows->end());
  }
}

void TightBound::Windows::Hold(const Copy& copy, const Part& part, int64_t from,
                               int64_t to) {
  if (from >= to) return;
  if (from >= moments_) from -= moments_, to -= moments_;
  const double mib = Mib(PayloadBlock(trace_.chunks[copy.chunk]));
  changes_[from].push_back({part.variable, mib});
  changes_[std::min(to, moments_)].push_back({part.variable, -mib});
  if (to <= moments_) return;
  changes_[0].push_back({part.variable, mib});
  changes_[to - moments_].push_back({part.variable, -mib});
}

void TightBound::Windows::AddFetches() {
  std::map<std::tuple<int64_t, Side, int64_t>, int64_t> stay_until;
  for (const Stay& stay : bound_.stays_) {
    stay_until[{stay.chunk, stay.side, stay.to}] = stay.variable;
  }
  Work work = {std::vector<Row>(windows()),
               std::vector<Row>(GroupOf(windows()))};
  for (Copy& fetch : fetches_) {
    // All of the chunk comes, except the part that stays.
    const bool on_host = fetch.side == Side::kHost;
    Row all = {{}, on_host ? -1.0 : 0.0};
    Add(&all, bound_.on_device_[fetch.chunk], on_host ? -1 : 1);
    const auto stay = stay_until.find({fetch.chunk, fetch.side, fetch.to});
    if (stay != stay_until.end()) fetch.stay = stay->second;
    Add(&all, fetch.stay, -1);
    const int64_t last = WindowAt(fetch.to);
    for (int64_t w = WindowAt(fetch.from + 1); w <= last;) {
      int64_t until = w;
      if (GroupOf(w) + 1 < GroupOf(last)) {
        while (GroupOf(until + 1) == GroupOf(w)) ++until;
      }
      const Part part = {w, until, AddVariable(1)};
      fetch.parts.push_back(part);
      AddPart(part, fetch.ms, &work);
      Add(&all, part.variable, -1);
      if (until < last) Hold(fetch, part, EndOf(until), fetch.to);
      w = until + 1;
    }
    program_.rows.push_back(std::move(all));
  }
  AddWork(std::move(work));
}

void TightBound::Windows::AddGradients() {
  Work work = {std::vector<Row>(windows()),
               std::vector<Row>(GroupOf(windows()))};
  for (Copy& copy : gradients_) {
    // They go to the host, but for those that the device adds up.
    Row all = {{}, -1};
    Add(&all, bound_.on_device_[copy.chunk], -1);
    Add(&all, bound_.summed_[copy.chunk], -1);
    const int64_t first = WindowAt(copy.from + 1);
    // Copies later than in these windows are told apart no more.
    const int64_t later = first + std::min(2 * kGroup, windows());
    const int64_t last =
        copy.no_room < 0 ? later : std::min(later, WindowAt(copy.no_room));
    for (int64_t w = first; w <= last; ++w) {
      const Part part = {w, w, AddVariable(1)};
      copy.parts.push_back(part);
      if (w < later) AddPart(part, copy.ms, &work);
      Add(&all, part.variable, -1);
      if (w == first) continue;
      Hold(copy, part, copy.to, std::min(EndOf(w - 1) + 1, copy.to + moments_));
    }
    program_.rows.push_back(std::move(all));
  }
  AddWork(std::move(work));
}

int64_t TightBound::Windows::AddSum(int64_t before, Changes changes,
                                    double always) {
  const int64_t now = AddVariable(kNone);
  Row row = {changes, -always};
  Add(&row, before, 1);
  Add(&row, now, -1);
  program_.rows.push_back(std::move(row));
  held_.push_back({now, before, std::move(changes), always});
  return now;
}

void TightBound::Windows::AddNorm() {
  if (last_write_ < 0) return;
  const int64_t norm = WindowAt(last_write_ + 1);
  const int64_t half = (windows() + 1) / 2;
  const std::vector<int64_t> updated = UpdatesOfHost(norm, norm + half);
  const std::vector<int64_t> operators = WorkAfterNorm(norm, norm + half);
  int64_t copied = -1;
  int64_t copied_from = moments_;
  constexpr int64_t kRows = 8;
  const int64_t stride = std::max<int64_t>(1, half / kRows);
  for (int64_t b = norm - 1; b >= std::max<int64_t>(0, norm - half); --b) {
    Changes changes;
    double always = 0;
    for (const Copy& copy : gradients_) {
      if (copy.from < EndOf(b) || copy.from >= copied_from) continue;
      always += copy.ms;
      Add(&changes, bound_.on_device_[copy.chunk], -copy.ms);
      Add(&changes, bound_.summed_[copy.chunk], -copy.ms);
    }
    copied = AddSum(copied, std::move(changes), always);
    copied_from = EndOf(b);
    if ((norm - 1 - b) % stride != 0) continue;
    Row row;
    Add(&row, copied, 1);
    for (int64_t w = b + 1; w < norm; ++w) {
      Add(&row, windows_[w % windows()].variable, -1);
    }
    for (int64_t w = norm; w < norm + half; ++w) {
      Add(&row, windows_[w % windows()].variable, -1);
      // Before the first operator of the next step the norm need not be there.
      if (operators[w - norm] < 0) continue;
      for (const int64_t work : {updated[w - norm], operators[w - norm]}) {
        Row until = row;
        Add(&until, work, 1);
        program_.rows.push_back(std::move(until));
      }
    }
  }
}

std::vector<int64_t> TightBound::Windows::UpdatesOfHost(int64_t first,
                                                        int64_t end) {
  std::vector<int64_t> sums;
  int64_t sum = -1;
  for (int64_t w = first; w < end; ++w) {
    Changes changes;
    for (const Copy& fetch : fetches_) {
      if (fetch.update_ms == 0) continue;
      for (const Part& part : fetch.parts) {
        if (part.last == w) changes.push_back({part.variable, fetch.update_ms});
      }
    }
    sums.push_back(sum = AddSum(sum, std::move(changes), 0));
  }
  return sums;
}

std::vector<int64_t> TightBound::Windows::WorkAfterNorm(int64_t first,
                                                        int64_t end) {
  std::vector<bool> updated(trace_.chunks.size(), false);
  Changes updates;
  for (const OpRecord& op : trace_.ops) {
    if (op.kind != OpKind::kUpdate) continue;
    const int64_t c = op.chunks[0].chunk.value;
    updated[c] = true;
    Add(&updates, bound_.on_device_[c], Ms(op.duration_ns));
  }
  // Returns true if the first operator waits for its chunk's update.
  const auto waits = [&] {
    for (const OpRecord& op : trace_.ops) {
      if (op.kind != OpKind::kCompute) continue;
      return std::any_of(
          op.chunks.begin(), op.chunks.end(),
          [&](const ChunkUse& use) { return updated[use.chunk.value]; });
    }
    return false;
  };
  if (!waits()) return std::vector<int64_t>(end - first, -1);
  std::vector<int64_t> sums;
  double ms = 0;
  int64_t t = moments_;
  for (int64_t w = first; w < end; ++w) {
    for (; t <= EndOf(w); ++t) {
      const OpRecord& op = trace_.ops[t - moments_];
      if (op.kind == OpKind::kCompute) ms += Ms(op.duration_ns);
    }
    // Updates are over when an operator of the next step is.
    sums.push_back(ms > 0 ? AddSum(-1, updates, ms) : -1);
  }
  return sums;
}

// Limits the room while the model's operators run: at other moments queued
// copies need not have come to their turn.
void TightBound::Windows::AddRoom() {
  int64_t held = -1, on_way = -1;
  double room = kNone;
  const auto close = [&] {
    if (on_way < 0 || room == kNone) return;
    Row row = {{{on_way, 1.0}}, room};
    Add(&row, held, 1);
    program_.rows.push_back(std::move(row));
  };
  for (int64_t t = 0; t < moments_; ++t) {
    if (bound_.held_at_[t] != held || !changes_[t].empty()) {
      close();
      room = kNone;
      held = bound_.held_at_[t];
    }
    if (!changes_[t].empty()) {
      on_way = AddSum(on_way, changes_[t], 0);
    }
    if (trace_.ops[t].kind == OpKind::kCompute) {
      room = std::min(room, bound_.room_mib_[t]);
    }
  }
  close();
}

}  // namespace castor
